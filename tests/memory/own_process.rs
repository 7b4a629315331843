//! Runs a test in a process of its own.
//!
//! Cargo runs all tests of a target as threads of one process. A test that counts the descriptors,
//! children or allocations of the process, or changes a limit of the process, would interfere with
//! the other tests.

use std::process::Command;

/// Set in a process that runs a single test.
const ALONE: &str = "NRI_TEST_RUNS_ALONE";

/// Runs `test` with `run`, in a process in which no other test runs.
///
/// `test` must be a closure or an async block that is written in the test function itself: the type
/// of `test` names that function, and the new process runs the function again.
///
/// # Panics
///
/// Panics if the test fails.
pub(crate) fn in_own_process<T>(test: T, run: impl FnOnce(T)) {
    if std::env::var_os(ALONE).is_some() {
        return run(test);
    }
    let path = std::any::type_name::<T>();
    let name = path.split_once("::").and_then(|(_, name)| name.strip_suffix("::{{closure}}"));
    let name = name.expect("the type of what is written in a function has the function's name");
    let output = Command::new(std::env::current_exe().expect("a program knows where it lies"))
        .args([name, "--exact", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("a test can be run again");
    let [said, complained] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let has_passed = output.status.success() && said.contains("test result: ok. 1 passed");
    assert!(has_passed, "{name} failed in a process of its own:\n{said}{complained}");
}
