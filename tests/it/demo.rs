//! What `make run` shows.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs the demonstration with these arguments, and returns what it prints. `None` if the examples
/// were not built, which they are with the tests of the whole workspace.
fn run(arguments: &[&str]) -> Result<Option<String>> {
    for name in ["demo", "ulimit-adjuster", "device-injector"] {
        let program = example(name)?;
        if !program.exists() {
            // Not with `eprintln`: the test harness hides its output if the test passes.
            writeln!(io::stderr(), "skipped: the demonstration: {} was not built", program.display())?;
            return Ok(None);
        }
    }
    let place = tempfile::tempdir()?;
    let shown = Command::new(example("demo")?).args(arguments).env("TMPDIR", place.path()).output()?;
    let text = String::from_utf8(shown.stdout)?;
    ensure!(shown.status.success(), "{text}{}", String::from_utf8_lossy(&shown.stderr));
    ensure!(place.path().read_dir()?.next().is_none(), "it left something behind");
    Ok(Some(text))
}

/// Returns the path of an example, which is built with the tests of the whole workspace.
fn example(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(|deps| deps.parent()).context("tests lie below the target directory")?;
    Ok(target.join("examples").join(name))
}

#[test]
fn the_demonstration_shows_who_changed_what_and_leaves_nothing() -> Result<()> {
    let Some(text) = run(&[])? else { return Ok(()) };
    let expected = [
        "10-ulimit-adjuster  joined, to be told of CreateContainer",
        "20-device-injector  joined, to be told of CreateContainer",
        "not created: plugin 10-ulimit-adjuster failed to handle CreateContainer request: failed to parse type: \"nofiles\"",
        "app    10-ulimit-adjuster set Rlimits RLIMIT_NOFILE: ",
        "app    20-device-injector set Devices /dev/fuse: ",
        "typo   10-ulimit-adjuster refused CreateContainer",
        "10-ulimit-adjuster   2 requests, ",
        "20-device-injector  ended, exit status: 0",
    ];
    for line in expected {
        ensure!(text.contains(line), "it does not say {line:?}: {text}");
    }
    ensure!(!text.contains('\x1b'), "it is coloured, and this is no terminal: {text}");
    Ok(())
}

#[test]
fn annotations_of_the_user_are_shown_and_so_is_a_plugin_that_changed_nothing() -> Result<()> {
    let annotations = "example.org/note=two words ulimits.noderesource.dev/container.app=[]";
    let Some(text) = run(&["--annotate", annotations])? else { return Ok(()) };
    for line in ["example.org/note: two words", "app    10-ulimit-adjuster changed nothing"] {
        ensure!(text.contains(line), "it does not say {line:?}: {text}");
    }
    Ok(())
}
