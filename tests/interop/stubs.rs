//! Our test plugins on Go's own stub, in each relevant version, under our adaptation.

use std::error::Error as _;
use std::path::PathBuf;

use nri_adaptation::{Notice, Operation, RelayError};
use nri_proto::{Event, version};
use nri_tests::go;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::node::{Node, Plugin, REFUSED, container, pod};

/// Turns each function into a test on each version of Go's stub.
macro_rules! on_every_stub {
    ($($story:ident,)*) => {
        mod v0_12_5 { $(#[tokio::test] async fn $story() { crate::stubs::on(crate::stubs::Version::V0_12_5, super::$story).await; })* }
        mod v0_10_0 { $(#[tokio::test] async fn $story() { crate::stubs::on(crate::stubs::Version::V0_10_0, super::$story).await; })* }
        mod v0_8_0 { $(#[tokio::test] async fn $story() { crate::stubs::on(crate::stubs::Version::V0_8_0, super::$story).await; })* }
        mod v0_6_1 { $(#[tokio::test] async fn $story() { crate::stubs::on(crate::stubs::Version::V0_6_1, super::$story).await; })* }
        mod v0_3_0 { $(#[tokio::test] async fn $story() { crate::stubs::on(crate::stubs::Version::V0_3_0, super::$story).await; })* }
    };
}
pub(crate) use on_every_stub;

on_every_stub! {
    a_plugin_is_introduced_to_the_runtime_and_synchronized,
    a_plugin_hears_a_whole_life_in_order,
    a_snapshot_larger_than_a_message_reaches_a_plugin_that_can_take_it_in_parts,
    a_plugin_may_call_back_at_any_time,
    a_plugin_may_call_back_from_inside_a_handler,
    a_plugin_may_call_back_from_inside_the_handlers_with_which_it_joins,
    a_refusal_reaches_the_caller_in_the_plugins_words,
    a_plugin_that_dies_in_a_handler_fails_the_request_only_if_it_declared_so,
    a_plugin_that_is_told_to_go_hears_it_first,
    a_plugin_that_stops_by_itself_is_gone,
    a_plugin_that_is_killed_is_gone_and_may_join_again,
}

/// A version of Go's stub.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V0_3_0,
    V0_6_1,
    V0_8_0,
    V0_10_0,
    V0_12_5,
}

impl Version {
    /// Returns the tag of the version.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::V0_3_0 => "v0.3.0",
            Self::V0_6_1 => "v0.6.1",
            Self::V0_8_0 => "v0.8.0",
            Self::V0_10_0 => "v0.10.0",
            Self::V0_12_5 => "v0.12.5",
        }
    }

    /// Returns the events of a whole life that this version knows, in order.
    pub(crate) fn life(self) -> impl Iterator<Item = Event> {
        let is_new = |event: &Event| matches!(event, Event::UpdatePodSandbox | Event::PostUpdatePodSandbox);
        LIFE.into_iter().filter(move |event| self >= Self::V0_10_0 || !is_new(event))
    }
}

/// A test plugin that was built with one version of the stub.
pub(crate) struct Stub {
    version: Version,
    pub(crate) program: PathBuf,
}

/// Runs one story, unless Go is missing.
pub(crate) async fn on<F: Future<Output = ()>>(version: Version, story: fn(Stub) -> F) {
    let Ok(program) = go::peer(version.tag(), "stubplugin") else { return };
    story(Stub { version, program }).await;
}

impl Stub {
    /// Since v0.7.
    fn takes_a_snapshot_in_parts(&self) -> bool {
        self.version >= Version::V0_8_0
    }

    /// Since v0.7.
    fn learns_timeouts(&self) -> bool {
        self.version >= Version::V0_8_0
    }

    /// Returns whether a plugin can evict. No stub supports that, but since v0.4 a plugin can
    /// extend the stub's messages.
    pub(crate) fn can_evict(&self) -> bool {
        self.version >= Version::V0_6_1
    }

    /// Since v0.4.
    pub(crate) fn can_set_rlimits(&self) -> bool {
        self.version >= Version::V0_6_1
    }

    /// Since v0.4. Before, a plugin is not told which limits a container is to have.
    pub(crate) fn learns_new_limits(&self) -> bool {
        self.version >= Version::V0_6_1
    }

    /// Since v0.10.
    pub(crate) fn can_set_args(&self) -> bool {
        self.version >= Version::V0_10_0
    }

    /// Since v0.10.
    pub(crate) fn can_validate(&self) -> bool {
        self.version >= Version::V0_10_0
    }

    /// Since v0.12.
    fn learns_version(&self) -> bool {
        self.version >= Version::V0_12_5
    }

    /// Since v0.12.4.
    fn declares(&self) -> bool {
        self.version >= Version::V0_12_5
    }

    /// Returns the events that the plugin gets in a whole life, in order.
    pub(crate) fn life(&self) -> impl Iterator<Item = Event> {
        self.version.life()
    }

    /// Starts a plugin. Waits until it has joined and has recorded the two events that every plugin
    /// gets then.
    pub(crate) async fn join(&self, node: &mut Node, args: &[&str]) -> Plugin {
        let mut plugin = node.plugin(&self.program, args);
        node.joined().await;
        assert_eq!(plugin.wrote().await.unwrap()["heard"], "Configure");
        assert_eq!(plugin.wrote().await.unwrap()["heard"], "Synchronize");
        plugin
    }

    /// Checks that a plugin on this version refuses these arguments with this reason.
    pub(crate) async fn cannot(&self, args: &[&str], reason: &str) {
        let ended = Command::new(&self.program).args(args).output().await.unwrap();
        assert!(!ended.status.success(), "{args:?}");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains(reason), "{args:?}: {said}");
    }
}

async fn a_plugin_is_introduced_to_the_runtime_and_synchronized(stub: Stub) {
    let mut node = Node::start(3, 100);
    let mut plugin = node.plugin(&stub.program, &["-index", "07"]);
    let (events, _) = node.joined().await;
    assert_eq!(node.nri.plugins()[0].id.as_str(), "07-stub");
    assert_eq!(events, stub.life().collect());

    let mut introduction = json!({"heard": "Configure", "runtime": "node", "version": "v1.2.3"});
    if stub.learns_timeouts() {
        introduction["registration_timeout_ms"] = 5000.into();
        introduction["request_timeout_ms"] = 2000.into();
    }
    if stub.learns_version() {
        introduction["nri"] = version::NRI.into();
    }
    assert_eq!(plugin.wrote().await, Some(introduction));
    let snapshot = json!({"heard": "Synchronize", "pods": 1, "containers": 3, "env_bytes": 300});
    assert_eq!(plugin.wrote().await, Some(snapshot));
    node.nri.stop().await;
}

/// Plugins before v0.12 know no RPCs for nine of these events, only `StateChange`.
async fn a_plugin_hears_a_whole_life_in_order(stub: Stub) {
    let mut node = Node::start(0, 0);
    let mut plugin = stub.join(&mut node, &[]).await;
    // The second time, the adaptation knows which RPCs the plugin lacks.
    for _ in 0..2 {
        let life = node.nri.begin(pod());
        for event in LIFE {
            tell(&life, event).await.unwrap();
        }
        life.commit();
        for event in stub.life() {
            assert_eq!(plugin.wrote().await, Some(heard(event)));
        }
    }
    node.nri.stop().await;
    assert_eq!(plugin.wrote_last().await, ENDED.map(|end| json!({"heard": end})));
}

/// U6, U43. Upstream also refuses plugins before v0.7 in this case: their snapshot does not fit
/// into a message, and they take two messages for two complete snapshots.
async fn a_snapshot_larger_than_a_message_reaches_a_plugin_that_can_take_it_in_parts(stub: Stub) {
    let mut node = Node::start(9, 600_000);
    let mut plugin = node.plugin(&stub.program, &[]);
    assert_eq!(plugin.wrote().await.unwrap()["heard"], "Configure");
    if stub.takes_a_snapshot_in_parts() {
        node.joined().await;
        let snapshot = json!({"heard": "Synchronize", "pods": 1, "containers": 9, "env_bytes": 5_400_000});
        assert_eq!(plugin.wrote().await, Some(snapshot));
    } else {
        let reason = node.closed().await;
        assert!(reason.ends_with("plugin does not handle split sync requests"), "{reason}");
        assert!(node.nri.plugins().is_empty());
        assert_eq!(plugin.wrote_last().await.last(), Some(&json!({"heard": "Closed"})));
    }
    node.nri.stop().await;
}

async fn a_plugin_may_call_back_at_any_time(stub: Stub) {
    let mut node = Node::start(2, 0);
    let mut plugin = stub.join(&mut node, &[]).await;
    plugin.obey("update c1 nobody c0").await;
    let answer = json!({"updated": ["c1", "nobody", "c0"], "failed": ["nobody"]});
    assert_eq!(plugin.wrote().await, Some(answer));
    let made = |id: &str| ("10-stub".to_owned(), id.to_owned(), Some(123));
    assert_eq!(node.updated(), [made("c1"), made("c0")]);
    // The stub also gets the list, and drops it.
    plugin.obey(&format!("update {REFUSED} c0")).await;
    let error = "rpc error: code = Unknown desc = refused: it is not to be";
    assert_eq!(plugin.wrote().await, Some(json!({"updated": [REFUSED, "c0"], "error": error})));
    if stub.can_evict() {
        plugin.obey("evict c0").await;
        assert_eq!(plugin.wrote().await, Some(json!({"evicted": "c0"})));
        assert_eq!(node.evicted(), [("10-stub".to_owned(), "c0".to_owned(), "there is no room".to_owned())]);
    }
    node.nri.stop().await;
}

/// Covers a request with a reply, and a notice that older plugins get through `StateChange`.
async fn a_plugin_may_call_back_from_inside_a_handler(stub: Stub) {
    for event in [Event::CreateContainer, Event::StartContainer] {
        let mut node = Node::start(1, 0);
        let mut plugin = stub.join(&mut node, &["-call-back", event.rpc()]).await;
        tell(&node.nri.begin(pod()), event).await.unwrap();
        assert_eq!(plugin.wrote().await, Some(heard(event)));
        assert_eq!(plugin.wrote().await, Some(json!({"updated": ["c0"], "failed": []})));
        assert_eq!(node.updated(), [("10-stub".to_owned(), "c0".to_owned(), Some(123))]);
        node.nri.stop().await;
    }
}

/// The runtime waits for the handler, so the update is applied when the plugin is admitted.
async fn a_plugin_may_call_back_from_inside_the_handlers_with_which_it_joins(stub: Stub) {
    for handler in ["Configure", "Synchronize"] {
        let mut node = Node::start(1, 0);
        let mut plugin = node.plugin(&stub.program, &["-call-back", handler]);
        node.joined().await;
        assert_eq!(node.updated(), [("10-stub".to_owned(), "c0".to_owned(), Some(123))]);
        let mut wrote = Vec::new();
        while wrote.len() < 3 {
            wrote.push(plugin.wrote().await.unwrap());
        }
        assert!(wrote.contains(&json!({"updated": ["c0"], "failed": []})), "{handler}: {wrote:?}");
        node.nri.stop().await;
    }
}

async fn a_refusal_reaches_the_caller_in_the_plugins_words(stub: Stub) {
    for event in [Event::CreateContainer, Event::StartContainer] {
        let mut node = Node::start(0, 0);
        let mut plugin = stub.join(&mut node, &["-refuse", event.rpc()]).await;
        let operation = node.nri.begin(pod());
        let error = tell(&operation, event).await.unwrap_err();
        operation.commit();
        assert_eq!(error.to_string(), format!("plugin 10-stub failed to handle {event} request"));
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains(&format!("{event} is refused")), "{cause}");
        assert_eq!(plugin.wrote().await, Some(heard(event)));
        assert_eq!(node.nri.plugins().len(), 1, "it is still there");
        node.nri.stop().await;
        assert_eq!(plugin.wrote_last().await, ENDED.map(|end| json!({"heard": end})), "it heard it twice");
    }
}

async fn a_plugin_that_dies_in_a_handler_fails_the_request_only_if_it_declared_so(stub: Stub) {
    let declarations: &[&[&str]] =
        &[&[], &["-keep-connected"], &["-fail-request"], &["-fail-request", "-keep-connected"]];
    for declared in declarations.iter().filter(|declared| stub.declares() || declared.is_empty()) {
        let mut node = Node::start(0, 0);
        let args = [&["-die", "StartContainer"], *declared].concat();
        let _plugin = node.plugin(&stub.program, &args);
        let (_, policy) = node.joined().await;
        let says = |flag: &str, axis: &str| {
            assert_eq!(policy.contains(axis), declared.contains(&flag), "{flag}: {policy}");
        };
        says("-fail-request", "on_timeout=fail (declared)");
        says("-keep-connected", "keep_connected=true (declared)");

        let outcome = tell(&node.nri.begin(pod()), Event::StartContainer).await;
        assert_eq!(outcome.is_err(), declared.contains(&"-fail-request"), "{declared:?}: {outcome:?}");
        node.closed().await;
        assert!(node.nri.plugins().is_empty());
        node.nri.stop().await;
    }
}

async fn a_plugin_that_is_told_to_go_hears_it_first(stub: Stub) {
    let mut node = Node::start(0, 0);
    let mut plugin = stub.join(&mut node, &[]).await;
    node.nri.stop().await;
    assert_eq!(plugin.wrote_last().await, ENDED.map(|end| json!({"heard": end})));
    assert!(plugin.ended().await.unwrap().success());
}

async fn a_plugin_that_stops_by_itself_is_gone(stub: Stub) {
    let mut node = Node::start(0, 0);
    let mut plugin = stub.join(&mut node, &[]).await;
    plugin.obey("stop").await;
    node.closed().await;
    assert!(node.nri.plugins().is_empty());
    tell(&node.nri.begin(pod()), Event::StartContainer).await.unwrap();
    assert_eq!(plugin.wrote_last().await, [json!({"heard": "Closed"})]);
    assert!(plugin.ended().await.unwrap().success());
    node.nri.stop().await;
}

/// A14, A38.
async fn a_plugin_that_is_killed_is_gone_and_may_join_again(stub: Stub) {
    let mut node = Node::start(0, 0);
    for _ in 0..3 {
        let mut plugin = stub.join(&mut node, &[]).await;
        tell(&node.nri.begin(pod()), Event::StartContainer).await.unwrap();
        assert_eq!(plugin.wrote().await, Some(heard(Event::StartContainer)));
        plugin.kill().await;
        node.closed().await;
        assert!(node.nri.plugins().is_empty());
    }
    node.nri.stop().await;
}

/// The events of a pod and its container, in order.
pub(crate) const LIFE: [Event; 13] = [
    Event::RunPodSandbox,
    Event::UpdatePodSandbox,
    Event::PostUpdatePodSandbox,
    Event::CreateContainer,
    Event::PostCreateContainer,
    Event::StartContainer,
    Event::PostStartContainer,
    Event::UpdateContainer,
    Event::PostUpdateContainer,
    Event::StopContainer,
    Event::RemoveContainer,
    Event::StopPodSandbox,
    Event::RemovePodSandbox,
];

/// The last events of a plugin when the runtime shuts down.
pub(crate) const ENDED: [&str; 2] = ["Shutdown", "Closed"];

/// Notifies plugins of an event of the pod, or of its container `c0`.
pub(crate) async fn tell(operation: &Operation, event: Event) -> Result<(), RelayError> {
    let container = container("c0");
    let notice = match event {
        Event::CreateContainer => return operation.create_container(container).await.map(drop),
        Event::UpdateContainer => return operation.update_container(container, None).await.map(drop),
        Event::StopContainer => {
            return operation.stop_container(container).await.map(drop).map_err(|error| error.cause);
        }
        Event::ValidateContainerAdjustment => panic!("nobody is told of this alone"),
        Event::RunPodSandbox => Notice::RunPod,
        Event::UpdatePodSandbox => Notice::UpdatePod { overhead: None, resources: None },
        Event::PostUpdatePodSandbox => Notice::PostUpdatePod,
        Event::StopPodSandbox => Notice::StopPod,
        Event::RemovePodSandbox => Notice::RemovePod,
        Event::PostCreateContainer => Notice::PostCreate(container),
        Event::StartContainer => Notice::Start(container),
        Event::PostStartContainer => Notice::PostStart(container),
        Event::PostUpdateContainer => Notice::PostUpdate(container),
        Event::RemoveContainer => Notice::Remove(container),
    };
    operation.notify(notice).await
}

/// Returns the line that a plugin records for an event.
pub(crate) fn heard(event: Event) -> Value {
    let mut line = json!({"heard": event.rpc(), "pod": "p"});
    if event.rpc().ends_with("Container") {
        line["container"] = "c0".into();
    }
    line
}
