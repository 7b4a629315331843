use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use nri_proto::{Container, ContainerState, Eviction, Pod, Update};
use parking_lot::Mutex;

use super::contract::Fixture;
use crate::domain::{Domain, DomainError, Inventory, KnownPod, PodState};

/// A domain in memory that a test controls.
///
/// ```
/// use nri_api::testing::FakeDomain;
/// use nri_api::{Container, ContainerState, Domain, Eviction, Pod};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let domain = FakeDomain::new();
/// domain.put_pod(Pod { id: "pod0".to_owned(), ..Pod::default() });
/// domain.put(Container {
///     id: "web0".to_owned(),
///     pod_id: "pod0".to_owned(),
///     state: ContainerState::Running,
///     ..Container::default()
/// });
///
/// domain.evict(Eviction::new("web0", "to make room")).await.unwrap();
/// assert_eq!(domain.container("web0").unwrap().state, ContainerState::Stopped);
/// assert_eq!(domain.evictions().len(), 1);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct FakeDomain {
    state: Mutex<FakeState>,
}

#[derive(Debug, Default)]
struct FakeState {
    pods: BTreeMap<String, KnownPod>,
    containers: BTreeMap<String, Container>,
    updates: Vec<Update>,
    evictions: Vec<Eviction>,
    behavior: FakeBehavior,
    n_inventories: usize,
}

/// How a [`FakeDomain`] behaves when it is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FakeBehavior {
    /// The call succeeds.
    #[default]
    Well,
    /// Updates and evictions fail.
    Fails,
    /// The call never returns.
    Hangs,
    /// The call panics.
    Panics,
}

impl FakeDomain {
    /// Returns a domain without pods and containers.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Sets the behavior of all calls from now on.
    pub fn behave(&self, behavior: FakeBehavior) {
        self.state.lock().behavior = behavior;
    }

    /// Adds a running pod.
    pub fn put_pod(&self, pod: Pod) {
        self.put_pod_in(pod, PodState::Running);
    }

    /// Adds a pod in this state.
    pub fn put_pod_in(&self, pod: Pod, state: PodState) {
        self.state.lock().pods.insert(pod.id.clone(), KnownPod { pod, state });
    }

    /// Adds or replaces a container.
    pub fn put(&self, container: Container) {
        self.state.lock().containers.insert(container.id.clone(), container);
    }

    /// Removes a pod.
    pub fn forget_pod(&self, id: &str) {
        self.state.lock().pods.remove(id);
    }

    /// Removes a container.
    pub fn forget(&self, id: &str) {
        self.state.lock().containers.remove(id);
    }

    /// Returns a container of the domain.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<Container> {
        self.state.lock().containers.get(id).cloned()
    }

    /// Returns the updates that were requested, in order.
    #[must_use]
    pub fn updates(&self) -> Vec<Update> {
        self.state.lock().updates.clone()
    }

    /// Returns the evictions that were requested, in order.
    #[must_use]
    pub fn evictions(&self) -> Vec<Eviction> {
        self.state.lock().evictions.clone()
    }

    /// Returns how many times the inventory was read.
    #[must_use]
    pub fn n_inventories(&self) -> usize {
        self.state.lock().n_inventories
    }

    #[expect(clippy::panic, reason = "a test checks what a panic leads to")]
    async fn act(&self) -> Result<(), DomainError> {
        let behavior = self.state.lock().behavior;
        match behavior {
            FakeBehavior::Well => Ok(()),
            FakeBehavior::Fails => Err(DomainError::failed("it fails on purpose")),
            FakeBehavior::Hangs => std::future::pending().await,
            FakeBehavior::Panics => panic!("it panics on purpose"),
        }
    }
}

#[async_trait]
impl Domain for FakeDomain {
    async fn inventory(&self) -> Inventory {
        self.state.lock().n_inventories += 1;
        // A domain that fails to update can still return its inventory.
        let _ = self.act().await;
        let state = self.state.lock();
        let (pods, containers) = (state.pods.values(), state.containers.values());
        Inventory { pods: pods.cloned().collect(), containers: containers.cloned().collect() }
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.state.lock().updates.push(update.clone());
        self.act().await?;
        let mut state = self.state.lock();
        let container = state.containers.get_mut(&update.container_id).ok_or(DomainError::Gone)?;
        if container.state == ContainerState::Stopped {
            return Err(DomainError::Gone);
        }
        if let Some(new) = update.resources() {
            container.resources_mut().update(new.clone());
        }
        Ok(())
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.state.lock().evictions.push(eviction.clone());
        self.act().await?;
        let mut state = self.state.lock();
        let container = state.containers.get_mut(&eviction.container_id).ok_or(DomainError::Gone)?;
        container.state = ContainerState::Stopped;
        Ok(())
    }
}

#[async_trait]
impl Fixture for FakeDomain {
    fn domain(&self) -> &dyn Domain {
        self
    }

    async fn run(&self, name: &str) -> (String, String) {
        let pod = Pod { id: format!("pod-{name}"), name: name.to_owned(), ..Pod::default() };
        let ids = (pod.id.clone(), name.to_owned());
        let (id, pod_id) = (name.to_owned(), pod.id.clone());
        self.put_pod(pod);
        self.put(Container { id, pod_id, state: ContainerState::Running, ..Container::default() });
        ids
    }

    async fn remove(&self, pod: &str, container: &str) {
        self.forget(container);
        self.forget_pod(pod);
    }
}
