//! Calls and starts that fail.

use nri_tests::go;
use serde_json::{Value, json};

use crate::driver::{Driver, about_container};

#[test]
fn the_default_validator_rejects_in_upstreams_words() {
    let validator = json!({"enable": true, "required_plugins": ["missing"], "of_a_later_version": 1});
    let mut driver = Driver::running(&json!({"default_validator": validator}));
    let text = r#"validator "00-default-validator" rejected container adjustment, reason: validation error: required plugin "missing" not present"#;
    assert_eq!(driver.call("CreateContainer"), json!({"id": 2, "ok": false, "error": text}));
    let mut driver = Driver::running(&json!({"default_validator": {"required_plugins": ["missing"]}}));
    assert_eq!(driver.call("CreateContainer")["ok"], true, "it is not enabled");
}

fn code(answer: &Value) -> &str {
    assert_eq!(answer["ok"], false, "{answer}");
    answer["error_code"].as_str().unwrap_or("")
}

#[test]
fn a_plugin_that_does_not_answer_is_told_from_one_that_is_gone_and_one_that_refuses() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({"request_timeout_ms": 300, "strikes": 1}));
    let plugin = driver.join(&program, &["-fail-request"]);
    plugin.freeze();
    driver.say(&json!({"id": 2, "cmd": "call", "op": "StartContainer", "request_b64": about_container()}));
    let closed = driver.line();
    assert_eq!(closed["state"], "closed", "what has happened is told before the answer: {closed}");
    let late = driver.line();
    assert_eq!(code(&late), "deadline");
    assert!(late["error"].as_str().unwrap().starts_with("plugin 10-stub failed to handle StartContainer request"));

    let _plugin = driver.join(&program, &["-fail-request", "-die", "StartContainer", "-refuse", "StopContainer"]);
    let refused = driver.call("StopContainer");
    assert_eq!(code(&refused), "");
    driver.say(&json!({"id": 2, "cmd": "call", "op": "StartContainer", "request_b64": about_container()}));
    assert_eq!(driver.line()["state"], "closed");
    assert_eq!(code(&driver.line()), "closed");
}

#[test]
fn a_callers_own_deadline_and_cancellation_are_told() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({}));
    let plugin = driver.join(&program, &[]);
    plugin.freeze();
    let call = json!({"cmd": "call", "op": "StartContainer", "request_b64": about_container(), "timeout_ms": 50});
    assert_eq!(code(&driver.ask(&call)), "deadline");
    let call = json!({"cmd": "call_async", "op": "StartContainer", "request_b64": about_container(), "tag": "t"});
    assert_eq!(driver.ask(&call)["ok"], true);
    assert_eq!(driver.ask(&call)["error"], "tag \"t\" is in use");
    assert_eq!(driver.ask(&json!({"id": 5, "cmd": "cancel", "tag": "t"})), json!({"id": 5, "ok": true}));
    let done = driver.line();
    assert_eq!((&done["event"], &done["tag"], code(&done)), (&json!("done"), &json!("t"), "canceled"));
    assert_eq!(driver.ask(&json!({"id": 6, "cmd": "cancel", "tag": "t"})), json!({"id": 6, "ok": false}));
}

#[test]
fn a_conflict_has_no_code() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({}));
    let _one = driver.join(&program, &["-index", "10", "-adjust", "env=A=1"]);
    let _other = driver.join(&program, &["-index", "20", "-adjust", "env=A=2"]);
    let refused = driver.call("CreateContainer");
    assert_eq!(code(&refused), "");
    assert_eq!(refused["error"], r#"plugins "20-stub" and "10-stub" both tried to set Env A"#);
}

#[test]
fn a_call_that_cannot_be_read_fails_by_its_event() {
    let mut driver = Driver::running(&json!({}));
    assert_eq!(driver.ask(&json!({"id": 2, "cmd": "call_async", "op": "Nothing", "tag": "t"}))["ok"], true);
    let done = json!({"event": "done", "tag": "t", "ok": false, "error": "unknown op \"Nothing\""});
    assert_eq!(driver.line(), done);
    let call = json!({"cmd": "call", "op": "StartContainer", "request_b64": "/////w=="});
    assert!(driver.ask(&call)["error"].as_str().unwrap().starts_with("request: "));
}

#[test]
fn a_line_that_cannot_be_read_is_answered_by_its_id() {
    let mut driver = Driver::start();
    let refused = driver.ask(&json!({"id": 7, "cmd": ["hello"]}));
    assert_eq!((&refused["id"], &refused["ok"]), (&json!(7), &json!(false)));
    assert_eq!(driver.ask(&json!({"id": 8, "cmd": "set_objects", "pods_b64": null})), json!({"id": 8, "ok": true}));
}

#[test]
fn what_there_is_not_is_refused() {
    let mut driver = Driver::start();
    let mut error = |line: Value| driver.ask(&line)["error"].as_str().unwrap_or("none").to_owned();
    assert_eq!(error(json!({"cmd": "start", "layer": "cri"})), "unknown layer \"cri\"");
    assert_eq!(error(json!({"cmd": "start", "builtin": 1})), "built-in plugins answer with the payloads");
    assert_eq!(error(json!({"cmd": "profile", "kind": "cpu", "action": "start"})), "this driver takes no profiles");
}
