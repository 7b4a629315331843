//! The Go programs that stand for real peers: `tests/interop/peers/cmd/<name>`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, thread};

/// Set to `1` where a test without Go is a failed test.
pub const REQUIRE_GO: &str = "NRI_REQUIRE_GO";

/// Says that a test cannot run here. It has been reported: the test has only to return.
#[derive(Debug)]
#[must_use = "a skipped test returns"]
pub struct Skip;

/// Returns the path of the Go program `name`, built if it is missing or older than its source.
///
/// Without a Go toolchain a program that was built before is good enough; without one, the calling test is
/// reported as skipped, or fails if [`REQUIRE_GO`] says so.
///
/// ```no_run
/// let Ok(program) = nri_tests::go::program("descriptors") else { return };
/// ```
///
/// # Panics
///
/// If the program does not build, or cannot be built and [`REQUIRE_GO`] is set.
pub fn program(name: &str) -> Result<PathBuf, Skip> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/peers");
    let program = module.join("bin").join(name);
    match build(&module, &program, name) {
        Ok(()) => Ok(program),
        Err(error) if error.kind() != io::ErrorKind::NotFound => fail(name, &error),
        Err(_) if program.exists() => Ok(program),
        Err(_) if required() => fail(name, &io::Error::other(NO_GO)),
        Err(_) => Err(skip(NO_GO)),
    }
}

const NO_GO: &str = "no Go toolchain";

/// Fails with [`io::ErrorKind::NotFound`] if there is no `go`.
fn build(module: &Path, program: &Path, name: &str) -> io::Result<()> {
    let bin = module.join("bin");
    fs::create_dir_all(&bin)?;
    // Tests run in parallel, in one process or in several.
    let lock = File::create(bin.join(".lock"))?;
    lock.lock()?;
    if is_current(program, module) {
        return Ok(());
    }
    let main = format!("./cmd/{name}");
    let status = Command::new("go").current_dir(module).args(["build", "-o"]).arg(program).arg(main).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("go build: {status}"))) }
}

fn is_current(program: &Path, module: &Path) -> bool {
    match (modified(program), newest_source(module)) {
        (Ok(built), Ok(changed)) => built >= changed,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn newest_source(dir: &Path) -> io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        newest = newest.max(match entry.file_type()?.is_dir() {
            true if entry.file_name() == "bin" => continue,
            true => newest_source(&entry.path())?,
            false => modified(&entry.path())?,
        });
    }
    Ok(newest)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

fn required() -> bool {
    env::var_os(REQUIRE_GO).is_some_and(|value| value == "1")
}

/// Not with `eprintln`, whose text a test that passes keeps to itself.
fn skip(reason: &str) -> Skip {
    let test = thread::current();
    let _ = writeln!(io::stderr(), "skipped: {}: {reason}", test.name().unwrap_or("a test"));
    Skip
}

#[expect(clippy::panic, reason = "a test cannot go on, and this is no reason to skip it")]
fn fail(name: &str, error: &io::Error) -> ! {
    panic!("could not build the Go program {name}: {error}")
}
