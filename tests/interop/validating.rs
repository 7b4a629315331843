//! Validators on Go's own stub: they judge the answers of all plugins, and decide whether a
//! container may be created.

use std::time::{Duration, Instant};

use nri_adaptation::RelayError;
use nri_adaptation::health::State;
use nri_adaptation::merge::MergedCreate;
use nri_proto::{Event, Pod};
use serde_json::json;

use crate::node::{Node, container, pod};
use crate::stubs::{Stub, on_every_stub};

on_every_stub! {
    a_validator_is_shown_what_all_plugins_want_and_who,
    a_validator_rejects_and_accepts,
    a_validator_that_dies_in_its_handler_fails_the_request,
    a_validator_that_is_killed_in_its_handler_fails_the_request,
    a_validator_that_the_operator_lists_must_be_there,
    a_validator_that_hangs_fails_each_request,
    a_plugin_that_only_subscribes_to_validation_and_hangs_does_not_stop_the_node,
}

/// The error of a version before v0.10 for `-validate`.
const CANNOT: &str = "this version of the stub cannot validate";

async fn a_validator_is_shown_what_all_plugins_want_and_who(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    let mut node = Node::start(2, 0);
    // The plugin also adjusts containers, and is asked for that first.
    let mut validator = stub.join(&mut node, &["-index", "05", "-validate", "-adjust", "env=V=0"]).await;
    assert!(node.nri.plugins()[0].events.contains(Event::ValidateContainerAdjustment));
    let _first = stub.join(&mut node, &["-adjust", "env=A=1", "-update", "CreateContainer:c1=5"]).await;
    let _second = stub.join(&mut node, &["-index", "20", "-adjust", "env=B=2"]).await;
    create(&node, pod()).await.unwrap();
    assert_eq!(validator.wrote().await.unwrap()["heard"], "CreateContainer");
    let shown = json!({
        "heard": "ValidateContainerAdjustment",
        "pod": "p",
        "container": "c0",
        "plugins": ["05-stub", "10-stub", "20-stub"],
        "env": ["V=0", "A=1", "B=2"],
        "owners": {"V": "05-stub", "A": "10-stub", "B": "20-stub"},
        "updates": ["c1"],
    });
    assert_eq!(validator.wrote().await, Some(shown));
    node.nri.stop().await;
}

async fn a_validator_rejects_and_accepts(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    let mut node = Node::start(0, 0);
    let _validator = stub.join(&mut node, &["-validate"]).await;
    let _plugin = stub.join(&mut node, &["-index", "20", "-adjust", "env=A=1"]).await;
    let annotations = [("stubplugin/reject".to_owned(), "not this one".to_owned())].into();
    let rejected = Pod { annotations, ..pod() };
    for _ in 0..2 {
        let error = create(&node, rejected.clone()).await.unwrap_err();
        let reason = r#"validator "10-stub" rejected container adjustment, reason: not this one"#;
        assert_eq!(error.to_string(), reason);
        assert!(create(&node, pod()).await.unwrap().adjustment.env.get("A").is_some());
    }
    node.nri.stop().await;
}

async fn a_validator_that_dies_in_its_handler_fails_the_request(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    let mut node = Node::start(0, 0);
    let _validator = stub.join(&mut node, &["-validate", "-die", "ValidateContainerAdjustment"]).await;
    let error = create(&node, pod()).await.unwrap_err();
    assert_eq!(error.to_string(), "validator plugin 10-stub failed");
    node.closed().await;
    node.nri.stop().await;
}

async fn a_validator_that_is_killed_in_its_handler_fails_the_request(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    let mut node = Node::with_policy("plugin_defaults.request_timeout = \"1m\"", 0, 0);
    let mut validator = stub.join(&mut node, &["-validate", "-hang", "ValidateContainerAdjustment"]).await;
    let killing = async {
        while validator.wrote().await.unwrap()["heard"] != "ValidateContainerAdjustment" {}
        validator.kill().await;
    };
    let (created, ()) = tokio::join!(create(&node, pod()), killing);
    assert_eq!(created.unwrap_err().to_string(), "validator plugin 10-stub failed");
    node.nri.stop().await;
}

/// U40. In Go nothing notices that a validator was killed while it was idle.
async fn a_validator_that_the_operator_lists_must_be_there(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    let mut node = Node::with_policy("[plugins.stub]\nvalidator = true", 0, 0);
    for _ in 0..2 {
        let error = create(&node, pod()).await.unwrap_err();
        assert_eq!(error.to_string(), "plugin stub failed to handle ValidateContainerAdjustment request");
        let mut validator = stub.join(&mut node, &["-validate"]).await;
        create(&node, pod()).await.unwrap();
        validator.kill().await;
        node.closed().await;
    }
    node.nri.stop().await;
}

/// U11. In Go the second request succeeds.
async fn a_validator_that_hangs_fails_each_request(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    let policy = "plugin_defaults = { request_timeout = \"1s\", strikes = 1000 }";
    let mut node = Node::with_policy(policy, 0, 0);
    let _validator = stub.join(&mut node, &["-validate", "-hang", "ValidateContainerAdjustment"]).await;
    let begun = Instant::now();
    for _ in 0..10 {
        let error = create(&node, pod()).await.unwrap_err();
        assert_eq!(error.to_string(), "validator plugin 10-stub failed");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "it was waited for each time");
    assert_eq!(node.nri.plugins()[0].state, State::Silent);
    node.nri.stop().await;
}

/// In Go the second create succeeds. Here the third strike closes the plugin, or suspends a plugin
/// that is kept connected.
async fn a_plugin_that_only_subscribes_to_validation_and_hangs_does_not_stop_the_node(stub: Stub) {
    if !stub.can_validate() {
        return stub.cannot(&["-validate"], CANNOT).await;
    }
    for keep_connected in [false, true] {
        let mut node = Node::start(0, 0);
        let _validator = stub.join(&mut node, &["-validate", "-hang", "ValidateContainerAdjustment"]).await;
        node.reload(&format!("plugin_defaults = {{ request_timeout = \"300ms\", keep_connected = {keep_connected} }}"));
        let begun = Instant::now();
        assert_eq!(create(&node, pod()).await.unwrap_err().to_string(), "validator plugin 10-stub failed");
        while create(&node, pod()).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "creates still fail");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(begun.elapsed() > Duration::from_millis(800), "it had fewer strikes: {:?}", begun.elapsed());
        let states: Vec<_> = node.nri.plugins().iter().map(|plugin| plugin.state).collect();
        let expected: &[State] = if keep_connected { &[State::Suspended] } else { &[] };
        assert_eq!(states, expected);
        node.nri.stop().await;
    }
}

/// Creates the container `c0`.
async fn create(node: &Node, pod: Pod) -> Result<MergedCreate, RelayError> {
    node.nri.begin(pod).create_container(container("c0")).await
}
