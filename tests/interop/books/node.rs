//! The runtime: its store, and the workers that change it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_api::{
    Container, ContainerState, Domain, DomainError, Eviction, Handle, Inventory, KnownPod, Pod, PodState, Update,
};
use proptest::prelude::RngExt as _;
use proptest::test_runner::TestRng;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The probability that the runtime fails after plugins have approved an action.
const FAILS: f64 = 0.1;
/// The probability that a pod or container stays for good.
const STAYS: f64 = 0.01;
/// The probability that a plugin refuses a start.
const REFUSES: f64 = 0.05;
/// The probability that a stopped container is restarted.
const RESTARTS: f64 = 0.4;
/// The probability that a container is updated with an outdated state.
const LAGS: f64 = 0.1;
/// The longest delay of the domain.
const LONGEST: Duration = Duration::from_millis(500);

/// Annotations with which plugins get more information than the protocol has: see `books.go` of the
/// bookkeeper.
const RUN: &str = "run";
const STARTED: &str = "started";
const REFUSE: &str = "refuse";

#[derive(Default)]
pub(super) struct Node {
    store: Mutex<Store>,
    serial: AtomicUsize,
    restarts: AtomicUsize,
    /// The random delays of the domain. `None`: the domain answers at once.
    delays: Option<Mutex<TestRng>>,
}

#[derive(Default)]
struct Store {
    pods: BTreeMap<String, KnownPod>,
    containers: BTreeMap<String, Container>,
}

impl Node {
    /// Creates a node with a slow domain.
    pub(super) fn slow(chance: TestRng) -> Self {
        Self { delays: Some(Mutex::new(chance)), ..Self::default() }
    }

    /// Waits for a random time, mostly a short one.
    async fn delay(&self) {
        if let Some(chance) = &self.delays {
            let part = chance.lock().unwrap().random_range(0.0..1.0_f64);
            tokio::time::sleep(LONGEST.mul_f64(part * part * part)).await;
        }
    }

    /// Creates a node with this many running containers, one of which has a variable of `largest`
    /// bytes.
    pub(super) fn with(containers: usize, largest: usize) -> Self {
        let node = Self::default();
        let pod = node.next_pod();
        node.put_pod(&pod, PodState::Running);
        for number in 0..containers {
            let value = "x".repeat(if number == containers / 2 { largest } else { 1000 });
            node.put(&Container {
                id: format!("c{number}"),
                pod_id: pod.id.clone(),
                state: ContainerState::Running,
                env: vec![format!("VALUE={value}")],
                ..Container::default()
            });
        }
        node
    }

    pub(super) fn pods_so_far(&self) -> usize {
        self.serial.load(Ordering::Relaxed)
    }

    /// Returns how often a stopped container was restarted.
    pub(super) fn restarts_so_far(&self) -> usize {
        self.restarts.load(Ordering::Relaxed)
    }

    fn next_pod(&self) -> Pod {
        let id = format!("p{}", self.serial.fetch_add(1, Ordering::Relaxed));
        Pod { name: id.clone(), id, ..Pod::default() }
    }

    fn put_pod(&self, pod: &Pod, state: PodState) {
        self.store.lock().unwrap().pods.insert(pod.id.clone(), KnownPod { pod: pod.clone(), state });
    }

    fn put(&self, container: &Container) {
        self.store.lock().unwrap().containers.insert(container.id.clone(), container.clone());
    }

    /// Returns the differences between a plugin's state and this runtime's. The plugin may or may
    /// not know stopped objects.
    pub(super) fn differences(&self, books: &Value) -> Vec<String> {
        let store = self.store.lock().unwrap();
        let pods = store.pods.iter().map(|(id, known)| (&**id, if is_stopped(known) { "stopped" } else { "running" }));
        let containers = store.containers.iter().map(|(id, container)| (&**id, word(container.state)));
        let mut differences = difference(pods.collect(), &books["pods"]);
        differences.extend(difference(containers.collect(), &books["containers"]));
        differences
    }
}

fn difference(here: BTreeMap<&str, &str>, books: &Value) -> Vec<String> {
    let books = books.as_object().unwrap();
    let ids: BTreeSet<&str> = here.keys().copied().chain(books.keys().map(String::as_str)).collect();
    let differs = |id: &&str| match (here.get(id), books.get(*id).and_then(Value::as_str)) {
        (Some(here), Some(there)) => *here != there,
        (here, there) => here.is_some_and(|state| *state != "stopped") || there.is_some(),
    };
    ids.into_iter().filter(differs).map(|id| format!("{id}: {:?}, not {:?}", here.get(id), books.get(id))).collect()
}

fn is_stopped(known: &KnownPod) -> bool {
    known.state != PodState::Running
}

fn word(state: ContainerState) -> &'static str {
    match state {
        ContainerState::Created => "created",
        ContainerState::Running | ContainerState::Paused => "running",
        ContainerState::Stopped => "stopped",
        ContainerState::Unknown | ContainerState::Unnamed(_) => "unknown",
    }
}

#[async_trait]
impl Domain for Node {
    async fn inventory(&self) -> Inventory {
        // The store may change before it is read, and before the answer arrives.
        self.delay().await;
        let inventory = {
            let store = self.store.lock().unwrap();
            let (pods, containers) = (store.pods.values().cloned(), store.containers.values().cloned());
            Inventory { pods: pods.collect(), containers: containers.collect() }
        };
        self.delay().await;
        inventory
    }

    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        self.delay().await;
        let containers = {
            let store = self.store.lock().unwrap();
            ids.iter().filter_map(|id| store.containers.get(id).cloned()).collect()
        };
        self.delay().await;
        containers
    }

    async fn update(&self, _: Update) -> Result<(), DomainError> {
        Ok(())
    }

    async fn evict(&self, _: Eviction) -> Result<(), DomainError> {
        Ok(())
    }
}

