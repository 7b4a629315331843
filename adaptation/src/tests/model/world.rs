//! A runtime that does random things at random times, and plugins that come and go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::mux::Closed;
use nri_proto::{Container, ContainerState, Eviction, FailurePolicy, PluginId, Pod, Update};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use ttrpc::Code;

use super::checker::{Act, History, Session, check};
use crate::health::State;
use crate::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::request::Request;
use crate::shared::Mistake;
use crate::snapshot::Snapshot;
use crate::tests::fake::{LIFE, SECOND, reply};
use crate::tests::schedules::Random;
use crate::{Adaptation, Config, Notice, Operation, Source};

/// What the runtime has, and what it has done.
#[derive(Default)]
struct Store {
    pods: BTreeMap<String, Pod>,
    containers: BTreeMap<String, Container>,
    history: History,
}

/// The runtime.
struct Node {
    store: Mutex<Store>,
    random: Mutex<Random>,
    /// Counts all that happens, so that one can tell what was before what.
    clock: AtomicU64,
    asked: AtomicU64,
}

impl Node {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.lock().unwrap().below(limit)
    }

    async fn pause(&self, most: u64) {
        let pause = self.random.lock().unwrap().millis(most);
        // At times nothing at all happens in between.
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.store.lock().unwrap());
    }

    /// An act has ended.
    fn done(&self, operation: Operation, id: &str, events: &[&'static str], failed: bool) {
        if failed {
            drop(operation);
        } else {
            operation.commit();
        }
        let ended = self.tick();
        let act = Act { events: events.to_vec(), failed, ended };
        self.change(|store| store.history.entry(id.to_owned()).or_default().push(act));
    }
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        self.asked.store(self.tick(), Ordering::SeqCst);
        self.pause(300).await;
        let (pods, containers) = {
            let store = self.store.lock().unwrap();
            (store.pods.values().cloned().collect(), store.containers.values().cloned().collect())
        };
        self.pause(300).await;
        Snapshot { pods, containers }
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Vec<Update> {
        self.pause(100).await;
        Vec::new()
    }
}

