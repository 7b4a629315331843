//! Updates that a plugin asks for before it is admitted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Notice, Source, SourceError, UpdatesFailed};
use nri_proto::{Event, EventMask, Eviction, PluginId, Update, api};
use protobuf::Message;
use tokio::time::{Instant, sleep};
use ttrpc::Code;

use crate::node::{SECOND, pod};
use crate::raw::Raw;

/// A quarter of the request timeout: a call waits this long for its plugin to be admitted.
const PATIENCE: Duration = Duration::from_millis(500);

/// A runtime without containers that records the requested changes. It fails to update `broken`,
/// takes a second to update `slow`, and refuses plugins that are called `unwanted`.
#[derive(Default)]
struct Node(Mutex<Vec<String>>);

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn synchronized(&self, plugin: &PluginId, updates: Vec<Update>) -> Result<Vec<Update>, SourceError> {
        if plugin.name() == "unwanted" {
            return Err(SourceError("nobody wants it".to_owned()));
        }
        Ok(self.apply(plugin, updates, Vec::new()).await.unwrap())
    }

    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        {
            let mut wanted = self.0.lock().unwrap();
            wanted.extend(updates.iter().map(|update| format!("{plugin} updates {}", update.container_id)));
            wanted.extend(evictions.iter().map(|eviction| format!("{plugin} evicts {}", eviction.container_id)));
        }
        if updates.iter().any(|update| update.container_id == "slow") {
            sleep(SECOND).await;
        }
        Ok(updates.into_iter().filter(|update| update.container_id == "broken").collect())
    }
}

struct Runtime {
    nri: Adaptation,
    node: Arc<Node>,
}

impl Runtime {
    fn start(config: &str) -> Self {
        let node = Arc::new(Node::default());
        let config = Config { socket: None, ..Config::from_toml(config).unwrap() };
        Self { nri: Adaptation::new(config, Arc::clone(&node) as Arc<dyn Source>), node }
    }

    fn wanted(&self) -> Vec<String> {
        self.node.0.lock().unwrap().clone()
    }

    async fn until_joined(&self) {
        while self.nri.plugins().is_empty() {
            sleep(Duration::from_nanos(1)).await;
        }
    }
}

fn update(id: &str) -> api::ContainerUpdate {
    api::ContainerUpdate { container_id: id.to_owned(), ..Default::default() }
}

fn updates(ids: &[&str]) -> api::UpdateContainersRequest {
    api::UpdateContainersRequest { update: ids.iter().map(|id| update(id)).collect(), ..Default::default() }
}

fn evicts(id: &str) -> api::UpdateContainersRequest {
    let evict = api::ContainerEviction { container_id: id.to_owned(), ..Default::default() };
    api::UpdateContainersRequest { evict: vec![evict], ..Default::default() }
}

/// Registers a plugin, and returns it with the id of its Configure request.
async fn configure(nri: &Adaptation, id: &str) -> (Raw, u32) {
    let mut raw = Raw::connect(nri);
    raw.register(id).await;
    assert!(raw.answered().await.status.is_none(), "it was refused");
    let (configure, _) = raw.asked().await;
    (raw, configure)
}

fn failed(answer: &ttrpc::Response) -> Vec<String> {
    let failed = api::UpdateContainersResponse::parse_from_bytes(&answer.payload).unwrap().failed;
    failed.into_iter().map(|update| update.container_id).collect()
}

/// A plugin on Go's stub can do this, because `Start` returns once the plugin is configured.
#[tokio::test(start_paused = true)]
async fn an_update_right_after_the_registration_is_made_when_the_plugin_is_let_in_and_answered_then() {
    let runtime = Runtime::start("");
    let (mut plugin, configure) = configure(&runtime.nri, "10-a").await;
    plugin.answer(configure, &api::ConfigureResponse::new()).await;
    plugin.call("UpdateContainers", &updates(&["c", "broken"])).await;
    sleep(PATIENCE / 2).await;
    assert!(runtime.wanted().is_empty(), "it is not let in yet");
    let (synchronize, _) = plugin.asked().await;
    plugin.answer(synchronize, &api::SynchronizeResponse::new()).await;
    let answer = plugin.answered().await;
    assert_eq!(failed(&answer), ["broken"], "the plugin is told what failed");
    assert_eq!(runtime.wanted(), ["10-a updates c", "10-a updates broken"]);
    assert_eq!(runtime.nri.plugins().len(), 1);
    drop(plugin);
    runtime.nri.stop().await;
}

