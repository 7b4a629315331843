//! Updates and evictions of other containers that plugins ask for, and the domains that apply them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use nri_api::plugin::Reply;
use nri_api::proto::{StopReply, UpdateReply};
use nri_api::testing::{FakeBehavior, FakeDomain};
use nri_api::{Config, Domain, DomainError, Event, Eviction, Field, Handle, Inventory, Nri, Resources, State, Update};
use nri_plugin::{Connection, Options, Runner, UpdateError};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::rig::{Recorder, Rig, SECOND, config, container, create_reply, exited, pod, running, settle};

/// Returns an update that sets the CPU shares of a container.
fn shares(id: &str, shares: u64) -> Update {
    let mut update = Update::of(id);
    update.resources_mut().cpu_mut().shares = Some(shares);
    update
}

/// Returns the CPU shares of a container in a domain.
fn shares_of(domain: &FakeDomain, id: &str) -> Option<u64> {
    domain.container(id)?.linux?.resources?.cpu?.shares
}

/// Returns the failed updates and evictions in the ledger, as `10-books CreateContainer c: why`.
fn failures(nri: &Nri) -> Vec<String> {
    use nri_api::ledger::EntryKind;
    let entries = nri.ledger(nri_api::ledger::Ledger::all);
    let line = |entry: &nri_api::ledger::Entry| {
        let (kind, reason) = if let EntryKind::UpdateFailed { reason } = &entry.what {
            ("update", reason)
        } else if let EntryKind::EvictionFailed { reason } = &entry.what {
            ("eviction", reason)
        } else {
            return None;
        };
        let event = entry.occasion.event.map_or("by itself", Event::rpc);
        let container = entry.occasion.container.as_deref().unwrap_or_default();
        Some(format!("{} {event} {kind} of {container}: {reason}", entry.occasion.plugin))
    };
    entries.iter().filter_map(|entry| line(entry)).collect()
}