/// A plugin that writes down what it sees.
struct Bookkeeper {
    node: Arc<Node>,
    patience: Duration,
    shown: Mutex<(u64, BTreeMap<String, &'static str>)>,
    told: Mutex<Vec<(&'static str, String)>>,
    busy: AtomicU64,
    overlapped: AtomicBool,
    good: AtomicBool,
    left: CancellationToken,
}

#[async_trait]
impl Plugin for Bookkeeper {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        self.node.pause(200).await;
        Ok(Subscription { events: WireEvents { known: LIFE, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        let pods = snapshot.pods.iter().map(|pod| (pod.id.clone(), "pod"));
        let containers = snapshot.containers.iter().map(|container| {
            let state = if container.state == ContainerState::Running { "running" } else { "created" };
            (container.id.clone(), state)
        });
        *self.shown.lock().unwrap() =
            (self.node.asked.load(Ordering::SeqCst), pods.chain(containers).collect::<BTreeMap<_, _>>());
        sleep(self.patience).await;
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let manner = if self.good.load(Ordering::SeqCst) { 0 } else { self.node.below(20) };
        if manner == 19 {
            return Err(PluginError::NotTaken);
        }
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        self.told.lock().unwrap().push((request.event().rpc(), about.clone()));
        if self.busy.fetch_add(1, Ordering::SeqCst) > 0 {
            self.overlapped.store(true, Ordering::SeqCst);
        }
        match manner {
            0..=9 => {}
            10..=15 => self.node.pause(1900).await,
            16 => self.node.pause(9000).await,
            _ => self.node.pause(50).await,
        }
        self.busy.fetch_sub(1, Ordering::SeqCst);
        match manner {
            17 => Err(PluginError::refused("not today")),
            18 => Err(PluginError::Refused { code: Code::DEADLINE_EXCEEDED, message: "too late".to_owned() }),
            _ => Ok(reply(request.event())),
        }
    }

    async fn gone(&self) -> Closed {
        self.left.cancelled().await;
        Closed::Eof
    }
}

/// The life of a pod, with containers one after the other.
async fn live(nri: Arc<Adaptation>, node: Arc<Node>, number: u64) {
    let id = format!("p{number}");
    let pod = Pod { id: id.clone(), ..Pod::default() };
    node.pause(1500).await;
    let operation = nri.begin(pod.clone());
    let ran = in_time(&node, operation.notify(Notice::RunPod)).await;
    node.pause(200).await;
    if !ran || node.below(8) == 0 {
        return node.done(operation, &id, &["RunPodSandbox"], true);
    }
    node.change(|store| drop(store.pods.insert(id.clone(), pod.clone())));
    node.pause(200).await;
    node.done(operation, &id, &["RunPodSandbox"], false);
    for n in 0..=node.below(2) {
        contain(&nri, &node, &pod, format!("{id}c{n}")).await;
    }
    let operation = nri.begin(pod.clone());
    let _ = in_time(&node, operation.notify(Notice::StopPod)).await;
    node.pause(100).await;
    node.done(operation, &id, &["StopPodSandbox"], false);
    node.pause(500).await;
    let operation = nri.begin(pod);
    let _ = in_time(&node, operation.notify(Notice::RemovePod)).await;
    node.pause(100).await;
    node.change(|store| drop(store.pods.remove(&id)));
    node.pause(100).await;
    node.done(operation, &id, &["RemovePodSandbox"], false);
}

/// The life of a container.
async fn contain(nri: &Adaptation, node: &Node, pod: &Pod, id: String) {
    let of_state = |state| Container { id: id.clone(), pod_id: pod.id.clone(), state, ..Container::default() };
    let (created, running) = (of_state(ContainerState::Created), of_state(ContainerState::Running));
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let asked = in_time(node, operation.create_container(created.clone())).await;
    node.pause(300).await;
    if !asked || node.below(6) == 0 {
        return node.done(operation, &id, &["CreateContainer"], true);
    }
    node.change(|store| drop(store.containers.insert(id.clone(), created.clone())));
    node.pause(300).await;
    // What has happened is told in any case, also if nobody waits for that.
    let _ = operation.notify(Notice::PostCreate(created.clone())).await;
    node.done(operation, &id, &["CreateContainer", "PostCreateContainer"], false);

    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let started = in_time(node, operation.notify(Notice::Start(created.clone()))).await;
    let mut last = created;
    if started && node.below(8) != 0 {
        node.change(|store| drop(store.containers.insert(id.clone(), running.clone())));
        node.pause(300).await;
        let _ = operation.notify(Notice::PostStart(running.clone())).await;
        node.done(operation, &id, &["StartContainer", "PostStartContainer"], false);
        last = running;
    } else {
        node.done(operation, &id, &["StartContainer"], true);
    }

    node.pause(1000).await;
    let operation = nri.begin(pod.clone());
    let _ = in_time(node, operation.stop_container(last)).await;
    node.pause(100).await;
    node.change(|store| drop(store.containers.remove(&id)));
    // A stop may take long.
    if node.below(4) == 0 {
        node.pause(60_000).await;
    }
    node.done(operation, &id, &["StopContainer"], false);
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let _ = in_time(node, operation.notify(Notice::Remove(of_state(ContainerState::Stopped)))).await;
    node.done(operation, &id, &["RemoveContainer"], false);
}

/// Whether it went well. Some callers are impatient.
async fn in_time<T, E>(node: &Node, request: impl Future<Output = Result<T, E>>) -> bool {
    if node.below(8) > 0 {
        return request.await.is_ok();
    }
    let patience = node.random.lock().unwrap().millis(3000);
    matches!(timeout(patience, request).await, Ok(Ok(_)))
}

/// A plugin joins, stays for a while, and leaves or stays until the end.
async fn visit(nri: Arc<Adaptation>, node: Arc<Node>, name: String, stays: bool, good: bool) -> Visit {
    node.pause(4000).await;
    let patience = node.random.lock().unwrap().millis(2000);
    let plugin = Arc::new(Bookkeeper {
        node: Arc::clone(&node),
        patience,
        shown: Mutex::default(),
        told: Mutex::default(),
        busy: AtomicU64::new(0),
        overlapped: AtomicBool::new(false),
        good: AtomicBool::new(good),
        left: CancellationToken::new(),
    });
    let begun = node.tick();
    let id: PluginId = name.parse().unwrap();
    let joined = nri.admit(id, Arc::clone(&plugin) as Arc<dyn Plugin>).await.is_ok();
    if !stays {
        node.pause(10_000).await;
        plugin.left.cancel();
    }
    Visit { name, plugin, begun, joined, stays }
}

struct Visit {
    name: String,
    plugin: Arc<Bookkeeper>,
    begun: u64,
    joined: bool,
    stays: bool,
}

/// One schedule. Returns what is wrong, if anything is.
pub(super) async fn schedule(seed: u64, mistake: Option<Mistake>) -> Option<String> {
    let mut random = Random::of(seed);
    let policy = format!(
        "plugin_defaults.strikes = {}\nplugin_defaults.on_timeout = \"{}\"\nplugin_defaults.keep_connected = {}",
        [3, 1000][usize::try_from(random.below(2)).unwrap()],
        ["skip", "fail"][usize::try_from(random.below(2)).unwrap()],
        random.below(3) == 0,
    );
    let config = Config { socket: None, ..Config::from_toml(&policy).unwrap() };
    let (n_pods, n_plugins) = (1 + random.below(4), 1 + random.below(3));
    let node = Arc::new(Node {
        store: Mutex::default(),
        clock: AtomicU64::new(0),
        asked: AtomicU64::new(0),
        random: Mutex::new(random),
    });
    let nri = Arc::new(Adaptation::new(config, Arc::clone(&node) as Arc<dyn Source>));
    if let Some(mistake) = mistake {
        nri.shared.mistake.set(mistake).unwrap();
    }
    let lives: Vec<_> =
        (0..n_pods).map(|number| tokio::spawn(live(Arc::clone(&nri), Arc::clone(&node), number))).collect();
    let visits: Vec<_> = (0..n_plugins)
        .map(|number| {
            let (stays, good) = (node.below(3) > 0, node.below(2) == 0);
            tokio::spawn(visit(Arc::clone(&nri), Arc::clone(&node), format!("{number}0-a"), stays, good))
        })
        .collect();
    for life in lives {
        life.await.unwrap();
    }
    let mut seen = Vec::new();
    for visit in visits {
        seen.push(visit.await.unwrap());
    }
    // From now on all are well, and someone asks those who were suspended.
    seen.iter().for_each(|visit| visit.plugin.good.store(true, Ordering::SeqCst));
    for number in 0..40 {
        sleep(SECOND * 30).await;
        let pod = Pod { id: format!("q{number}"), ..Pod::default() };
        let operation = nri.begin(pod.clone());
        let _ = operation.notify(Notice::StopPod).await;
        node.done(operation, &pod.id, &["StopPodSandbox"], false);
    }
    sleep(SECOND * 30).await;
    let statuses = nri.plugins();
    let history = std::mem::take(&mut node.store.lock().unwrap().history);
    let wrong = seen.iter().find_map(|visit| check_visit(&history, visit, &statuses));
    nri.stop().await;
    wrong
}

fn check_visit(history: &History, visit: &Visit, statuses: &[crate::PluginStatus]) -> Option<String> {
    let Visit { name, plugin, begun, joined, stays } = visit;
    if plugin.overlapped.load(Ordering::SeqCst) {
        return Some(format!("{name} had two requests at a time"));
    }
    let (asked, shown) = plugin.shown.lock().unwrap().clone();
    if asked == 0 {
        return None;
    }
    let is_active = statuses.iter().any(|status| status.id.as_str() == name && status.state == State::Active);
    let is_kept = statuses.iter().any(|status| status.id.as_str() == name);
    if *joined && *stays && is_kept && !is_active {
        return Some(format!("{name} is well and not active again"));
    }
    let told = plugin.told.lock().unwrap().clone();
    let session = Session { plugin: name.clone(), begun: *begun, asked, shown, told, whole: is_active };
    check(history, &session)
}