/// The runtime waits for the handler, so the handler's call is answered before the plugin is
/// admitted.
#[tokio::test(start_paused = true)]
async fn a_handler_with_which_a_plugin_joins_may_ask_for_updates() {
    let runtime = Runtime::start("");
    let (mut plugin, configure) = configure(&runtime.nri, "10-a").await;
    let begun = Instant::now();
    plugin.call("UpdateContainers", &updates(&["in-configure"])).await;
    assert!(plugin.answered().await.status.is_none(), "it was refused");
    assert_eq!(begun.elapsed(), PATIENCE);
    plugin.answer(configure, &api::ConfigureResponse::new()).await;
    let (synchronize, _) = plugin.asked().await;
    plugin.call("UpdateContainers", &updates(&["in-synchronize"])).await;
    assert!(plugin.answered().await.status.is_none(), "it was refused");
    plugin.call("UpdateContainers", &evicts("e")).await;
    assert!(plugin.answered().await.status.is_none(), "it was refused");
    assert_eq!(begun.elapsed(), PATIENCE, "the plugin waits once");
    assert!(runtime.wanted().is_empty(), "it is not let in yet");
    let answer = api::SynchronizeResponse { update: vec![update("answer")], ..Default::default() };
    plugin.answer(synchronize, &answer).await;
    runtime.until_joined().await;
    plugin.call("UpdateContainers", &updates(&["later"])).await;
    plugin.answered().await;
    let expected = ["updates in-configure", "updates in-synchronize", "updates answer", "evicts e", "updates later"];
    assert_eq!(runtime.wanted(), expected.map(|wanted| format!("10-a {wanted}")));
    drop(plugin);
    runtime.nri.stop().await;
}

/// The peer stops at various steps of its admission.
#[tokio::test(start_paused = true)]
async fn a_peer_that_is_not_let_in_changes_nothing() {
    let runtime = Runtime::start("");
    // The peer refuses its configuration while its call waits.
    let (mut peer, id) = configure(&runtime.nri, "10-a").await;
    peer.call("UpdateContainers", &updates(&["c"])).await;
    peer.call("UpdateContainers", &evicts("c")).await;
    sleep(PATIENCE / 2).await;
    peer.refuse(id, Code::UNKNOWN, "no").await;
    for _ in 0..2 {
        assert_eq!(peer.answered().await.status.code, Code::FAILED_PRECONDITION.into());
    }
    peer.closed().await;

    // The peer refuses the synchronization after its call was answered.
    let (mut peer, id) = configure(&runtime.nri, "10-a").await;
    peer.call("UpdateContainers", &updates(&["c"])).await;
    assert!(peer.answered().await.status.is_none());
    peer.answer(id, &api::ConfigureResponse::new()).await;
    let (id, _) = peer.asked().await;
    peer.refuse(id, Code::UNKNOWN, "no").await;
    peer.closed().await;

    // The runtime refuses the plugin.
    let (mut peer, id) = configure(&runtime.nri, "10-unwanted").await;
    for wanted in [updates(&["c"]), evicts("c")] {
        peer.call("UpdateContainers", &wanted).await;
        assert!(peer.answered().await.status.is_none());
    }
    peer.answer(id, &api::ConfigureResponse::new()).await;
    let (id, _) = peer.asked().await;
    let answer = api::SynchronizeResponse { update: vec![update("c")], ..Default::default() };
    peer.answer(id, &answer).await;
    peer.closed().await;

    // The peer never completes its admission.
    let (mut peer, id) = configure(&runtime.nri, "10-a").await;
    peer.answer(id, &api::ConfigureResponse::new()).await;
    peer.call("UpdateContainers", &updates(&["c"])).await;
    assert!(peer.answered().await.status.is_none());
    peer.closed().await;
    sleep(SECOND).await;
    assert_eq!(runtime.wanted(), <[&str; 0]>::default());
    assert!(runtime.nri.plugins().is_empty());
    runtime.nri.stop().await;
}

