//! The Go programs that are the real peers in tests: `tests/interop/peers/cmd/<name>`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, thread};

/// The versions of `github.com/containerd/nri` that peers are built with, the newest first. Not
/// every program is built with each of them.
pub const VERSIONS: [&str; 5] = ["v0.12.5", "v0.10.0", "v0.8.0", "v0.6.1", "v0.3.0"];

/// The variable that makes a test fail, instead of being skipped, if Go is missing. Set it to `1`.
pub const REQUIRE_GO: &str = "NRI_REQUIRE_GO";

/// A test cannot run here. This was reported already: the test only has to return.
#[derive(Debug)]
#[must_use = "a skipped test returns"]
pub struct Skip;

/// Returns the path of the Go program `name` of the newest version: see [`peer`].
///
/// ```no_run
/// let Ok(program) = nri_tests::go::program("descriptors") else { return };
/// ```
///
/// # Panics
///
/// As [`peer`] does.
pub fn program(name: &str) -> Result<PathBuf, Skip> {
    peer(VERSIONS[0], name)
}

/// Returns the path of the Go program `name` of a version, built if it is missing or older than its
/// source.
///
/// Without a Go toolchain, an existing program is used even if it is outdated. If there is none,
/// the test is reported as skipped, or fails if [`REQUIRE_GO`] is set.
///
/// # Panics
///
/// If the program does not build, or cannot be built and [`REQUIRE_GO`] is set.
pub fn peer(version: &str, name: &str) -> Result<PathBuf, Skip> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/peers");
    let program = peers.join("bin").join(version).join(name);
    match build(&peers, version, name) {
        Ok(()) => Ok(program),
        Err(error) if error.kind() != io::ErrorKind::NotFound => fail(name, &error),
        Err(_) if program.exists() => Ok(program),
        Err(error) if required() => fail(name, &error),
        Err(error) => Err(skip(&error)),
    }
}

/// Returns the directory of a Go module, in the version that the containerd of our tests is built
/// with.
///
/// # Panics
///
/// If it cannot be had, and [`REQUIRE_GO`] is set.
pub fn module(name: &str) -> Result<PathBuf, Skip> {
    let daemon = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/daemons/v2.4.2");
    let found = Command::new("go").current_dir(daemon).args(["mod", "download", "-json", name]).output();
    let directory = found.and_then(|output| {
        let found: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let directory = found["Dir"].as_str().map(PathBuf::from);
        directory.ok_or_else(|| io::Error::other(format!("there is no module {name}")))
    });
    match directory {
        Err(error) if required() => fail(name, &error),
        directory => directory.map_err(|error| skip(&error)),
    }
}

/// The exit code of a shell for a command that does not exist.
const COMMAND_NOT_FOUND: i32 = 127;

/// Builds a program. Fails with [`io::ErrorKind::NotFound`] if there is no `go`.
fn build(peers: &Path, version: &str, name: &str) -> io::Result<()> {
    let bin = peers.join("bin");
    fs::create_dir_all(&bin)?;
    // Tests run in parallel, in one process or in several.
    let lock = File::create(bin.join(".lock"))?;
    lock.lock()?;
    let status = Command::new(peers.join("build")).args([version, name]).status()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(COMMAND_NOT_FOUND) => Err(io::Error::new(io::ErrorKind::NotFound, "no Go toolchain")),
        Some(_) | None => Err(io::Error::other(format!("its build ended with {status}"))),
    }
}

fn required() -> bool {
    env::var_os(REQUIRE_GO).is_some_and(|value| value == "1")
}

/// Reports a skipped test. Not with `eprintln`: the test harness hides its output if the test
/// passes.
fn skip(reason: &io::Error) -> Skip {
    let test = thread::current();
    let _ = writeln!(io::stderr(), "skipped: {}: {reason}", test.name().unwrap_or("a test"));
    Skip
}

#[expect(clippy::panic, reason = "a test cannot go on, and this is no reason to skip it")]
fn fail(name: &str, error: &io::Error) -> ! {
    panic!("could not build the Go program {name}: {error}")
}
