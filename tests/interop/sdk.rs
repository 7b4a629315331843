//! Plugins on our SDK, under runtimes on Go's own adaptation, in each relevant version.

mod bad_input;
mod bad_runtime;
pub(crate) mod examples;
mod host;
mod launched;
mod lost;

use std::path::Path;

use nix::sys::signal::Signal;
use nri_proto::Event;
use serde_json::{Value, json};

use crate::program::Program;
use crate::stubs::{Version, heard};
use host::{GoRuntime, Host};

/// Turns each function into a test under each version of Go's adaptation.
macro_rules! under_every_runtime {
    ($($story:ident,)*) => {
        mod v0_12_5 { $(#[tokio::test] async fn $story() { crate::sdk::under(crate::stubs::Version::V0_12_5, super::$story).await; })* }
        mod v0_10_0 { $(#[tokio::test] async fn $story() { crate::sdk::under(crate::stubs::Version::V0_10_0, super::$story).await; })* }
        mod v0_8_0 { $(#[tokio::test] async fn $story() { crate::sdk::under(crate::stubs::Version::V0_8_0, super::$story).await; })* }
        mod v0_6_1 { $(#[tokio::test] async fn $story() { crate::sdk::under(crate::stubs::Version::V0_6_1, super::$story).await; })* }
        mod v0_3_0 { $(#[tokio::test] async fn $story() { crate::sdk::under(crate::stubs::Version::V0_3_0, super::$story).await; })* }
    };
}
use under_every_runtime;

under_every_runtime! {
    a_plugin_is_introduced_and_synchronized,
    a_snapshot_larger_than_a_message_reaches_a_plugin_if_the_runtime_can_split_it,
    a_plugin_hears_a_whole_life_in_order,
    what_a_plugin_adds_is_in_the_runtimes_reply,
    other_containers_are_updated_and_evicted_in_replies,
    a_validator_sees_who_wants_what_and_may_reject,
    a_refusal_reaches_the_runtime_in_the_plugins_words,
    a_plugin_may_ask_for_updates_at_any_time,
    a_handler_may_ask_for_updates_and_not_wait_for_them,
    a_handler_may_wait_for_updates_that_it_asks_for,
    a_plugin_that_is_told_to_stop_leaves_in_order,
}

/// Runs one story, unless Go is missing.
pub(crate) async fn under<F: Future<Output = ()>>(version: Version, story: fn(Host) -> F) {
    if let Some(host) = Host::new(version) {
        story(host).await;
    }
}

/// Our test plugin: see `tests/src/bin/storyteller.rs`.
const STORYTELLER: &str = env!("CARGO_BIN_EXE_storyteller");

const NAME: &str = "10-storyteller";

/// Starts the test plugin on the socket of the host.
fn storyteller(host: &Host, args: &[&str]) -> Program {
    host.plugin(Path::new(STORYTELLER), &[&["--index", "10"], args].concat())
}

/// Starts the test plugin on the socket of the host. Waits until the plugin has joined and has
/// recorded the two events that every plugin gets then.
async fn join(host: &Host, runtime: &mut GoRuntime, args: &[&str]) -> Program {
    let mut plugin = storyteller(host, args);
    runtime.joined(NAME).await;
    is_in(host.version, &mut plugin).await;
    plugin
}

/// Waits until the plugin has recorded that it has joined. A runtime between 0.7 and 0.10 does not
/// report which events it knows, so the plugin is refused once and reconnects with fewer events.
async fn is_in(version: Version, plugin: &mut Program) {
    let mut line = plugin.wrote().await.unwrap();
    if version == Version::V0_8_0 {
        assert_eq!(line["heard"], "Configure");
        line = plugin.wrote().await.unwrap();
    }
    assert_eq!(line["heard"], "Configure");
    assert_eq!(plugin.wrote().await.unwrap()["heard"], "Synchronize");
}

/// Returns the CPU shares of a container in the updates that a runtime reported.
fn updated(line: &Value, id: &str) -> Option<String> {
    let of = |list: &Vec<Value>| list.iter().find(|update| update["container_id"] == id).cloned();
    let update = line["updates"].as_array().or(line["update"].as_array()).and_then(of)?;
    Some(update["linux"]["resources"]["cpu"]["shares"]["value"].as_str()?.to_owned())
}

async fn a_plugin_is_introduced_and_synchronized(host: Host) {
    let args = ["-containers", "3", "-env-bytes", "100", "-request-timeout", "3s", "-registration-timeout", "4s"];
    let mut runtime = host.start(&args).await;
    let mut plugin = storyteller(&host, &["--update", "Synchronize:c1=77"]);
    let told = runtime.joined(NAME).await;
    assert_eq!(updated(&told, "c1").as_deref(), Some("77"));

    // The runtime reports its version since v0.12, and its timeouts since v0.7.
    let nri = (host.version >= Version::V0_12_5).then_some(host.version.tag());
    let times = if host.version >= Version::V0_8_0 { (4000, 3000) } else { (0, 0) };
    let introduction = json!({
        "heard": "Configure", "runtime": "go", "version": "v1.2.3", "nri": nri,
        "registration_timeout_ms": times.0, "request_timeout_ms": times.1,
    });
    assert_eq!(plugin.wrote().await.unwrap(), introduction);
    if host.version == Version::V0_8_0 {
        assert_eq!(plugin.wrote().await.unwrap(), introduction);
    }
    let snapshot = json!({"heard": "Synchronize", "pods": 1, "containers": 3, "env_bytes": 300});
    assert_eq!(plugin.wrote().await.unwrap(), snapshot);
    runtime.stop().await;
}

/// Since v0.7. Older runtimes cannot do it, and keep a plugin that got no snapshot: the plugin ends
/// by itself. U6, U43: with few pods or few containers the newer runtimes would crash.
async fn a_snapshot_larger_than_a_message_reaches_a_plugin_if_the_runtime_can_split_it(host: Host) {
    let mut runtime = host.start(&["-pods", "40", "-containers", "40", "-env-bytes", "150000"]).await;
    if host.version >= Version::V0_8_0 {
        let mut plugin = storyteller(&host, &[]);
        runtime.joined(NAME).await;
        while let Some(line) = plugin.wrote().await {
            if line["heard"] == "Synchronize" {
                assert_eq!(line, json!({"heard": "Synchronize", "pods": 40, "containers": 40, "env_bytes": 6_000_000}));
                break;
            }
            assert_eq!(line["heard"], "Configure");
        }
    } else {
        let mut plugin = storyteller(&host, &["--hasty"]);
        runtime.logs("failed to synchronize plugin").await;
        assert_eq!(plugin.wrote_last().await.last().unwrap()["heard"], "Configure");
        assert_eq!(plugin.ended().await.unwrap().code(), Some(1));
    }
    runtime.stop().await;
}

/// Runtimes before v0.12 send nine of these events through `StateChange`.
async fn a_plugin_hears_a_whole_life_in_order(host: Host) {
    let mut runtime = host.start(&[]).await;
    let mut plugin = join(&host, &mut runtime, &[]).await;
    for event in host.version.life() {
        runtime.tell(event).await.unwrap();
        assert_eq!(plugin.wrote().await.unwrap(), heard(event));
    }
    runtime.stop().await;
}

async fn what_a_plugin_adds_is_in_the_runtimes_reply(host: Host) {
    let mut runtime = host.start(&[]).await;
    let _plugin = join(&host, &mut runtime, &["--env", "COLOR=red"]).await;
    let reply = runtime.tell(Event::CreateContainer).await.unwrap();
    assert_eq!(reply["adjust"]["env"], json!([{"key": "COLOR", "value": "red"}]));
    runtime.stop().await;
}

/// No version handles evictions, but they are on the wire. With the oldest version they cannot be
/// observed there.
async fn other_containers_are_updated_and_evicted_in_replies(host: Host) {
    let mut runtime = host.start(&["-containers", "2"]).await;
    let events = [Event::CreateContainer, Event::UpdateContainer, Event::StopContainer];
    let updates = events.map(|event| format!("{event}:c1=5"));
    let evictions = events.map(|event| format!("{event}:c1=full"));
    let said: Vec<_> = updates.iter().flat_map(|text| ["--update", text]).collect();
    let wanted: Vec<_> = evictions.iter().flat_map(|text| ["--evict", text]).collect();
    let mut plugin = join(&host, &mut runtime, &[said, wanted].concat()).await;
    for event in events {
        let mut request = json!({"pod": {"id": "p"}, "container": {"id": "c0"}});
        if event == Event::UpdateContainer {
            request["linux_resources"] = json!({"cpu": {"shares": {"value": 9}}});
        }
        let reply = runtime.ask(event, request).await.unwrap();
        assert_eq!(updated(&reply, "c1").as_deref(), Some("5"), "{event}: {reply}");
        assert_eq!(plugin.wrote().await.unwrap(), heard(event));
        if event == Event::UpdateContainer {
            assert_eq!(plugin.wrote().await.unwrap(), json!({"limits": {"cpu_shares": 9}}));
        }
        if event != Event::StopContainer && host.version >= Version::V0_6_1 {
            let evicted = runtime.until(|line| line["in"] == event.rpc()).await;
            assert_eq!(evicted["evictions"], json!([{"container_id": "c1", "reason": "full"}]));
        }
    }
    runtime.stop().await;
}

/// Since v0.10. Under an older runtime, a validator gets the other events.
async fn a_validator_sees_who_wants_what_and_may_reject(host: Host) {
    let mut runtime = host.start(&["-containers", "2"]).await;
    let args = ["--validate", "--env", "COLOR=red", "--update", "CreateContainer:c1=5"];
    let mut plugin = join(&host, &mut runtime, &args).await;
    let reason = "it is not to my taste";
    let request = |pod: Value| json!({"pod": pod, "container": {"id": "c0"}});
    let create = Event::CreateContainer;
    let reply = runtime.ask(create, request(json!({"id": "p"}))).await.unwrap();
    assert_eq!(reply["adjust"]["env"], json!([{"key": "COLOR", "value": "red"}]));
    assert_eq!(plugin.wrote().await.unwrap(), heard(create));
    let rejected =
        runtime.ask(create, request(json!({"id": "p", "annotations": {"storyteller/reject": reason}}))).await;
    if host.version >= Version::V0_10_0 {
        let validated = json!({
            "heard": "ValidateContainerAdjustment", "container": "c0", "plugins": [NAME],
            "owners": [["COLOR", NAME]], "updates": ["c1"],
        });
        assert_eq!(plugin.wrote().await.unwrap(), validated);
        let error = rejected.unwrap_err();
        assert!(error.contains(NAME) && error.contains(reason), "{error}");
    } else {
        rejected.unwrap();
    }
    runtime.stop().await;
}

async fn a_refusal_reaches_the_runtime_in_the_plugins_words(host: Host) {
    for event in [Event::CreateContainer, Event::StartContainer] {
        let mut runtime = host.start(&[]).await;
        let mut plugin = join(&host, &mut runtime, &["--refuse", event.rpc()]).await;
        let error = runtime.tell(event).await.unwrap_err();
        assert!(error.contains(&format!("{event} is refused")), "{error}");
        assert_eq!(plugin.wrote().await.unwrap(), heard(event));
        // The plugin is still connected, and got the event once.
        runtime.tell(Event::StopPodSandbox).await.unwrap();
        assert_eq!(plugin.wrote().await.unwrap(), heard(Event::StopPodSandbox));
        runtime.stop().await;
    }
}

async fn a_plugin_may_ask_for_updates_at_any_time(host: Host) {
    let mut runtime = host.start(&["-containers", "2"]).await;
    let mut plugin = join(&host, &mut runtime, &[]).await;
    plugin.obey("update c1 nobody c0").await;
    let made = runtime.until(|line| line["failed"].is_array()).await;
    assert_eq!(["c1", "nobody", "c0"].map(|id| updated(&made, id)), [(); 3].map(|()| Some("123".to_owned())));
    let answer = json!({"updated": ["c1", "nobody", "c0"], "failed": ["nobody"]});
    assert_eq!(plugin.wrote().await.unwrap(), answer);
    plugin.obey("evict c0").await;
    assert_eq!(plugin.wrote().await.unwrap(), json!({"evicted": "c0"}));
    if host.version >= Version::V0_6_1 {
        let evicted = runtime.until(|line| line["in"] == "UpdateContainers").await;
        assert_eq!(evicted["evictions"], json!([{"container_id": "c0", "reason": "there is no room"}]));
    }
    runtime.stop().await;
}

async fn a_handler_may_ask_for_updates_and_not_wait_for_them(host: Host) {
    for event in [Event::CreateContainer, Event::StartContainer] {
        let mut runtime = host.start(&["-containers", "1"]).await;
        let mut plugin = join(&host, &mut runtime, &["--call-back-later", event.rpc()]).await;
        runtime.tell(event).await.unwrap();
        assert_eq!(plugin.wrote().await.unwrap(), heard(event));
        assert_eq!(plugin.wrote().await.unwrap(), json!({"updated": ["c0"], "failed": []}));
        let made = runtime.until(|line| line["failed"].is_array()).await;
        assert_eq!(updated(&made, "c0").as_deref(), Some("123"));
        runtime.stop().await;
    }
}

/// A runtime up to v0.12.0 holds a lock while it waits for the handler, and applies the update
/// afterwards. A handler that waits for its update gets an error, early enough to answer.
async fn a_handler_may_wait_for_updates_that_it_asks_for(host: Host) {
    let event = Event::CreateContainer;
    let mut runtime = host.start(&["-containers", "1", "-request-timeout", "1s"]).await;
    let mut plugin = join(&host, &mut runtime, &["--call-back", event.rpc(), "--env", "COLOR=red"]).await;
    let reply = runtime.tell(event).await.unwrap();
    assert_eq!(reply["adjust"]["env"], json!([{"key": "COLOR", "value": "red"}]));
    assert_eq!(plugin.wrote().await.unwrap(), heard(event));
    let outcome = plugin.wrote().await.unwrap();
    if host.version >= Version::V0_12_5 {
        assert_eq!(outcome, json!({"updated": ["c0"], "failed": []}));
    } else {
        assert!(outcome["error"].is_string(), "{outcome}");
    }
    let made = runtime.until(|line| line["failed"].is_array()).await;
    assert_eq!(updated(&made, "c0").as_deref(), Some("123"));
    runtime.tell(Event::StopPodSandbox).await.unwrap();
    assert_eq!(plugin.wrote().await.unwrap(), heard(Event::StopPodSandbox));
    runtime.stop().await;
}

async fn a_plugin_that_is_told_to_stop_leaves_in_order(host: Host) {
    let mut runtime = host.start(&[]).await;
    let mut plugin = join(&host, &mut runtime, &[]).await;
    plugin.signal(Signal::SIGTERM);
    runtime.logs(&format!("connection to plugin \"{NAME}\" closed")).await;
    assert_eq!(plugin.wrote_last().await, [json!({"heard": "Closed"})]);
    assert!(plugin.ended().await.unwrap().success());
    runtime.tell(Event::StartContainer).await.unwrap();
    runtime.stop().await;
}