/// By then it has passed every check, and it might as well leave when it has joined.
#[tokio::test(start_paused = true)]
async fn what_a_peer_asked_for_stays_although_it_leaves_in_the_last_step_of_its_join() {
    let runtime = Runtime::start("");
    let (mut peer, id) = configure(&runtime.nri, "10-a").await;
    peer.call("UpdateContainers", &updates(&["early"])).await;
    assert!(peer.answered().await.status.is_none());
    let events = EventMask::from(Event::RunPodSandbox).to_wire().unwrap();
    peer.answer(id, &api::ConfigureResponse { events, ..Default::default() }).await;
    let (id, _) = peer.asked().await;
    // What happens meanwhile is the last thing that it is told.
    let operation = runtime.nri.begin(pod("p"));
    operation.notify(Notice::RunPod).await.unwrap();
    operation.commit();
    let answer = api::SynchronizeResponse { update: vec![update("answer")], ..Default::default() };
    peer.answer(id, &answer).await;
    let (_, request) = peer.asked().await;
    assert_eq!((&*request.method, runtime.nri.plugins().len()), ("RunPodSandbox", 0));
    drop(peer);
    sleep(SECOND * 5).await;
    assert_eq!(runtime.wanted(), ["10-a updates early", "10-a updates answer"]);
    assert!(runtime.nri.plugins().is_empty());
    runtime.nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_name_or_place_is_refused_is_told_before_it_is_a_plugin_and_changes_nothing() {
    let runtime = Runtime::start(
        "max_plugins = 2\nallowed_uids = [0, 1000]\n[plugins.bound]\nuids = [0]\n[plugins.launched]\norigin = 'launched'\n\
         [plugins.guard]\nvalidator = true",
    );
    let connect = |uid| {
        let (raw, reader, writer) = Raw::pair();
        runtime.nri.attach_user(uid, reader, writer);
        raw
    };
    let mut guard = connect(0);
    guard.register("10-guard").await;
    assert!(guard.answered().await.status.is_none(), "it was refused");
    let (id, _) = guard.asked().await;
    guard.answer(id, &api::ConfigureResponse::new()).await;
    let (id, _) = guard.asked().await;
    guard.answer(id, &api::SynchronizeResponse::new()).await;
    runtime.until_joined().await;
    // This plugin never finishes joining, and occupies a place meanwhile.
    let mut joining = connect(0);
    joining.register("20-joins").await;
    assert!(joining.answered().await.status.is_none(), "it was refused");

    let refusals = [
        ("10-bound", Code::PERMISSION_DENIED, "user 1000 is not among plugins.bound.uids, [0]"),
        ("10-launched", Code::PERMISSION_DENIED, "plugins.launched.origin is \"launched\""),
        (
            "10-guard",
            Code::ALREADY_EXISTS,
            "the new one is connected to the runtime by user 1000: end the first before",
        ),
        ("30-more", Code::RESOURCE_EXHAUSTED, "no place for plugin 30-more: there are 2 plugins already (max_plugins)"),
    ];
    for (name, code, text) in refusals {
        let mut peer = connect(1000);
        peer.register(name).await;
        peer.call("UpdateContainers", &updates(&["c"])).await;
        peer.call("UpdateContainers", &evicts("c")).await;
        let status = peer.answered().await.status.unwrap();
        assert_eq!(status.code, code.into(), "{name}: {}", status.message);
        assert!(status.message.ends_with(text), "{name}: {}", status.message);
        assert!(peer.asked_or_closed().await.is_none(), "{name} is asked something");
    }
    assert_eq!(runtime.wanted(), <[&str; 0]>::default());
    assert_eq!(runtime.nri.plugins().len(), 1);
    drop((guard, joining));
    runtime.nri.stop().await;
}

/// A plugin that the policy of its name restricts cannot get other permissions under another name.
#[tokio::test(start_paused = true)]
async fn a_restricted_plugin_does_not_come_back_under_another_name() {
    let runtime = Runtime::start("unnamed = 'refuse'\n[plugins.tuner]\nallow.changes = ['CPUShares']");
    for name in ["10-tuner2", "10-other"] {
        let mut peer = Raw::connect(&runtime.nri);
        peer.register(name).await;
        let status = peer.answered().await.status.unwrap();
        assert_eq!(status.code, Code::PERMISSION_DENIED.into());
        assert!(status.message.contains("unnamed = \"refuse\""), "{}", status.message);
        peer.closed().await;
    }
    let restricted = Raw::join(&runtime.nri, "77-tuner").await;
    assert_eq!(runtime.nri.plugins()[0].policy.origins.allow.to_string(), "operator, by name");
    drop(restricted);
    runtime.nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_asks_for_before_it_is_let_in_is_bounded() {
    let runtime = Runtime::start("");
    let (mut peer, _) = configure(&runtime.nri, "10-a").await;
    sleep(PATIENCE).await;
    let large = "x".repeat(200 << 10);
    let mut codes = Vec::new();
    for _ in 0..4 {
        peer.call("UpdateContainers", &updates(&[&large])).await;
        codes.push(peer.answered().await.status.as_ref().map(|status| status.code));
    }
    assert_eq!(codes, [None, None, Some(Code::RESOURCE_EXHAUSTED.into()), Some(Code::RESOURCE_EXHAUSTED.into())]);
    let mut kept = 2;
    peer.call("UpdateContainers", &evicts("e")).await;
    while peer.answered().await.status.is_none() {
        kept += 1;
        peer.call("UpdateContainers", &evicts("e")).await;
    }
    assert_eq!(kept, 40);
    drop(peer);
    runtime.nri.stop().await;
}

/// Each call is checked by itself.
#[tokio::test(start_paused = true)]
async fn an_early_update_that_is_not_allowed_takes_no_other_with_it() {
    let runtime = Runtime::start("[plugins.a]\nallow.changes = ['Updates']");
    let (mut plugin, id) = configure(&runtime.nri, "10-a").await;
    for wanted in [updates(&["allowed"]), evicts("forbidden")] {
        plugin.call("UpdateContainers", &wanted).await;
        assert!(plugin.answered().await.status.is_none());
    }
    plugin.answer(id, &api::ConfigureResponse::new()).await;
    let (id, _) = plugin.asked().await;
    plugin.answer(id, &api::SynchronizeResponse::new()).await;
    runtime.until_joined().await;
    assert_eq!(runtime.wanted(), ["10-a updates allowed"]);
    let told: Vec<_> = runtime.nri.ledger(|ledger| ledger.all()).iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|line| line.contains("may not evict")), "{told:?}");
    drop(plugin);
    runtime.nri.stop().await;
}

