//! The layer `api`: the driver as a runtime on `nri-api`, whose store shows committed operations.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use nri_adaptation::merge::{MergedCreate, MergedStop, MergedUpdate};
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Notice, UpdatesFailed};
use nri_api::{
    Container, ContainerState, Domain, DomainError, Eviction, Handle, Inventory, KnownPod, PodState, Update,
};
use nri_proto::{Owners, Pod};

use crate::node::Node;
use crate::relay::{Act, Answer};

/// The pods and containers that the controller has reported, and those created since. `nri-api`
/// knows which of them still exist.
pub(crate) struct Store {
    node: Arc<Node>,
    made: Mutex<Made>,
    handle: OnceLock<Handle>,
}

#[derive(Default)]
struct Made {
    pods: HashMap<String, Pod>,
    containers: HashMap<String, Container>,
}

impl Store {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, made: Mutex::default(), handle: OnceLock::new() }
    }

    /// Sets the handle through which pods and containers that the controller reports are added.
    pub(crate) fn know(&self, handle: Handle) {
        self.handle.get_or_init(|| handle);
    }

    fn put(&self, container: Container) {
        self.made().containers.insert(container.id.clone(), container);
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts a snapshot to an inventory.
pub(crate) fn inventory(Snapshot { pods, containers }: Snapshot) -> Inventory {
    let pods = pods.into_iter().map(|pod| KnownPod { pod, state: PodState::Running }).collect();
    Inventory { pods, containers }
}

#[async_trait]
impl Domain for Store {
    async fn inventory(&self) -> Inventory {
        let (mut shown, is_new) = self.node.shown().await;
        if self.node.is_refused() {
            // Never returns, so that a plugin that is to be refused does not join.
            return std::future::pending().await;
        }
        if let Some(handle) = self.handle.get().filter(|_| is_new) {
            handle.adopt(inventory(shown.clone()));
        }
        let made = self.made();
        let pods: HashSet<&str> = shown.pods.iter().map(|pod| &*pod.id).collect();
        let pods: Vec<_> = made.pods.values().filter(|pod| !pods.contains(&*pod.id)).cloned().collect();
        let containers: HashSet<&str> = shown.containers.iter().map(|container| &*container.id).collect();
        let containers = made.containers.values().filter(|made| !containers.contains(&*made.id)).cloned();
        let containers: Vec<_> = containers.collect();
        drop(made);
        shown.pods.extend(pods);
        shown.containers.extend(containers);
        inventory(shown)
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        match self.node.ask_to_apply(vec![update], Vec::new()).await {
            Ok(failed) if failed.is_empty() => Ok(()),
            Ok(_) => Err(DomainError::Failed("the controller says so".into())),
            Err(UpdatesFailed { reason, failed: _ }) => Err(DomainError::Failed(reason.into())),
        }
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        let failed = self.node.ask_to_apply(Vec::new(), vec![eviction]).await;
        failed.map(drop).map_err(|UpdatesFailed { reason, failed: _ }| DomainError::Failed(reason.into()))
    }
}

/// Asks plugins about an action, and carries it out if they approve.
pub(crate) async fn perform(handle: Handle, store: &Store, pod: Pod, act: Box<Act>) -> Result<Answer, nri_api::Error> {
    match *act {
        Act::Notice(notice) => {
            tell(&handle, store, pod, notice).await?;
            Ok(Answer::Heard)
        }
        Act::Create(container) => {
            let mut creation = handle.create_container(pod, container.clone()).await?;
            store.put(Container { state: ContainerState::Created, ..container });
            let (adjustment, owners) = (creation.take_adjustment(), creation.owners().clone());
            let container = Arc::clone(creation.container());
            creation.commit()?;
            let merged = MergedCreate { adjustment, updates: Vec::new(), evictions: Vec::new(), owners, container };
            Ok(Answer::Created(Box::new(merged)))
        }
        Act::Update(container, resources) => {
            let id = container.id.clone();
            let update = handle.update_container(pod, container, resources).await?;
            let own = update.resources().map(|resources| Update::new(id, resources.clone()));
            update.commit();
            let (others, evictions, owners) = (Vec::new(), Vec::new(), Owners::default());
            Ok(Answer::Updated(Box::new(MergedUpdate { own, others, evictions, owners })))
        }
        Act::Stop(container) => {
            handle.stop_container(pod, container).await?;
            Ok(Answer::Stopped(MergedStop::default()))
        }
    }
}

async fn tell(handle: &Handle, store: &Store, pod: Pod, notice: Notice) -> Result<(), nri_api::Error> {
    match notice {
        Notice::RunPod => {
            let run = handle.run_pod(pod.clone()).await?;
            store.made().pods.insert(pod.id.clone(), pod);
            run.commit();
            Ok(())
        }
        Notice::UpdatePod { overhead, resources } => {
            handle.update_pod(pod, overhead, resources).await?.commit();
            Ok(())
        }
        Notice::PostUpdatePod => handle.post_update_pod(pod).await,
        Notice::StopPod => handle.stop_pod(pod).await,
        Notice::RemovePod => {
            let id = pod.id.clone();
            let removed = handle.remove_pod(pod).await;
            let mut made = store.made();
            made.pods.remove(&id);
            made.containers.retain(|_, container| container.pod_id != id);
            removed
        }
        Notice::PostCreate(container) => handle.post_create_container(pod, container).await,
        Notice::Start(container) => {
            let start = handle.start_container(pod, container.clone()).await?;
            store.put(Container { state: ContainerState::Running, ..container });
            start.commit();
            Ok(())
        }
        Notice::PostStart(container) => handle.post_start_container(pod, container).await,
        Notice::PostUpdate(container) => handle.post_update_container(pod, container).await,
        Notice::Remove(container) => {
            let id = container.id.clone();
            let removed = handle.remove_container(pod, container).await;
            store.made().containers.remove(&id);
            removed
        }
    }
}
