//! Go's plugins: their joins, their requests, the metrics, and their ends.

use nri_proto::{Container, Pod, Resources, Update, api};
use nri_tests::go;
use serde_json::{Value, json};

use crate::driver::{Driver, Plugin, encode};

#[test]
fn each_synchronization_asks_the_controller_if_it_wants_to_be_asked() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::start();
    let socket = driver.socket();
    let start = json!({"id": 1, "cmd": "start", "socket": socket, "callbacks": true, "sync_events": true});
    let at_start = driver.ask(&start);
    assert_eq!(at_start["event"], "sync", "there is one for the plugins that are there at the start: there are none");
    driver.say(&json!({"cmd": "sync_reply", "seq": at_start["seq"]}));
    assert_eq!(driver.line(), json!({"id": 1, "ok": true}));

    let mut plugin = Plugin::start(&program, &socket, &[]);
    let sync = driver.line();
    assert_eq!(sync["event"], "sync");
    let pod = encode(&api::PodSandbox::from(Pod { id: "p".to_owned(), ..Pod::default() }));
    let container = encode(&api::Container::from(Container { id: "c".to_owned(), ..Container::default() }));
    let objects = json!({"cmd": "sync_reply", "seq": sync["seq"], "pods_b64": [pod], "containers_b64": [container]});
    driver.say(&objects);
    assert_eq!(driver.line(), json!({"event": "synced", "plugin": "10-stub", "updates_b64": []}));
    assert_eq!(driver.line(), json!({"event": "plugin", "plugin": "10-stub", "state": "active", "reason": ""}));
    plugin.told("runtime");
    let heard = plugin.told("heard");
    assert_eq!((&heard["pods"], &heard["containers"]), (&json!(1), &json!(1)));
    let syncs = driver.ask(&json!({"cmd": "syncs"}))["syncs"].take();
    assert_eq!(syncs.as_array().unwrap().len(), 2);
    assert!(syncs[1]["t1_ns"].as_i64() >= syncs[1]["t0_ns"].as_i64());
    assert_eq!(driver.ask(&json!({"cmd": "syncs"}))["syncs"], json!([]));
}

#[test]
fn a_plugin_whose_synchronization_is_to_fail_is_closed_and_never_active() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({}));
    assert_eq!(driver.ask(&json!({"id": 2, "cmd": "set_objects", "fail_sync": true})), json!({"id": 2, "ok": true}));
    let _plugin = Plugin::start(&program, &driver.socket(), &[]);
    assert_eq!(driver.line()["event"], "synced");
    let closed = driver.line();
    assert_eq!((&closed["plugin"], &closed["state"]), (&json!("10-stub"), &json!("closed")));
    assert!(closed["reason"].as_str().unwrap().ends_with("(fail_sync)"), "{closed}");
    assert_eq!(driver.ask(&json!({"cmd": "plugins"}))["plugins"], json!([]));
    driver.ask(&json!({"cmd": "stop"}));
    let refused = driver.ask(&json!({"cmd": "start"}));
    assert!(refused["error"].as_str().unwrap().starts_with("failed to synchronize pre-installed"), "{refused}");
    assert_eq!(driver.ask(&json!({"cmd": "call", "op": "RunPodSandbox"}))["error"], "not started");
}

#[test]
fn a_block_waits_for_a_synchronization_under_way_and_is_answered_after_what_came_of_it() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::start();
    let socket = driver.socket();
    let start = json!({"id": 1, "cmd": "start", "socket": socket, "callbacks": true, "sync_events": true});
    let at_start = driver.ask(&start);
    driver.say(&json!({"cmd": "sync_reply", "seq": at_start["seq"]}));
    driver.line();
    let _plugin = Plugin::start(&program, &socket, &[]);
    let sync = driver.line();
    driver.say(&json!({"id": 2, "cmd": "block_sync"}));
    driver.say(&json!({"cmd": "sync_reply", "seq": sync["seq"]}));
    assert_eq!(driver.line()["event"], "synced");
    assert_eq!(driver.line()["state"], "active");
    assert_eq!(driver.line(), json!({"id": 2, "ok": true}));
    assert_eq!(driver.ask(&json!({"cmd": "block_sync"}))["ok"], true);
    assert_eq!(driver.ask(&json!({"cmd": "unblock_sync"}))["ok"], true);
    assert_eq!(driver.ask(&json!({"cmd": "unblock_sync"}))["ok"], true);
    assert_eq!(driver.ask(&json!({"cmd": "unblock_sync"}))["error"], "not blocked");
}