/// The reload happens while one peer is being synchronized and another is being configured.
#[tokio::test(start_paused = true)]
async fn a_peer_that_a_reload_does_not_permit_changes_nothing_from_then_on() {
    let runtime = Runtime::start("");
    let (mut joins, id) = configure(&runtime.nri, "10-a").await;
    let (mut configures, configure) = configure(&runtime.nri, "20-b").await;
    joins.answer(id, &api::ConfigureResponse::new()).await;
    joins.asked().await;
    for peer in [&mut joins, &mut configures] {
        peer.call("UpdateContainers", &updates(&["early"])).await;
        assert!(peer.answered().await.status.is_none());
    }
    let policy = Config { socket: None, ..Config::from_toml("unnamed = 'refuse'").unwrap() };
    runtime.nri.reload(&policy);
    // A peer that is being synchronized is closed at once.
    joins.closed().await;
    configures.call("UpdateContainers", &updates(&["late"])).await;
    assert_eq!(configures.answered().await.status.code, Code::PERMISSION_DENIED.into());
    configures.answer(configure, &api::ConfigureResponse::new()).await;
    configures.closed().await;
    assert_eq!(runtime.wanted(), <[&str; 0]>::default());
    runtime.nri.stop().await;
}

/// The reload happens while the runtime applies a slow update: one that was requested before the
/// synchronization was answered, or one from after that.
#[tokio::test(start_paused = true)]
async fn early_updates_that_wait_behind_a_slow_one_are_not_made_once_a_reload_does_not_permit_the_plugin() {
    for is_let_in in [false, true] {
        let runtime = Runtime::start("");
        let (mut plugin, id) = configure(&runtime.nri, "10-a").await;
        plugin.answer(id, &api::ConfigureResponse::new()).await;
        let (id, _) = plugin.asked().await;
        let mut expected = vec!["10-a updates slow"];
        for wanted in [updates(&["slow"]), evicts("e")] {
            plugin.call("UpdateContainers", &wanted).await;
            assert!(plugin.answered().await.status.is_none());
        }
        plugin.answer(id, &api::SynchronizeResponse::new()).await;
        sleep(SECOND / 2).await;
        if is_let_in {
            for wanted in [updates(&["slow"]), updates(&["c"])] {
                plugin.call("UpdateContainers", &wanted).await;
                assert!(plugin.answered().await.status.is_none());
            }
            runtime.until_joined().await;
            expected.extend(["10-a evicts e", "10-a updates slow"]);
            sleep(SECOND / 2).await;
        }
        let policy = Config { socket: None, ..Config::from_toml("unnamed = 'refuse'").unwrap() };
        runtime.nri.reload(&policy);
        sleep(SECOND * 2).await;
        assert_eq!(runtime.wanted(), expected);
        assert!(runtime.nri.plugins().is_empty());
        runtime.nri.stop().await;
    }
}
