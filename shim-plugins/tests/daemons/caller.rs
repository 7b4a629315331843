//! The Go program that calls shims over gRPC.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The exit status of a shell for a command that does not exist.
const NO_COMMAND: i32 = 127;

/// Builds the program. Returns `None` if there is no Go and none is required.
pub(crate) fn caller() -> Option<PathBuf> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/interop/peers");
    let status = Command::new(peers.join("build")).args(["v0.12.5", "grpccaller"]).status().unwrap();
    let program = peers.join("bin/v0.12.5/grpccaller");
    if status.success() || status.code() == Some(NO_COMMAND) && program.exists() {
        return Some(program);
    }
    let is_required = std::env::var_os("NRI_REQUIRE_GO").is_some_and(|value| value == "1");
    assert!(status.code() == Some(NO_COMMAND) && !is_required, "could not build {}", program.display());
    let _ = writeln!(std::io::stderr(), "skipped: a call over gRPC: no Go toolchain");
    None
}

/// Makes calls over one connection, and returns the codes and the texts of the answers.
pub(crate) fn ask(caller: &Path, target: &str, questions: &[Value]) -> Vec<(String, String)> {
    let mut child = Command::new(caller).arg(target).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for question in questions {
        writeln!(input, "{question}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let lines: Vec<_> = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), questions.len());
    let read = |line: &[u8], key: &str| {
        let answer: Value = serde_json::from_slice(line).unwrap();
        answer[key].as_str().unwrap().to_owned()
    };
    lines.into_iter().map(|line| (read(line, "code"), read(line, "text"))).collect()
}