#[test]
fn a_plugin_is_told_what_the_start_says_of_the_runtime() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({
        "name": "crid", "version": "v9", "nri_version": "v7", "request_timeout_ms": 700, "registration_timeout_ms": 800,
        "plugin_path": "/nonexistent", "plugin_config_path": "/nonexistent", "layer": "adaptation", "strikes": 2,
        "policy": "[plugin_defaults]\nmode = \"shadow\"", "default_validator": null,
    }));
    let mut plugin = driver.join(&program, &["-index", "42"]);
    let told = plugin.told("runtime");
    assert_eq!((&told["runtime"], &told["version"], &told["nri"]), (&json!("crid"), &json!("v9"), &json!("v7")));
    assert_eq!((&told["request_timeout_ms"], &told["registration_timeout_ms"]), (&json!(700), &json!(800)));
    let plugins = driver.ask(&json!({"cmd": "plugins"}))["plugins"].take();
    assert_eq!(plugins, json!([{"name": "stub", "index": "42", "events": 8191, "state": "active"}]));
}

#[test]
fn nobody_connects_where_connections_are_disabled() {
    let driver = Driver::running(&json!({"disable_connections": true}));
    assert!(!driver.directory().join("nri.sock").exists());
}

#[test]
fn what_a_plugin_asks_for_by_itself_reaches_the_controller_and_what_failed_reaches_the_plugin() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({}));
    let mut plugin = driver.join(&program, &[]);
    plugin.say("update c1 c2");
    let asked = driver.line();
    assert_eq!((&asked["event"], asked["updates_b64"].as_array().unwrap().len()), (&json!("update"), 2));
    let failed = encode(&api::ContainerUpdate::from(Update::new("c2", Resources::default())));
    driver.say(&json!({"cmd": "update_reply", "seq": asked["seq"], "failed_b64": [failed]}));
    assert_eq!(plugin.told("updated")["failed"], json!(["c2"]));
    plugin.say("update c1 c2");
    let seq = driver.line()["seq"].take();
    driver.say(&json!({"cmd": "update_reply", "seq": seq, "error": "the disk is full"}));
    assert_eq!(plugin.told("updated")["error"], json!("rpc error: code = Unknown desc = the disk is full"));
    plugin.say("evict c1");
    let asked = driver.line();
    assert_eq!(asked["evict_b64"].as_array().unwrap().len(), 1);
    driver.say(&json!({"cmd": "update_reply", "seq": asked["seq"]}));
    plugin.told("evicted");
}

/// Takes the metrics, without times.
fn metrics(driver: &mut Driver) -> Vec<String> {
    let metrics = driver.ask(&json!({"cmd": "metrics"}))["metrics"].take();
    let text = |metric: &Value| match metric["kind"].as_str().unwrap() {
        "count" => metric["count"].to_string(),
        "adjustments" => {
            let numbers = format!("{} {} {}", metric["adjusts"], metric["updates"], metric["evicts"]);
            format!("{} {} {numbers}", metric["plugin"].as_str().unwrap(), metric["op"].as_str().unwrap())
        }
        kind => format!("{} {} {kind}", metric["plugin"].as_str().unwrap(), metric["op"].as_str().unwrap()),
    };
    metrics.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn each_request_is_counted_as_go_counts_it() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::running(&json!({"record_metrics": true}));
    assert_eq!(metrics(&mut driver), ["0"]);
    let arguments =
        ["-validate", "-adjust", "env=A=1", "-update", "CreateContainer:x=3", "-evict", "CreateContainer:y=z"];
    let _plugin = driver.join(&program, &arguments);
    assert_eq!(
        metrics(&mut driver),
        ["10-stub Synchronize latency", "10-stub Synchronize invocation", "10-stub Synchronize false 0 0", "1"]
    );
    assert_eq!(driver.call("CreateContainer")["ok"], true);
    assert_eq!(driver.call("StartContainer")["ok"], true);
    assert_eq!(
        metrics(&mut driver),
        [
            "10-stub CreateContainer latency",
            "10-stub CreateContainer invocation",
            "10-stub CreateContainer true 1 1",
            "10-stub ValidateContainerAdjustment latency",
            "10-stub ValidateContainerAdjustment invocation",
            "1",
            "10-stub StartContainer latency",
            "10-stub StartContainer invocation",
            "1",
        ]
    );
    assert_eq!(Driver::running(&json!({})).ask(&json!({"cmd": "metrics"}))["error"], "started without record_metrics");
}
