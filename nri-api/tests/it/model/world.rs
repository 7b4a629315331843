//! A slow runtime in memory, and plugins that join it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use nri_api::{
    Config, Container, ContainerState, Domain, DomainError, Error, Eviction, Handle, Inventory, KnownPod, Nri,
    PodlessHandle, Resources, Start, Update,
};
use tokio::time::{sleep, timeout};

use super::checker::{Act, History, Session, check};
use super::keeper::{Keeper, Manner};
use super::{found, lives};
use crate::rig;

/// A small random number generator. The seed alone reproduces a failure.
pub(super) struct Random(u64);

impl Random {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A container in the runtime.
#[derive(Clone)]
pub(super) struct Has {
    pub(super) words: Container,
    /// Whether the container runs and its end was not reported.
    pub(super) runs: bool,
    /// Whether the runtime is about to start the container again although it runs. Its end is not
    /// reported until that start is over: a runtime does not start and stop one container at the
    /// same time.
    pub(super) is_starting: bool,
}

/// The handle of the runtime, with pods or without.
#[derive(Clone)]
pub(super) enum WayIn {
    Pods(Handle),
    Podless(PodlessHandle),
}

/// The runtime: its pods and containers, and the history of its actions.
pub(super) struct Node {
    pub(super) pods: Mutex<BTreeMap<String, KnownPod>>,
    pub(super) containers: Mutex<BTreeMap<String, Has>>,
    history: Mutex<History>,
    random: Mutex<Random>,
    clock: AtomicU64,
    pub(super) way: OnceLock<WayIn>,
}

/// The place of an action in the history of its object.
#[derive(Clone)]
pub(super) struct Place(String, usize);

impl Node {
    pub(super) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.random.lock().unwrap().below(limit)
    }

    pub(super) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Pauses for at most this many milliseconds, sometimes for none.
    pub(super) async fn pause(&self, most: u64) {
        let pause = if self.one_in(3) { 0 } else { self.below(most + 1) };
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
    }

    pub(super) fn way(&self) -> &WayIn {
        self.way.get().unwrap()
    }

    pub(super) fn is_podless(&self) -> bool {
        matches!(self.way(), WayIn::Podless(_))
    }

    pub(super) fn any_container(&self) -> Option<String> {
        let ids: Vec<_> = self.containers.lock().unwrap().keys().cloned().collect();
        let place = usize::try_from(self.below(ids.len().max(1) as u64)).unwrap();
        ids.get(place).cloned()
    }

