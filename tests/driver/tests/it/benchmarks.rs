//! The measurements of the driver, and their payloads.

use std::fs;
use std::path::Path;

use nri_proto::{Adjustment, Container, CreateReply, EnvVar, LinuxAdjustment, Memory, Pod, Resources, Update, api};
use protobuf::Message;
use serde_json::{Value, json};

use crate::driver::{Driver, decode};

fn write<M: Message>(directory: &Path, name: &str, message: &M) {
    fs::write(directory.join(name), message.write_to_bytes().unwrap()).unwrap();
}

/// Writes payloads with the replies of two plugins.
fn payloads(directory: &Path) -> String {
    let container = Container { name: "c".to_owned(), ..Container::default() };
    write(directory, "pod.bin", &api::PodSandbox::from(Pod { name: "p".to_owned(), ..Pod::default() }));
    write(directory, "container.bin", &api::Container::from(container.clone()));
    write(directory, "container_seccomp.bin", &api::Container::from(container));
    write(directory, "update_resources.bin", &api::LinuxResources::from(Resources::default()));
    for number in 0..2_i64 {
        let mut adjustment = Adjustment::default();
        adjustment.env.set(EnvVar::new(format!("A{number}"), "1")).unwrap();
        for key in 0..5 {
            adjustment.annotations.set(format!("{number}/{key}"), "1".to_owned()).unwrap();
        }
        let memory = match number {
            0 => Memory { limit: Some(1000), ..Memory::default() },
            _ => Memory { swap: Some(1001), ..Memory::default() },
        };
        let resources = Some(Resources { memory: Some(memory), ..Resources::default() });
        adjustment.linux = Some(LinuxAdjustment { resources, ..LinuxAdjustment::default() });
        let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
        write(directory, &format!("rsp_create_adj_{number:02}.bin"), &api::CreateContainerResponse::from(reply));
    }
    directory.to_str().unwrap().to_owned()
}

fn driver() -> (Driver, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut driver = Driver::start();
    let start =
        json!({"id": 1, "cmd": "start", "payloads": payloads(directory.path()), "builtin": 2, "callbacks": true});
    assert_eq!(driver.ask(&start)["event"], "synced");
    assert_eq!(driver.line(), json!({"event": "synced", "plugin": "01-builtin", "updates_b64": []}));
    assert_eq!(driver.line(), json!({"id": 1, "ok": true}));
    (driver, directory)
}

fn run(driver: &mut Driver, op: &str, mode: &str) -> Value {
    driver.ask(&json!({"cmd": "run", "op": op, "mode": mode, "n": 3, "sample": true}))["run"].take()
}

fn updated(updates: Vec<api::ContainerUpdate>) -> Vec<Update> {
    updates.into_iter().map(Update::from).collect()
}

#[test]
fn plugins_that_are_built_in_answer_with_what_is_prepared() {
    let (mut driver, _directory) = driver();
    assert_eq!(driver.ask(&json!({"cmd": "plugins"}))["plugins"], json!([]), "they are left out");
    assert_eq!(driver.ask(&json!({"cmd": "wait_plugins", "n": 2}))["wait"]["n"], 2);

    let run = |driver: &mut Driver, op, mode| run(driver, op, mode)["sample_b64"].take();
    let created: api::CreateContainerResponse = decode(&run(&mut driver, "CreateContainer", "adjust"));
    let names: Vec<_> = created.adjust.env.iter().map(|variable| variable.key.clone()).collect();
    assert_eq!(names, ["A0", "A1"]);
    let updated_own: api::UpdateContainerResponse = decode(&run(&mut driver, "UpdateContainer", "adjust"));
    let memory = updated(updated_own.update)[0].resources().unwrap().memory.clone().unwrap();
    assert_eq!((memory.limit, memory.swap), (Some(1000), Some(1001)));
    let stopped: api::StopContainerResponse = decode(&run(&mut driver, "StopContainer", "adjust"));
    let stopped = updated(stopped.update);
    assert_eq!((stopped.len(), &*stopped[0].container_id), (1, &*format!("c7{:062x}", 0xff_ffff)));
    let unchanged: api::CreateContainerResponse = decode(&run(&mut driver, "CreateContainer", ""));
    assert!(unchanged.adjust.env.is_empty());
    assert_eq!(run(&mut driver, "StartContainer", "adjust"), Value::Null, "nobody answers to that");
}

#[test]
fn a_sample_is_encoded_in_one_way() {
    let (mut driver, _directory) = driver();
    let first = run(&mut driver, "CreateContainer", "adjust");
    for _ in 0..5 {
        assert_eq!(run(&mut driver, "CreateContainer", "adjust")["sample_b64"], first["sample_b64"]);
    }
    let response: api::CreateContainerResponse = decode(&first["sample_b64"]);
    assert_eq!(response.adjust.annotations.len(), 10);
    assert_eq!((&first["n"], &first["errors"], &first["mode"]), (&json!(3), &json!(0), &json!("adjust")));
}

#[test]
fn each_step_is_measured_by_itself() {
    let (mut driver, _directory) = driver();
    for op in [
        "marshal_create_request",
        "marshal_start_request",
        "marshal_envelope",
        "unmarshal_envelope",
        "unmarshal_create_request",
        "marshal_create_response",
        "unmarshal_create_response",
        "clone_create_request",
    ] {
        let run = driver.ask(&json!({"cmd": "micro", "op": op, "n": 10, "warmup": 1}))["run"].take();
        assert_eq!((&run["op"], &run["n"]), (&json!(op), &json!(10)));
        assert!(run["lat_ns"]["mean"].as_u64() > Some(0), "{run}");
    }
    assert_eq!(driver.ask(&json!({"cmd": "micro", "op": "nothing"}))["error"], "unknown micro op \"nothing\"");
    assert!(driver.ask(&json!({"cmd": "stats"}))["stats"]["tasks"].as_u64() > Some(0));
    assert_eq!(driver.ask(&json!({"cmd": "gc"}))["ok"], true);
}

#[test]
fn waiting_for_plugins_ends_in_time_and_says_how_many_there_are() {
    let (mut driver, _directory) = driver();
    let waited = driver.ask(&json!({"cmd": "wait_plugins", "n": 1, "timeout_ms": 5}));
    assert_eq!((&waited["error"], &waited["wait"]["n"]), (&json!("timeout: 2 of 1 plugins"), &json!(2)));
}
