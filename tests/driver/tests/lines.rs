//! The driver, driven: what a controller relies on.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nri_tests::go;
use serde_json::{Value, json};

struct Driver {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
}

impl Driver {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nri-driver"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, directory: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> String {
        self.directory.path().join("nri.sock").to_str().unwrap().to_owned()
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, line: &Value) -> Value {
        self.say(line);
        self.line()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_command_is_answered_once_and_in_order() {
    let mut driver = Driver::start();
    let hello = driver.ask(&json!({"id": 7, "cmd": "hello", "nonsense": true}));
    assert_eq!((&hello["id"], &hello["ok"], &hello["hello"]["protocol"]), (&json!(7), &json!(true), &json!(2)));
    let unknown = driver.ask(&json!({"id": 8, "cmd": "frobnicate"}));
    assert_eq!(unknown, json!({"id": 8, "ok": false, "error": "unknown command \"frobnicate\""}));
    let early = driver.ask(&json!({"id": 9, "cmd": "call", "op": "RunPodSandbox"}));
    assert_eq!(early, json!({"id": 9, "ok": false, "error": "not started"}));
    assert_eq!(driver.ask(&json!({"id": 10, "cmd": "start"})), json!({"id": 10, "ok": true}));
    assert_eq!(driver.ask(&json!({"id": 11, "cmd": "start"}))["error"], "already started");
    assert_eq!(
        driver.ask(&json!({"id": 12, "cmd": "call", "op": "RunPodSandbox"})),
        json!({"id": 12, "ok": true, "call": {}})
    );
    assert_eq!(driver.ask(&json!({"id": 13, "cmd": "call", "op": "Nothing"}))["ok"], false);
    assert_eq!(driver.ask(&json!({"id": 14, "cmd": "quit"})), json!({"id": 14, "ok": true}));
    assert!(driver.child.wait().unwrap().success());
}

#[test]
fn a_policy_that_cannot_be_read_is_told() {
    let mut driver = Driver::start();
    let refused = driver.ask(&json!({"id": 1, "cmd": "start", "policy": "[plugin_defaults]\nstrike = 1"}));
    assert!(refused["error"].as_str().unwrap().contains("strikes"), "{refused}");
}

#[test]
fn a_go_plugin_is_told_of_asked_and_seen() {
    let Ok(program) = go::program("benchplugin") else { return };
    let mut driver = Driver::start();
    let socket = driver.socket();
    assert_eq!(driver.ask(&json!({"id": 1, "cmd": "start", "socket": socket, "callbacks": true}))["ok"], true);
    let mut plugin =
        Command::new(program).args(["-socket", &socket, "-index", "7"]).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(driver.line(), json!({"event": "plugin", "plugin": "07-bench", "state": "active", "reason": ""}));
    let waited = driver.ask(&json!({"id": 2, "cmd": "wait_plugins", "n": 1, "timeout_ms": 1000}));
    assert_eq!((&waited["ok"], &waited["wait"]["n"]), (&json!(true), &json!(1)));
    let plugins = driver.ask(&json!({"id": 3, "cmd": "plugins"}));
    assert_eq!(plugins["plugins"][0]["name"], "bench");
    assert_eq!(driver.ask(&json!({"id": 4, "cmd": "call", "op": "StartContainer"}))["ok"], true);
    driver.say(&json!({"id": 5, "cmd": "call_async", "op": "StopPodSandbox", "tag": "t"}));
    let mut lines = [driver.line(), driver.line()];
    lines.sort_by_key(|line| line.get("event").is_some());
    assert_eq!(lines, [json!({"id": 5, "ok": true}), json!({"event": "done", "tag": "t", "ok": true})]);
    plugin.kill().unwrap();
    plugin.wait().unwrap();
    let closed = driver.line();
    assert_eq!((&closed["event"], &closed["state"]), (&json!("plugin"), &json!("closed")));
}