    /// Records that the runtime begins to report an action on an object. The outcome may be
    /// recorded later.
    pub(super) fn act(&self, id: &str, told: &[&[&'static str]], shown: &[Option<&'static str>]) -> Place {
        let said = self.tick();
        let act =
            Act { said, done: u64::MAX, told: told.iter().map(|told| told.to_vec()).collect(), shown: shown.to_vec() };
        let mut history = self.history.lock().unwrap();
        let acts = history.entry(id.to_owned()).or_default();
        acts.push(act);
        Place(id.to_owned(), acts.len() - 1)
    }

    /// Records the outcome of an action.
    pub(super) fn came_to(&self, place: &Place, told: &[&[&'static str]], shown: &[Option<&'static str>]) {
        let mut history = self.history.lock().unwrap();
        let act = &mut history.get_mut(&place.0).unwrap()[place.1];
        act.told = told.iter().map(|told| told.to_vec()).collect();
        act.shown = shown.to_vec();
    }

    /// Records that all plugins were notified of an action.
    pub(super) fn done(&self, place: &Place) {
        let done = self.tick();
        self.history.lock().unwrap().get_mut(&place.0).unwrap()[place.1].done = done;
    }

    pub(super) fn words(&self, id: &str) -> Container {
        self.containers.lock().unwrap()[id].words.clone()
    }

    /// Records the end of the current run, if the container runs.
    pub(super) fn ends(&self, id: &str) -> Option<(Place, Option<Place>)> {
        let mut containers = self.containers.lock().unwrap();
        let has = containers.get_mut(id).filter(|has| has.runs)?;
        has.runs = false;
        has.words.state = ContainerState::Stopped;
        drop(containers);
        Some(self.stops(id))
    }

    /// Records a stop, whether or not the container ran.
    pub(super) fn stops(&self, id: &str) -> (Place, Option<Place>) {
        let place = self.act(&format!("c/{id}"), &[&["StopContainer"]], &[None]);
        let of_pod = self.is_podless().then(|| self.act(&format!("p/{id}"), &[&["StopPodSandbox"]], &[None]));
        (place, of_pod)
    }

    fn is_starting(&self, id: &str) -> bool {
        self.containers.lock().unwrap().get(id).is_some_and(|has| has.is_starting)
    }

    /// Sets whether a start of a running container is in progress.
    pub(super) fn set_starting(&self, id: &str, is_starting: bool) {
        if let Some(has) = self.containers.lock().unwrap().get_mut(id) {
            has.is_starting = is_starting;
        }
    }

    /// Ends the container's process, and reports the exit.
    pub(super) fn exits(&self, id: &str) {
        if self.ends(id).is_some() {
            let words = Container { exit_code: 3, ..self.words(id) };
            match self.way() {
                WayIn::Pods(handle) => handle.container_exited(rig::pod(&words.pod_id), words),
                WayIn::Podless(handle) => handle.container_exited(words),
            }
        }
    }
}

impl WayIn {
    pub(super) async fn start(&self, words: Container) -> Result<Start, Error> {
        match self {
            Self::Pods(handle) => handle.start_container(rig::pod(&words.pod_id), words).await,
            Self::Podless(handle) => handle.start_container(words).await,
        }
    }

    /// Reports a Stop. If the caller leaves before it is done, waits for the end of the container
    /// instead.
    pub(super) async fn stop(&self, words: Container, patience: Duration) {
        let id = words.id.clone();
        let stopped = match self {
            Self::Pods(handle) => timeout(patience, handle.stop_container(rig::pod(&words.pod_id), words)).await,
            Self::Podless(handle) => timeout(patience, handle.stop_container(words)).await,
        };
        if stopped.is_err() {
            self.ended(&id).await;
        }
    }

    /// Reports a Remove. If the caller leaves before it is done, waits for the end of the container
    /// instead.
    pub(super) async fn remove(&self, words: Container, patience: Duration) {
        let id = words.id.clone();
        let removed = match self {
            Self::Pods(handle) => timeout(patience, handle.remove_container(rig::pod(&words.pod_id), words)).await,
            Self::Podless(handle) => timeout(patience, handle.remove_container(words)).await,
        };
        if removed.is_err() {
            self.ended(&id).await;
        }
    }

    /// Waits until plugins were told of an end.
    async fn ended(&self, id: &str) {
        match self {
            Self::Pods(handle) => handle.container_ended(id).await,
            Self::Podless(handle) => handle.container_ended(id).await,
        }
    }

    pub(super) async fn update(&self, words: Container) -> Result<nri_api::ContainerUpdate, Error> {
        let wanted = Some(Resources::default());
        match self {
            Self::Pods(handle) => handle.update_container(rig::pod(&words.pod_id), words, wanted).await,
            Self::Podless(handle) => handle.update_container(words, wanted).await,
        }
    }

    pub(super) async fn create(&self, words: Container) -> Result<nri_api::Creation, Error> {
        match self {
            Self::Pods(handle) => handle.create_container(rig::pod(&words.pod_id), words).await,
            Self::Podless(handle) => handle.create_container(words).await,
        }
    }
}

#[async_trait]
impl Domain for Node {
    async fn inventory(&self) -> Inventory {
        self.pause(500).await;
        let pods = self.pods.lock().unwrap().values().cloned().collect::<Vec<_>>();
        let containers = self.containers.lock().unwrap().values().map(|has| has.words.clone()).collect();
        self.pause(500).await;
        Inventory { pods: if self.is_podless() { Vec::new() } else { pods }, containers }
    }

    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        self.pause(500).await;
        let known = {
            let containers = self.containers.lock().unwrap();
            ids.iter().filter_map(|id| containers.get(id)).map(|has| has.words.clone()).collect()
        };
        self.pause(500).await;
        known
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.pause(500).await;
        if self.containers.lock().unwrap().contains_key(&update.container_id) { Ok(()) } else { Err(DomainError::Gone) }
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.pause(500).await;
        while self.is_starting(&eviction.container_id) {
            sleep(Duration::from_millis(50)).await;
        }
        self.exits(&eviction.container_id);
        self.pause(500).await;
        Ok(())
    }
}

/// Admits a plugin after a pause.
async fn visit(nri: Nri, node: Arc<Node>, name: String, after: u64, manner: Manner) -> Arc<Keeper> {
    sleep(Duration::from_millis(after)).await;
    let keeper = Keeper::new(&node, name.clone(), manner);
    let joined = nri.admit(name.parse().unwrap(), Arc::clone(&keeper) as Arc<dyn nri_api::Plugin>).await;
    joined.unwrap();
    keeper
}

/// Returns settings with these required plugins. A silent plugin stays connected, so that its
/// session has no gap.
fn settings(late: bool, absent: bool) -> Config {
    let settings = format!(
        "[plugins.20-late]\nrequired = {late}\n[plugins.50-absent]\nrequired = {absent}\n[plugins.30-a]\nkeep_connected = true"
    );
    Config { socket: None, plugin_path: None, ..Config::from_toml(&settings).unwrap() }
}

/// Requires a plugin that never joins, for a while.
async fn lack(nri: Nri, node: Arc<Node>, is_required: bool) {
    if !node.one_in(3) {
        return;
    }
    for absent in [true, false] {
        sleep(Duration::from_millis(node.below(4000))).await;
        nri.reload(&settings(is_required, absent));
    }
}

/// A node as its domain. The node owns its handle, so the domain must not own the node: neither
/// would ever be dropped, nor would the Tokio runtime of its tasks.
struct View(Weak<Node>);

impl View {
    fn node(&self) -> Arc<Node> {
        self.0.upgrade().expect("the node is there until NRI has stopped")
    }
}

#[async_trait]
impl Domain for View {
    async fn inventory(&self) -> Inventory {
        self.node().inventory().await
    }

    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        self.node().containers(ids).await
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.node().update(update).await
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.node().evict(eviction).await
    }
}

