//! Commands and their answers, and the merge, which needs no plugin.

use std::process::{Command, Stdio};

use nri_proto::{
    Adjustment, CdiDevice, Container, CreateReply, EnvVar, Owners, Pids, Resources, Update, UpdateReply, api,
};
use nri_tests::go;
use serde_json::{Value, json};

use crate::driver::{Driver, decode, encode};

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
        json!({"id": 12, "ok": true, "call": {"response_b64": ""}})
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
    assert_eq!(driver.line(), json!({"event": "synced", "plugin": "07-bench", "updates_b64": []}));
    assert_eq!(driver.line(), json!({"event": "plugin", "plugin": "07-bench", "state": "active", "reason": ""}));
    let waited = driver.ask(&json!({"id": 2, "cmd": "wait_plugins", "n": 1, "timeout_ms": 1000}));
    assert_eq!((&waited["ok"], &waited["wait"]["n"]), (&json!(true), &json!(1)));
    let plugins = driver.ask(&json!({"id": 3, "cmd": "plugins"}));
    assert_eq!(plugins["plugins"][0]["name"], "bench");
    assert_eq!(driver.ask(&json!({"id": 4, "cmd": "call", "op": "StartContainer"}))["ok"], true);
    driver.say(&json!({"id": 5, "cmd": "call_async", "op": "StopPodSandbox", "tag": "t"}));
    assert_eq!(driver.line(), json!({"id": 5, "ok": true}));
    assert_eq!(driver.line(), json!({"event": "done", "tag": "t", "ok": true}));
    plugin.kill().unwrap();
    plugin.wait().unwrap();
    let closed = driver.line();
    assert_eq!((&closed["event"], &closed["state"]), (&json!("plugin"), &json!("closed")));
}

/// Merges replies that set one variable each.
fn merge_env(replies: &[(&str, &str)]) -> Value {
    let reply = |(plugin, variable): &(&str, &str)| {
        let mut adjustment = Adjustment::default();
        adjustment.env.set(EnvVar::new(*variable, "1")).unwrap();
        let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
        json!({"plugin": plugin, "response_b64": encode(&api::CreateContainerResponse::from(reply))})
    };
    let container = Some(Container { id: "c".to_owned(), ..Container::default() }.into()).into();
    let request = api::CreateContainerRequest { container, ..Default::default() };
    let replies: Vec<Value> = replies.iter().map(reply).collect();
    json!({"cmd": "merge", "op": "CreateContainer", "request_b64": encode(&request), "replies": replies, "seen": true})
}

fn env_seen(merge: &Value) -> Vec<Vec<String>> {
    let seen = merge["seen_b64"].as_array().unwrap().iter();
    seen.map(|request| decode::<api::CreateContainerRequest>(request).container.unwrap().env).collect()
}

#[test]
fn replies_are_merged_by_index_then_in_the_order_given() {
    let mut driver = Driver::start();
    let merge = driver.ask(&merge_env(&[("20-z", "A"), ("10-b", "B"), ("10-a", "C")]))["merge"].take();

    let response: api::CreateContainerResponse = decode(&merge["response_b64"]);
    let names: Vec<_> = response.adjust.env.iter().map(|variable| variable.key.clone()).collect();
    assert_eq!(names, ["B", "C", "A"]);
    assert_eq!(env_seen(&merge), [vec![], vec!["B=1"], vec!["B=1", "C=1"]]);
    let owners = Owners::from(decode::<api::OwningPlugins>(&merge["owners_b64"]));
    let owner = owners.owner("c", nri_proto::Field::Env, "A").unwrap();
    assert!(owner.plugins().eq(["20-z"]));
}

#[test]
fn a_conflict_is_what_a_merge_comes_to_and_no_failure() {
    let mut driver = Driver::start();
    let answer = driver.ask(&merge_env(&[("10-a", "A"), ("20-b", "A"), ("30-c", "C")]));
    let merge = &answer["merge"];
    assert_eq!(answer["ok"], true);
    assert_eq!(merge["error"], r#"plugins "20-b" and "10-a" both tried to set Env A"#);
    assert_eq!((&merge["response_b64"], &merge["owners_b64"]), (&json!(""), &json!("")));
    assert_eq!(env_seen(merge), [vec![], vec!["A=1"]]);
}

#[test]
fn an_update_of_the_container_itself_is_the_last_and_absent_if_nobody_makes_one() {
    let mut driver = Driver::start();
    let mut merged = |containers: &[&str]| -> Vec<String> {
        let resources = || Resources { pids: Some(Pids { limit: 7, ..Pids::default() }), ..Resources::default() };
        let updates = containers.iter().map(|container| Update::new(*container, resources())).collect();
        let reply = api::UpdateContainerResponse::from(UpdateReply { updates, ..UpdateReply::default() });
        let container = Some(Container { id: "c".to_owned(), ..Container::default() }.into()).into();
        let request = api::UpdateContainerRequest { container, ..Default::default() };
        let replies = json!([{"plugin": "10-a", "response_b64": encode(&reply)}]);
        let line =
            json!({"cmd": "merge", "op": "UpdateContainer", "request_b64": encode(&request), "replies": replies});
        let response: api::UpdateContainerResponse = decode(&driver.ask(&line)["merge"]["response_b64"]);
        response.update.into_iter().map(|update| update.container_id).collect()
    };
    assert_eq!(merged(&["c", "x"]), ["x", "c"]);
    assert_eq!(merged(&["x"]), ["x"]);
    assert!(merged(&[]).is_empty());
}

#[test]
fn a_merge_that_cannot_be_read_is_told() {
    let mut driver = Driver::start();
    let mut error = |line: Value| driver.ask(&line)["error"].take();
    assert_eq!(error(json!({"cmd": "merge", "op": "StartContainer"})), r#"op "StartContainer" has nothing to merge"#);
    let reply = |plugin: &str, response: &str| json!({"cmd": "merge", "op": "StopContainer", "replies": [{"plugin": plugin, "response_b64": response}]});
    assert_eq!(error(reply("10-a", "?")), "plugin 10-a: not base64: Invalid symbol 63, offset 0.");
    assert!(error(reply("nobody", "")).as_str().unwrap().starts_with("plugin nobody: "));
}

#[test]
fn a_spec_is_adjusted_or_the_field_is_named() {
    let mut driver = Driver::start();
    let mut adjustment = Adjustment::default();
    adjustment.env.set(EnvVar::new("A", "1")).unwrap();
    adjustment.cdi_devices.push(CdiDevice { name: "vendor.com/class=a".to_owned(), ..CdiDevice::default() });
    let mut line = |id: i64, adjustment: &Adjustment| {
        let encoded = encode(&api::ContainerAdjustment::from(adjustment.clone()));
        let spec = json!({"z": 1, "a": {"unknown": null}});
        driver.ask(&json!({"id": id, "cmd": "generate", "spec": spec, "adjust_b64": encoded}))
    };
    let expected = r#"{"spec":{"z":1,"a":{"unknown":null},"process":{"env":["A=1"]}}}"#;
    assert_eq!(line(1, &adjustment)["generate"].to_string(), expected);

    adjustment.env.set(EnvVar::new("A=B", "1")).unwrap();
    let error = r#"cannot adjust Env "A=B": the name has an equals sign"#;
    assert_eq!(line(2, &adjustment), json!({"id": 2, "ok": false, "error": error}));
}
