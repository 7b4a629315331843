//! Plugins that the runtime launches when it starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use nri_tests::go;
use serde_json::json;

use crate::driver::Driver;

#[test]
fn plugins_are_launched_and_there_when_the_start_is_answered() {
    let Ok(program) = go::program("stubplugin") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("plugins")).unwrap();
    let put = |name: &str, text: String| {
        fs::write(path(name), text).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
    };
    put("plugins/10-first", format!("#!/bin/sh\nexec {} >{}\n", program.display(), path("diary").display()));
    put("plugins/badly-named", String::new());
    fs::write(path("first.conf"), "verbatim").unwrap();

    let mut driver = Driver::start();
    let start = json!({
        "id": 1, "cmd": "start", "callbacks": true, "sync_events": true,
        "plugin_path": path("plugins"), "plugin_config_path": directory.path(),
    });
    // There is one synchronization for all plugins that exist at the start.
    let sync = driver.ask(&start);
    assert_eq!(sync["event"], "sync");
    driver.say(&json!({"cmd": "sync_reply", "seq": sync["seq"]}));
    assert_eq!(driver.line(), json!({"event": "synced", "plugin": "10-first", "updates_b64": []}));
    assert_eq!(driver.line()["state"], "active");
    assert_eq!(driver.line(), json!({"id": 1, "ok": true}));
    let plugins = driver.ask(&json!({"cmd": "plugins"}))["plugins"].take();
    assert_eq!(plugins, json!([{"name": "first", "index": "10", "events": 8191, "state": "active"}]));
    assert_eq!(driver.call("StartContainer")["ok"], true);
    driver.say(&json!({"id": 3, "cmd": "stop"}));
    while driver.line()["id"] != 3 {}
    let diary = fs::read_to_string(path("diary")).unwrap();
    assert!(diary.contains("\"config\":\"verbatim\"") && diary.contains("\"heard\":\"Shutdown\""), "{diary}");
}

#[test]
fn a_start_that_fails_leaves_no_launched_plugin() {
    let Ok(program) = go::program("stubplugin") else { return };
    let plugins = tempfile::tempdir().unwrap();
    let pid = plugins.path().join("pid");
    let script = format!("#!/bin/sh\necho $$ >{}\nexec {}\n", pid.display(), program.display());
    fs::write(plugins.path().join("10-a"), script).unwrap();
    fs::set_permissions(plugins.path().join("10-a"), Permissions::from_mode(0o755)).unwrap();
    let mut driver = Driver::start();
    driver.ask(&json!({"cmd": "set_objects", "fail_sync": true}));
    let failed = driver.ask(&json!({"cmd": "start", "plugin_path": plugins.path()}));
    assert_eq!(failed["ok"], false);
    assert!(failed["error"].as_str().unwrap().starts_with("failed to synchronize pre-installed NRI Plugins: "));
    let pid = fs::read_to_string(pid).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
    driver.ask(&json!({"cmd": "set_objects"}));
    assert_eq!(driver.ask(&json!({"cmd": "start"}))["ok"], true);
}