/// Runs one schedule, and returns the errors that the checker found.
pub(super) async fn schedule(seed: u64) -> Vec<String> {
    let mut random = Random::of(seed);
    let (is_podless, is_required, n_pods) = (random.below(3) == 0, random.below(6) == 0, 1 + random.below(3));
    let nri = Nri::new(settings(is_required, false));
    let node = Arc::new(Node {
        pods: Mutex::default(),
        containers: Mutex::default(),
        history: Mutex::default(),
        random: Mutex::new(random),
        clock: AtomicU64::new(0),
        way: OnceLock::new(),
    });
    let domain = Arc::new(View(Arc::downgrade(&node)));
    let way = match is_podless {
        true => WayIn::Podless(nri.register_podless("moby", domain).unwrap()),
        false => WayIn::Pods(nri.register("k8s.io", domain).unwrap()),
    };
    assert!(node.way.set(way).is_ok());
    let found = found::enter(&node);
    nri.start().await.unwrap();
    let found: Vec<_> = found.into_iter().map(|found| tokio::spawn(found::live(Arc::clone(&node), found))).collect();
    let first = visit(nri.clone(), Arc::clone(&node), "00-first".to_owned(), 0, Manner::Well).await;
    let visits: Vec<_> = ["10-refuses", "20-late", "30-a", "40-b"]
        .into_iter()
        .map(|name| {
            let manner = match name {
                "10-refuses" if node.one_in(2) => Manner::Refuses,
                "30-a" if node.one_in(3) => Manner::IsSilent,
                _ => Manner::Well,
            };
            let after = if node.one_in(3) { 0 } else { node.below(9000) };
            tokio::spawn(visit(nri.clone(), Arc::clone(&node), name.to_owned(), after, manner))
        })
        .collect();
    let lives: Vec<_> = (0..n_pods).map(|number| tokio::spawn(lives::live(Arc::clone(&node), number))).collect();
    let lives: Vec<_> = lives.into_iter().chain(found).collect();
    let absence = tokio::spawn(lack(nri.clone(), Arc::clone(&node), is_required));
    for life in lives {
        life.await.unwrap();
    }
    absence.await.unwrap();
    let mut keepers = vec![first];
    for visit in visits {
        keepers.push(visit.await.unwrap());
    }
    // A suspended plugin is asked again only after its pause.
    sleep(Duration::from_secs(1200)).await;
    let left = nri.plugins();
    nri.stop().await;
    let history = node.history.lock().unwrap().clone();
    let is_left = |session: &Session| left.iter().any(|plugin| plugin.id.to_string() == session.plugin);
    let sessions = keepers.iter().filter_map(|keeper| keeper.session()).filter(is_left);
    sessions.flat_map(|session| check(&history, &session)).collect()
}
