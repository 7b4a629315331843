//! The layer `api`: each end is delivered once, also for objects that existed before.

use nri_proto::{Container, ContainerState, Pod, api};
use nri_tests::go;
use serde_json::{Value, json};

use crate::driver::{Driver, encode};

fn pod() -> Pod {
    Pod { id: "p".to_owned(), ..Pod::default() }
}

fn container(id: &str, state: ContainerState) -> Container {
    Container { id: id.to_owned(), pod_id: "p".to_owned(), state, ..Container::default() }
}

/// Takes the requests that plugins got since the last call.
fn asked(driver: &mut Driver) -> Vec<String> {
    let metrics = driver.ask(&json!({"cmd": "metrics"}))["metrics"].take();
    let invocations = metrics.as_array().unwrap().iter().filter(|metric| metric["kind"] == "invocation");
    invocations.map(|metric| metric["op"].as_str().unwrap().to_owned()).collect()
}

fn call(driver: &mut Driver, op: &str, request: &Value) -> Value {
    driver.ask(&json!({"cmd": "call", "op": op, "request_b64": request}))["ok"].take()
}

#[test]
fn each_end_is_told_once_also_of_what_was_there_before() {
    let Ok(program) = go::program("stubplugin") else { return };
    let mut driver = Driver::start();
    let pods = [encode(&api::PodSandbox::from(pod()))];
    let containers = [encode(&api::Container::from(container("old", ContainerState::Running)))];
    driver.ask(&json!({"cmd": "set_objects", "pods_b64": pods, "containers_b64": containers}));
    let socket = driver.socket();
    let start = json!({"cmd": "start", "socket": socket, "callbacks": true, "record_metrics": true, "layer": "api"});
    assert_eq!(driver.ask(&start)["ok"], true);
    let mut plugin = driver.join(&program, &[]);
    plugin.told("runtime");
    let heard = plugin.told("heard");
    assert_eq!((&heard["pods"], &heard["containers"]), (&json!(1), &json!(1)));
    asked(&mut driver);

    let new = api::Container::from(container("new", ContainerState::Created));
    let create = encode(&api::CreateContainerRequest {
        pod: Some(pod().into()).into(),
        container: Some(new).into(),
        ..Default::default()
    });
    assert_eq!(call(&mut driver, "CreateContainer", &create), true);
    assert_eq!(call(&mut driver, "CreateContainer", &create), false, "there is one");
    let stop = encode(&api::StopPodSandboxRequest { pod: Some(pod().into()).into(), ..Default::default() });
    assert_eq!(call(&mut driver, "StopPodSandbox", &stop), true);
    assert_eq!(call(&mut driver, "StopPodSandbox", &stop), true);
    let expected = ["CreateContainer", "StopContainer", "StopContainer", "StopPodSandbox"];
    assert_eq!(asked(&mut driver), expected);
}
