use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nri_proto::{Container, ContainerState, Eviction, Pod, Update};

use super::contract::Fixture;
use crate::domain::{Domain, DomainError, Inventory, KnownPod, PodState};

/// A domain in memory, that does as the test says.
///
/// ```
/// use nri_api::testing::FakeDomain;
/// use nri_api::{Container, ContainerState, Domain, Eviction, Pod};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let domain = FakeDomain::new();
/// domain.put_pod(Pod { id: "pod0".to_owned(), ..Pod::default() });
/// let container = Container { id: "web0".to_owned(), pod_id: "pod0".to_owned(), ..Container::default() };
/// domain.put(Container { state: ContainerState::Running, ..container });
///
/// domain.evict(Eviction::new("web0", "to make room")).await.unwrap();
/// assert_eq!(domain.container("web0").unwrap().state, ContainerState::Stopped);
/// assert_eq!(domain.evictions().len(), 1);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct FakeDomain {
    memory: Mutex<FakeState>,
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

/// How a [`FakeDomain`] does what it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FakeBehavior {
    /// As it should.
    #[default]
    Well,
    /// It fails to update and evict.
    Fails,
    /// It never comes to an end.
    Hangs,
    /// It panics.
    Panics,
}

impl FakeDomain {
    /// One that has nothing.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on it does what it is asked like this.
    pub fn behave(&self, behavior: FakeBehavior) {
        self.memory().behavior = behavior;
    }

    /// Has a pod that runs from now on.
    pub fn put_pod(&self, pod: Pod) {
        self.put_pod_in(pod, PodState::Running);
    }

    /// Has a pod in this state from now on.
    pub fn put_pod_in(&self, pod: Pod, state: PodState) {
        self.memory().pods.insert(pod.id.clone(), KnownPod { pod, state });
    }

    /// Has a container from now on, or has it like this.
    pub fn put(&self, container: Container) {
        self.memory().containers.insert(container.id.clone(), container);
    }

    /// Has a pod no more.
    pub fn forget_pod(&self, id: &str) {
        self.memory().pods.remove(id);
    }

    /// Has a container no more.
    pub fn forget(&self, id: &str) {
        self.memory().containers.remove(id);
    }

    /// A container that it has.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<Container> {
        self.memory().containers.get(id).cloned()
    }

    /// The updates that it was asked for, in order.
    #[must_use]
    pub fn updates(&self) -> Vec<Update> {
        self.memory().updates.clone()
    }

    /// The evictions that it was asked for, in order.
    #[must_use]
    pub fn evictions(&self) -> Vec<Eviction> {
        self.memory().evictions.clone()
    }

    /// How often it was asked what there is.
    #[must_use]
    pub fn n_inventories(&self) -> usize {
        self.memory().n_inventories
    }

    #[expect(clippy::panic, reason = "a test wants to see what becomes of that")]
    async fn act(&self) -> Result<(), DomainError> {
        let behavior = self.memory().behavior;
        match behavior {
            FakeBehavior::Well => Ok(()),
            FakeBehavior::Fails => Err(DomainError::failed("it fails on purpose")),
            FakeBehavior::Hangs => std::future::pending().await,
            FakeBehavior::Panics => panic!("it panics on purpose"),
        }
    }

    fn memory(&self) -> MutexGuard<'_, FakeState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Domain for FakeDomain {
    async fn inventory(&self) -> Inventory {
        self.memory().n_inventories += 1;
        // One that fails to update can still say what there is.
        let _ = self.act().await;
        let memory = self.memory();
        let (pods, containers) = (memory.pods.values(), memory.containers.values());
        Inventory { pods: pods.cloned().collect(), containers: containers.cloned().collect() }
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.memory().updates.push(update.clone());
        self.act().await?;
        let mut memory = self.memory();
        let container = memory.containers.get_mut(&update.container_id).ok_or(DomainError::Gone)?;
        if container.state == ContainerState::Stopped {
            return Err(DomainError::Gone);
        }
        if let Some(new) = update.resources() {
            container.resources_mut().update(new.clone());
        }
        Ok(())
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.memory().evictions.push(eviction.clone());
        self.act().await?;
        let mut memory = self.memory();
        let container = memory.containers.get_mut(&eviction.container_id).ok_or(DomainError::Gone)?;
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