#[tokio::test(start_paused = true)]
async fn updates_of_others_are_made_before_the_call_returns() {
    let rig = Rig::new().await;
    rig.running("p", "a").await;
    rig.running("q", "b").await;
    rig.plugin.reply(Event::CreateContainer, create_reply(vec![shares("a", 1)], Vec::new()));
    let creation = rig.handle.create_container(pod("q"), container("q", "c")).await.unwrap();
    assert_eq!(shares_of(&rig.domain, "a"), Some(1));
    drop(creation);
    let updates = vec![shares("a", 2), shares("b", 3)];
    rig.plugin.reply(Event::UpdateContainer, Reply::Update(UpdateReply { updates, ..UpdateReply::default() }));
    let update = rig.handle.update_container(pod("q"), running("q", "b"), Some(Resources::default())).await.unwrap();
    assert_eq!(shares_of(&rig.domain, "a"), Some(2));
    assert_eq!(shares_of(&rig.domain, "b"), None, "its own is the runtime's to make");
    assert_eq!(update.resources().unwrap().cpu.as_ref().unwrap().shares, Some(3));
    let updates = vec![shares("a", 4)];
    rig.plugin.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
    rig.stop("q", "b").await;
    assert_eq!(shares_of(&rig.domain, "a"), Some(4));
    assert_eq!(failures(&rig.nri), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_is_in_the_ledger_and_fails_nothing_else() {
    let rig = Rig::new().await;
    rig.running("p", "a").await;
    rig.domain.behave(FakeBehavior::Fails);
    let tolerant = Update { ignore_failure: true, ..shares("nobody", 1) };
    rig.plugin.reply(Event::CreateContainer, create_reply(vec![shares("a", 1), tolerant], Vec::new()));
    rig.create("p", "c").await;
    let expected = [
        "10-books CreateContainer update of nobody: there is no such container",
        "10-books CreateContainer update of a: namespace k8s.io could not apply the change: the runtime failed: it fails on purpose",
    ];
    assert_eq!(failures(&rig.nri), expected);
}

#[tokio::test(start_paused = true)]
async fn why_an_update_failed_is_in_the_ledger_whoever_asked_for_it() {
    let rig = Rig::new().await;
    rig.running("p", "a").await;
    rig.domain.behave(FakeBehavior::Fails);
    rig.plugin.reply(Event::CreateContainer, create_reply(vec![Update::of("a")], Vec::new()));
    rig.create("p", "c").await;
    let joins = Recorder::new();
    joins.want(vec![shares("a", 1), Update { ignore_failure: true, ..shares("never", 2) }]);
    rig.nri.admit("20-joins".parse().unwrap(), joins).await.unwrap();
    let why = "namespace k8s.io could not apply the change: the runtime failed: it fails on purpose";
    let expected = [
        format!("(nobody) CreateContainer update of a: {why}"),
        "20-joins by itself update of never: there is no such container".to_owned(),
        format!("20-joins by itself update of a: {why}"),
    ];
    assert_eq!(failures(&rig.nri), expected);
}

#[tokio::test(start_paused = true)]
async fn what_has_just_gone_is_no_failure_and_what_never_was_is_one() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    for id in ["stopped", "removed", "forgotten"] {
        rig.create("p", id).await;
        rig.start("p", id).await;
    }
    rig.stop("p", "stopped").await;
    rig.remove("p", "removed").await;
    rig.domain.forget("removed");
    rig.domain.forget("forgotten");
    let ids = ["stopped", "removed", "forgotten", "never"];
    let updates = ids.iter().map(|id| shares(id, 1)).collect();
    let evictions = ids.iter().map(|id| Eviction::new(*id, "to make room")).collect();
    rig.plugin.reply(Event::CreateContainer, create_reply(updates, evictions));
    rig.create("p", "c").await;
    settle().await;
    let expected = [
        "10-books CreateContainer update of never: there is no such container",
        "10-books CreateContainer eviction of never: there is no such container",
    ];
    assert_eq!(failures(&rig.nri), expected);
    assert_eq!(rig.domain.updates().len(), 1, "only what may still be there is asked for");
}

#[tokio::test(start_paused = true)]
async fn of_two_namespaces_with_the_same_id_each_has_its_own() {
    let (one, other) = (FakeDomain::new(), FakeDomain::new());
    let nri = Nri::new(config());
    let handles = [nri.register("one", one.clone()).unwrap(), nri.register("other", other.clone()).unwrap()];
    nri.start().await.unwrap();
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    for (handle, domain) in handles.iter().zip([&one, &other]) {
        domain.put_pod(pod("p"));
        handle.run_pod(pod("p")).await.unwrap().commit();
        let creation = handle.create_container(pod("p"), container("p", "c")).await.unwrap();
        domain.put(running("p", "c"));
        creation.created(running("p", "c")).await.unwrap();
    }
    handles[1].stop_container(pod("p"), container("p", "c")).await.unwrap();
    assert_eq!(handles[0].container_state("c"), Some(State::Created));
    assert_eq!(handles[1].container_state("c"), Some(State::Stopped));
    handles[1].start_container(pod("p"), container("p", "c")).await.unwrap().started(running("p", "c")).await.unwrap();

    // In a request of one of the namespaces, the container of that namespace is meant.
    plugin.reply(Event::CreateContainer, create_reply(vec![shares("c", 7)], Vec::new()));
    drop(handles[1].create_container(pod("p"), container("p", "d")).await.unwrap());
    assert_eq!((shares_of(&one, "c"), shares_of(&other, "c")), (None, Some(7)));

    // Outside a request, the container is ambiguous.
    let joining = Recorder::new();
    joining.want(vec![shares("c", 9)]);
    nri.admit("20-joins".parse().unwrap(), joining.clone()).await.unwrap();
    assert_eq!((shares_of(&one, "c"), shares_of(&other, "c")), (None, Some(7)));
    assert_eq!(failures(&nri).len(), 1);
    handles[1].remove_pod(pod("p")).await.unwrap();
    assert_eq!(handles[0].pod_state("p"), Some(State::Running));
}

#[tokio::test(start_paused = true)]
async fn a_container_of_another_namespace_is_found() {
    let (one, other) = (FakeDomain::new(), FakeDomain::new());
    other.put_pod(pod("q"));
    other.put(running("q", "far"));
    let nri = Nri::new(config());
    let handle = nri.register("one", one.clone()).unwrap();
    let _other = nri.register("other", other.clone()).unwrap();
    nri.start().await.unwrap();
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    let evictions = vec![Eviction::new("far", "to make room")];
    plugin.reply(Event::CreateContainer, create_reply(vec![shares("far", 5)], evictions));
    let _creation = handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    settle().await;
    assert_eq!((other.updates().len(), other.evictions().len(), one.updates().len()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_over_here_and_runs_elsewhere_is_updated_there() {
    let (one, other) = (FakeDomain::new(), FakeDomain::new());
    other.put_pod(pod("q"));
    other.put(running("q", "twice"));
    one.put_pod(pod("p"));
    one.put(exited("p", "twice", 0));
    let nri = Nri::new(config());
    let handle = nri.register("one", one.clone()).unwrap();
    let _other = nri.register("other", other.clone()).unwrap();
    nri.start().await.unwrap();
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    plugin.reply(Event::CreateContainer, create_reply(vec![shares("twice", 5)], Vec::new()));
    let _creation = handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    assert_eq!((shares_of(&other, "twice"), one.updates().len()), (Some(5), 0));
    assert_eq!(failures(&nri), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_domain_that_hangs_or_panics_costs_its_limit_and_others_nothing() {
    for (manner, why) in [(FakeBehavior::Hangs, "the call timed out"), (FakeBehavior::Panics, "the call panicked")] {
        let (bad, good) = (FakeDomain::new(), FakeDomain::new());
        for (domain, id) in [(&bad, "b"), (&good, "g")] {
            domain.put_pod(pod(&format!("pod-{id}")));
            domain.put(running(&format!("pod-{id}"), id));
        }
        let limit = Duration::from_secs(8);
        let nri = Nri::new(Config { source_timeout: limit, ..config() });
        let handle = nri.register("bad", bad.clone()).unwrap();
        let _good = nri.register("good", good.clone()).unwrap();
        nri.start().await.unwrap();
        let plugin = Recorder::new();
        nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
        bad.behave(manner);
        let evictions = vec![Eviction::new("b", ""), Eviction::new("g", "")];
        plugin.reply(Event::CreateContainer, create_reply(vec![shares("b", 1), shares("g", 2)], evictions));
        let before = Instant::now();
        let _creation = handle.create_container(pod("p"), container("p", "c")).await.unwrap();
        assert!(before.elapsed() <= limit + SECOND);
        assert_eq!(shares_of(&good, "g"), Some(2));
        sleep(limit * 2).await;
        assert_eq!(good.evictions().len(), 1);
        let expected = [
            format!("10-books CreateContainer update of b: namespace bad could not apply the change: {why}"),
            format!("10-books CreateContainer eviction of b: namespace bad could not apply the change: {why}"),
        ];
        let mut seen = failures(&nri);
        seen.sort_by_key(|line| line.contains("eviction"));
        assert_eq!(seen, expected);

        // A plugin that joined with an incomplete snapshot would never learn of the rest.
        let early = nri.admit("20-joins".parse().unwrap(), Recorder::new()).await.unwrap_err();
        assert_eq!(early.to_string(), "the runtime failed to synchronize plugin 20-joins");
        bad.behave(FakeBehavior::Well);
        let joining = Recorder::new();
        nri.admit("20-joins".parse().unwrap(), joining.clone()).await.unwrap();
        assert_eq!(joining.shown()[0].containers.len(), 2);
        nri.stop().await;
    }
}

/// A domain that reports the stop of an evicted container before its eviction returns.
struct Thorough {
    memory: Arc<FakeDomain>,
    handle: OnceLock<Handle>,
}

#[async_trait]
impl Domain for Thorough {
    async fn inventory(&self) -> Inventory {
        self.memory.inventory().await
    }
    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.memory.update(update).await
    }
    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        let id = eviction.container_id.clone();
        self.memory.evict(eviction).await?;
        let handle = self.handle.get().expect("it was registered");
        handle.stop_container(pod("p"), container("p", &id)).await.map_err(DomainError::failed)
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_in_a_create_of_the_same_pod_does_not_deadlock() {
    let memory = FakeDomain::new();
    let domain = Arc::new(Thorough { memory: memory.clone(), handle: OnceLock::new() });
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    assert!(domain.handle.set(handle.clone()).is_ok());
    memory.put_pod(pod("p"));
    memory.put(running("p", "old"));
    nri.start().await.unwrap();
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    let evictions = vec![Eviction::new("old", "to make room"), Eviction::new("new", "itself")];
    plugin.reply(Event::CreateContainer, create_reply(Vec::new(), evictions));
    let creation = handle.create_container(pod("p"), container("p", "new"));
    let creation = timeout(SECOND, creation).await.expect("nobody waits for an eviction").unwrap();
    creation.created(running("p", "new")).await.unwrap();
    settle().await;
    assert_eq!(handle.container_state("old"), Some(State::Stopped));
    assert_eq!(plugin.heard().iter().filter(|line| *line == "StopContainer old").count(), 1);
    assert_eq!(plugin.heard()[0], "CreateContainer new");
    let refused = "10-books CreateContainer eviction of new: the container is still being created";
    assert_eq!(failures(&nri).iter().filter(|line| *line != refused).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn limits_that_the_runtime_did_not_set_have_no_reason_in_the_ledger() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    let reply = UpdateReply { updates: vec![shares("c", 7)], ..UpdateReply::default() };
    rig.plugin.reply(Event::UpdateContainer, Reply::Update(reply));
    let update = || rig.handle.update_container(pod("p"), running("p", "c"), Some(Resources::default()));
    let why = || rig.nri.ledger(|ledger| ledger.why("c", Field::CPUShares, None)).len();
    update().await.unwrap().updated(running("p", "c")).await.unwrap();
    assert_eq!(why(), 1);
    drop(update().await.unwrap());
    assert_eq!(why(), 1, "only the one that was made");
    let last = rig.nri.ledger(|ledger| ledger.of("c")).pop().unwrap();
    assert_eq!(last.to_string(), "10-books could not update c: the runtime did not apply the update");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_eviction_and_one_that_fails_is_in_the_ledger() {
    let rig = Rig::new().await;
    rig.running("p", "old").await;
    rig.domain.behave(FakeBehavior::Fails);
    let evictions = vec![Eviction::new("old", "to make room")];
    rig.plugin.reply(Event::CreateContainer, create_reply(Vec::new(), evictions));
    rig.create("p", "c").await;
    settle().await;
    let failed = &failures(&rig.nri)[0];
    assert!(
        failed.starts_with("10-books CreateContainer eviction of old: namespace k8s.io could not apply the change"),
        "{failed}"
    );
    rig.domain.behave(FakeBehavior::Hangs);
    let before = Instant::now();
    rig.create("p", "d").await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

/// A plugin on `nri-plugin`, connected through a socket.
struct Caller;

#[async_trait]
impl nri_plugin::Plugin for Caller {
    fn events(&self) -> nri_plugin::EventMask {
        Event::RemovePodSandbox.into()
    }
}

#[tokio::test]
async fn a29_a_plugin_that_updates_by_itself_is_told_what_failed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let rig = Rig::with(Config { socket: Some(socket.clone()), ..config() }, FakeDomain::new()).await;
    rig.running("p", "a").await;
    rig.running("q", "b").await;
    rig.stop("q", "b").await;
    let options = Options {
        name: Some("caller".to_owned()),
        index: Some("20".to_owned()),
        connection: Connection::Path(socket),
        ..Options::default()
    };
    let runner = Runner::new(Arc::new(Caller), options).unwrap();
    let (runtime, shutdown) = (runner.runtime(), CancellationToken::new());
    let running = tokio::spawn(runner.run(shutdown.clone()));
    runtime.connected().await;
    let tolerant = Update { ignore_failure: true, ..shares("never", 1) };
    assert_eq!(runtime.update(vec![tolerant.clone()], Vec::new()).await.unwrap(), []);
    let updates = vec![shares("a", 8), shares("b", 8), shares("none", 8), tolerant];
    let evictions = vec![Eviction::new("a", "enough"), Eviction::new("none", "enough")];
    let Err(UpdateError::Failed { reason, failed }) = runtime.update(updates, evictions).await else {
        panic!("the plugin is not told")
    };
    assert_eq!(reason, "an update failed: none: there is no such container");
    assert_eq!(failed.iter().map(|update| &*update.container_id).collect::<Vec<_>>(), ["none"]);
    assert_eq!(rig.domain.updates().len(), 1);
    timeout(SECOND * 10, async {
        while failures(&rig.nri).len() < 4 || rig.domain.evictions().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let mut written = failures(&rig.nri);
    written.sort();
    let expected = [
        "20-caller by itself eviction of none: there is no such container",
        "20-caller by itself update of never: there is no such container",
        "20-caller by itself update of never: there is no such container",
        "20-caller by itself update of none: there is no such container",
    ];
    assert_eq!(written, expected);
    shutdown.cancel();
    running.await.unwrap().unwrap();
    rig.nri.stop().await;
}
