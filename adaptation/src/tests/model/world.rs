//! A runtime that does random things at random times, and plugins that come and go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::{Container, Eviction, PluginId, Pod, Update};
use tokio::time::sleep;

use super::bookkeeper::Bookkeeper;
use super::checker::{History, OperationState, Session, check};
use super::lives::live;
use crate::Adaptation;
use crate::Config;
use crate::Notice;
use crate::Operation;
use crate::Source;
use crate::UpdatesFailed;
use crate::api::health::State;
use crate::api::plugin::Plugin;
use crate::api::snapshot::Snapshot;
use crate::tests::fake::SECOND;
use crate::tests::schedules::Random;

/// The state and the history of the runtime.
#[derive(Default)]
pub(super) struct Store {
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) containers: BTreeMap<String, Container>,
    history: History,
}

/// The runtime.
pub(super) struct Node {
    store: Mutex<Store>,
    random: Mutex<Random>,
    /// Counts events, so that their order can be compared.
    clock: AtomicU64,
    asked: AtomicU64,
    /// Whether plugins may be asked about several pods at a time.
    pub(super) per_pod: bool,
    /// Whether one plugin is required.
    pub(super) is_required: bool,
}

impl Node {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns when the runtime was last asked for a snapshot.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.random.lock().unwrap().below(limit)
    }

    pub(super) fn millis(&self, most: u64) -> Duration {
        self.random.lock().unwrap().millis(most)
    }

    pub(super) async fn pause(&self, most: u64) {
        let pause = self.millis(most);
        // With a pause of zero, no other task runs in between.
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.store.lock().unwrap());
    }

    /// Ends an operation, and records it in the history.
    pub(super) fn done(&self, operation: Operation, id: &str, events: &[&'static str], failed: bool) {
        self.done_with_words(operation, id, events, failed, None);
    }

    /// Like `done`, for a request that showed a container in another state (`words`) than it was.
    pub(super) fn done_with_words(
        &self,
        operation: Operation,
        id: &str,
        events: &[&'static str],
        failed: bool,
        words: Option<&'static str>,
    ) {
        if failed {
            drop(operation);
        } else {
            operation.commit();
        }
        let ended = self.tick();
        let operation = OperationState { events: events.to_vec(), failed, ended, words };
        self.change(|store| store.history.entry(id.to_owned()).or_default().push(operation));
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

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        self.pause(100).await;
        Ok(Vec::new())
    }
}

/// A plugin joins, in some schedules in place of another plugin, and later disconnects or stays
/// until the end.
async fn visit(nri: Arc<Adaptation>, node: Arc<Node>, name: String, stays: bool, good: bool) -> Visit {
    node.pause(8000).await;
    let plugin = Bookkeeper::new(&node, good);
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

/// Runs one schedule. Returns an error text if the model is violated.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let (per_pod, is_required) = (random.below(3) == 0, random.below(3) == 0);
    let mut one_of =
        |choices: &[&str]| choices[usize::try_from(random.below(choices.len() as u64)).unwrap()].to_owned();
    let policy = format!(
        "operation_timeout = '{}'\n[plugin_defaults]\nstrikes = {}\non_timeout = '{}'\nkeep_connected = {}\nconcurrency = '{}'\n\
         [plugins.00-a]\nrequired = {is_required}",
        one_of(&["5m", "5m", "1s", "4s"]),
        one_of(&["3", "1000"]),
        one_of(&["skip", "fail"]),
        one_of(&["true", "false", "false"]),
        if per_pod { "per-pod" } else { "serial" },
    );
    let config = Config { socket: None, ..Config::from_toml(&policy).unwrap() };
    let (n_pods, n_plugins) = (1 + random.below(4), 1 + random.below(4));
    let node = Arc::new(Node {
        store: Mutex::default(),
        clock: AtomicU64::new(0),
        asked: AtomicU64::new(0),
        random: Mutex::new(random),
        per_pod,
        is_required,
    });
    let nri = Arc::new(Adaptation::new(config, Arc::clone(&node) as Arc<dyn Source>));
    let lives: Vec<_> =
        (0..n_pods).map(|number| tokio::spawn(live(Arc::clone(&nri), Arc::clone(&node), number))).collect();
    let visits: Vec<_> = (0..n_plugins)
        .map(|number| {
            let (stays, good) = (node.below(3) > 0, node.below(2) == 0);
            // Some plugins replace another plugin.
            let name = format!("{}0-a", number % 3);
            tokio::spawn(visit(Arc::clone(&nri), Arc::clone(&node), name, stays, good))
        })
        .collect();
    for life in lives {
        life.await.unwrap();
    }
    let mut seen = Vec::new();
    for visit in visits {
        seen.push(visit.await.unwrap());
    }
    // From now on all plugins are well. A suspended plugin receives its backlog after its pause.
    seen.iter().for_each(|visit| visit.plugin.good.store(true, Ordering::SeqCst));
    sleep(SECOND * 400).await;
    let history = node.store.lock().unwrap().history.clone();
    let wrong = seen.iter().find_map(|visit| check_visit(&history, visit, &nri));
    // A suspended plugin without a backlog is probed by the next request.
    let pod = Pod { id: "q".to_owned(), ..Pod::default() };
    let operation = nri.begin(pod.clone());
    let _ = operation.notify(Notice::StopPod).await;
    node.done(operation, &pod.id, &["StopPodSandbox"], false);
    sleep(SECOND).await;
    let history = std::mem::take(&mut node.store.lock().unwrap().history);
    let wrong = wrong.or_else(|| {
        seen.iter().find_map(|visit| check_active(visit, &nri).or_else(|| check_visit(&history, visit, &nri)))
    });
    nri.stop().await;
    wrong
}

/// Returns the health state of a plugin, unless the plugin was closed.
fn state(visit: &Visit, nri: &Adaptation) -> Option<State> {
    let this = Arc::clone(&visit.plugin) as Arc<dyn Plugin>;
    let roster = nri.shared.roster();
    roster.entries().iter().find(|entry| Arc::ptr_eq(&entry.plugin, &this)).map(|entry| entry.state())
}

fn check_active(visit: &Visit, nri: &Adaptation) -> Option<String> {
    let state = state(visit, nri).filter(|_| visit.joined && visit.stays)?;
    (state != State::Active).then(|| format!("{} is well and not active again", visit.name))
}

fn check_visit(history: &History, visit: &Visit, nri: &Adaptation) -> Option<String> {
    let Visit { name, plugin, begun, joined: _, stays: _ } = visit;
    if plugin.overlapped.load(Ordering::SeqCst) {
        return Some(format!("{name} had two requests at a time"));
    }
    let (asked, shown) = plugin.shown.lock().unwrap().clone();
    if asked == 0 {
        return None;
    }
    let told = plugin.told.lock().unwrap().clone();
    // A plugin that was not closed has received everything, even if it is still suspended.
    let whole = state(visit, nri).is_some();
    let session = Session { plugin: name.clone(), begun: *begun, asked, shown, told, whole };
    check(history, &session)
}
