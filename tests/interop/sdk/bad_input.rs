//! User errors: each gives one sentence, and exit code 1.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::examples::example;
use crate::sdk::host::Host;
use crate::stubs::Version;

const EXAMPLES: [&str; 4] = ["logger", "ulimit-adjuster", "device-injector", "hook-injector"];

/// Runs a program that must end by itself, and returns its error message: one line that begins with
/// its name.
fn complaint(name: &str, args: &[&str]) -> String {
    let output = Command::new(example(name)).args(args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{name} {args:?}: {said}");
    assert_eq!(output.stdout, b"", "{name} {args:?}");
    assert_eq!(said.lines().count(), 1, "{name} {args:?}: {said}");
    let said = said.trim_end().strip_prefix(&format!("{name}: ")).unwrap_or_else(|| panic!("{said}"));
    said.to_owned()
}

/// Checks that the error message of each program has these words.
fn all_complain(args: &[&str], words: &[&str]) {
    for name in EXAMPLES {
        let said = complaint(name, args);
        assert!(words.iter().all(|word| said.contains(word)), "{name} {args:?}: {said}");
    }
}

#[test]
fn an_index_is_two_digits() {
    all_complain(&["--idx", "7", "--socket", "/nonexistent/nri.sock"], &["\"7\"", "index"]);
    all_complain(&["--idx", "xx", "--socket", "/nonexistent/nri.sock"], &["\"xx\"", "index"]);
    all_complain(&["--socket", "/nonexistent/nri.sock"], &["index", "10-"]);
}

#[test]
fn a_name_is_a_word() {
    all_complain(&["--idx", "10", "--name", "not a name", "--socket", "/nonexistent/nri.sock"], &["\"not a name\""]);
}

#[test]
fn there_must_be_a_socket() {
    all_complain(&["--idx", "10", "--socket", "/nonexistent/nri.sock"], &["/nonexistent/nri.sock", "No such file"]);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    all_complain(&["--idx", "10", "--socket", file.to_str().unwrap()], &[file.to_str().unwrap(), "refused"]);
}

#[test]
fn a_flag_is_one_that_there_is() {
    all_complain(&["--colour", "red"], &["--colour", "--help"]);
    all_complain(&["--idx"], &["--idx"]);
}

#[test]
fn a_configuration_can_be_read() {
    all_complain(&["--idx", "10", "--config", "/nonexistent/conf"], &["/nonexistent/conf", "No such file"]);
}

#[test]
fn an_event_is_one_that_there_is() {
    let said = complaint("logger", &["--idx", "10", "--events", "StartContainer,EndContainer"]);
    assert!(said.contains("endcontainer"), "{said}");
}

#[test]
fn hooks_are_hooks() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("broken.json"), "{").unwrap();
    let said = complaint("hook-injector", &["--idx", "10", "--hooks-dir", folder.path().to_str().unwrap()]);
    assert!(said.contains("broken.json"), "{said}");
}

/// The plugin reads its configuration only when the runtime passes it on or asks for it.
#[tokio::test]
async fn a_configuration_that_makes_no_sense_ends_the_plugin() {
    let Some(host) = Host::new(Version::V0_12_5) else { return };
    let runtime = host.start(&[]).await;
    for (text, word) in
        [("events: [EndContainer]", "endcontainer"), ("events: 7", "line 1, column 9"), ("[", "configuration")]
    {
        let config = host.path("config");
        fs::write(&config, text).unwrap();
        let mut command = Command::new(example("logger"));
        command.arg("--socket").arg(host.path("nri.sock")).args(["--idx", "10", "--config"]).arg(config);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("logger: ") && last.contains(word), "{said}");
    }
    runtime.stop().await;
}

#[tokio::test]
async fn a_plugin_that_is_told_to_stop_ends_well() {
    let Some(host) = Host::new(Version::V0_12_5) else { return };
    let mut runtime = host.start(&[]).await;
    for name in EXAMPLES {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let plugin = host.plugin(&example(name), &["--idx", "10"]);
            runtime.joined(&format!("10-{name}")).await;
            plugin.signal(signal);
            assert!(plugin.ended().await.unwrap().success(), "{name}");
        }
    }
    runtime.stop().await;
}
