//! Tests of shims as processes, without containerd and without root.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shim_plugins::protobuf::Message as _;
use shim_plugins::task::api::DeleteResponse;

/// Returns the path of an example, which is built with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

#[test]
fn what_the_code_of_a_shim_prints_in_delete_does_not_get_into_the_answer() {
    let bundle = tempfile::tempdir().unwrap();
    // The name that `start` would choose: the SHA-256 of `/nowhere/ns/c1`.
    let name = "2a31a7b3ff821eb0d5b9468b0296abaf6f7857221701b656d061e1350a93ebc2";
    let socket = bundle.path().join("sockets").join(name);
    fs::write(bundle.path().join("address"), format!("unix://{}", socket.display())).unwrap();
    let output = Command::new(example("rude_shim"))
        .args(["-namespace", "ns", "-id", "c1", "-address", "/nowhere", "delete"])
        .current_dir(bundle.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "cleaning up\n");
    assert_eq!(DeleteResponse::parse_from_bytes(&output.stdout).unwrap().exit_status, 137);
}