/// A worker that creates and removes pods all the time.
pub(super) struct Worker {
    handle: Handle,
    node: Arc<Node>,
    chance: TestRng,
}

impl Worker {
    pub(super) fn new(handle: &Handle, node: &Arc<Node>, chance: TestRng) -> Self {
        Self { handle: handle.clone(), node: Arc::clone(node), chance }
    }

    pub(super) async fn work_until(mut self, is_over: CancellationToken) -> Self {
        while !is_over.is_cancelled() {
            self.live().await;
            // If no plugin is asked, nothing else yields.
            tokio::task::yield_now().await;
        }
        self
    }

    /// Runs a pod through its whole life, unless a step fails or the pod stays.
    async fn live(&mut self) {
        let pod = self.node.next_pod();
        let run = self.handle.run_pod(pod.clone()).await.unwrap();
        if self.chance.random_bool(FAILS) {
            return;
        }
        self.node.put_pod(&pod, PodState::Running);
        run.commit();
        let mut stay = self.chance.random_bool(STAYS);
        for number in 0..self.chance.random_range(1..3) {
            stay |= self.live_within(&pod, number).await;
        }
        if !stay {
            self.end(&pod).await;
        }
    }

    async fn end(&mut self, pod: &Pod) {
        self.node.put_pod(pod, PodState::Stopped);
        self.handle.stop_pod(pod.clone()).await.unwrap();
        if self.chance.random_bool(STAYS) {
            return;
        }
        self.handle.remove_pod(pod.clone()).await.unwrap();
        self.node.store.lock().unwrap().pods.remove(&pod.id);
    }

    /// Runs a container through its whole life. Returns whether the container stays.
    async fn live_within(&mut self, pod: &Pod, number: usize) -> bool {
        let (node, handle) = (Arc::clone(&self.node), self.handle.clone());
        let mut container = Container {
            id: format!("{}c{number}", pod.id),
            pod_id: pod.id.clone(),
            state: ContainerState::Created,
            ..Container::default()
        };
        let creation = handle.create_container(pod.clone(), container.clone()).await.unwrap();
        if self.chance.random_bool(FAILS) {
            return false;
        }
        node.put(&container);
        creation.created(container.clone()).await.unwrap();
        if self.chance.random_bool(STAYS) {
            return true;
        }
        for run in 1.. {
            if self.start(pod, &mut container, run).await {
                if self.chance.random_bool(STAYS) {
                    return true;
                }
                self.stop(pod, &mut container).await;
            }
            let has_stopped = container.state == ContainerState::Stopped;
            if !has_stopped || !self.chance.random_bool(RESTARTS) {
                break;
            }
        }
        handle.remove_container(pod.clone(), container.clone()).await.unwrap();
        node.store.lock().unwrap().containers.remove(&container.id);
        false
    }

    /// Starts a container, for the first time or again. Returns whether the container runs: a
    /// plugin may refuse, and the runtime may fail.
    async fn start(&mut self, pod: &Pod, container: &mut Container, run: usize) -> bool {
        container.annotations.insert(RUN.to_owned(), run.to_string());
        container.annotations.remove(REFUSE);
        let refused = self.chance.random_bool(REFUSES);
        if refused {
            let index = ["10", "20"][self.chance.random_range(0..2)];
            container.annotations.insert(REFUSE.to_owned(), index.to_owned());
        }
        let start = self.handle.start_container(pod.clone(), container.clone()).await;
        let has_failed = match &start {
            Ok(_) => self.chance.random_bool(FAILS),
            Err(error) => {
                assert!(refused, "{error}");
                true
            }
        };
        if has_failed {
            container.state = ContainerState::Stopped;
            self.node.put(container);
            drop(start);
            // Some runtimes also report the stop.
            if self.chance.random_bool(0.5) {
                self.handle.stop_container(pod.clone(), container.clone()).await.unwrap();
            }
            return false;
        }
        (container.state, container.started_at) = (ContainerState::Running, 1);
        container.annotations.insert(STARTED.to_owned(), run.to_string());
        self.node.put(container);
        start.unwrap().started(container.clone()).await.unwrap();
        self.node.restarts.fetch_add(usize::from(run > 1), Ordering::Relaxed);
        true
    }

    /// Ends a container: it is stopped, exits, both, or is removed while it runs.
    async fn stop(&mut self, pod: &Pod, container: &mut Container) {
        let way = self.chance.random_range(0..4);
        if way == 0 {
            return;
        }
        container.state = ContainerState::Stopped;
        self.node.put(container);
        if self.chance.random_bool(LAGS) {
            // Plugins know the container as running.
            self.update(pod, container).await;
        }
        if way != 1 {
            self.handle.container_exited(pod.clone(), container.clone());
        }
        if way != 2 {
            self.handle.stop_container(pod.clone(), container.clone()).await.unwrap();
            if self.chance.random_bool(LAGS) {
                // Plugins know the container as stopped.
                self.update(pod, &Container { state: ContainerState::Running, ..container.clone() }).await;
            }
        }
    }

    async fn update(&self, pod: &Pod, container: &Container) {
        let update = self.handle.update_container(pod.clone(), container.clone(), None).await.unwrap();
        update.updated(container.clone()).await.unwrap();
    }
}
