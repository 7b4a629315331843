//! The trait [`Domain`], which the runtime implements, and its values.
//!
//! - `timeout`: calls of a domain, which are limited in time and may panic.

pub(crate) mod timeout;

use std::error::Error;

use async_trait::async_trait;
use nri_proto::{Container, Eviction, Pod, Update};

/// The pods and containers of one namespace of the runtime.
///
/// A method may be called at any time, also while the runtime calls the [`Handle`](crate::Handle)
/// of the namespace: a plugin may ask for an update of one container while another is created. So
/// no method may wait for a lock that the runtime holds when it calls the handle, or when it drops
/// the future of a request.
///
/// The domain lives as long as the [`Nri`](crate::Nri) and its handles. If the domain owns its own
/// handle, directly or through other values, both live as long as the process. To avoid that, hold
/// the handle by a `Weak`.
///
/// Each call is limited by [`source_timeout`](crate::Config::source_timeout): a call that takes
/// longer fails, and its future is dropped. A call that panics fails, and no other call does.
#[async_trait]
pub trait Domain: Send + Sync + 'static {
    /// Returns the pods and containers that exist now, including those that have stopped. Their
    /// states say so.
    ///
    /// The inventory must contain every object from the moment it is reported as
    /// [created](crate::Creation::created) until its
    /// [removal](crate::Handle::remove_container) is reported. Plugins are not shown objects that
    /// the runtime has never reported.
    async fn inventory(&self) -> Inventory;

    /// Returns those of these containers that exist, as in the [inventory](Self::inventory). The
    /// default implementation filters the inventory.
    ///
    /// NRI calls this when a pod ends and the runtime has not reported the end of its containers,
    /// and when the first start of a container has failed. If the runtime has many containers,
    /// implement this as a lookup.
    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        let Inventory { pods: _, mut containers } = self.inventory().await;
        containers.retain(|container| ids.contains(&container.id));
        containers
    }

    /// Gives a container new limits. Limits that are not set in `update` stay as they are.
    ///
    /// Do not call [`Handle::update_container`](crate::Handle::update_container) from here: that
    /// would ask plugins again.
    ///
    /// # Errors
    ///
    /// The container is gone, or could not be updated.
    async fn update(&self, update: Update) -> Result<(), DomainError>;

    /// Stops a container, without a grace period. Report its end as usual, with
    /// [`Handle::stop_container`](crate::Handle::stop_container) or
    /// [`Handle::container_exited`](crate::Handle::container_exited).
    ///
    /// # Errors
    ///
    /// The container is gone, or could not be stopped.
    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError>;
}

/// The pods and containers of a [`Domain`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The pods. A namespace without pods has none.
    pub pods: Vec<KnownPod>,
    /// The containers, each with its current state.
    pub containers: Vec<Container>,
}

/// A pod and its state. The [`Pod`] that plugins see has no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPod {
    /// The pod, as plugins see it.
    pub pod: Pod,
    /// Whether the pod runs.
    pub state: PodState,
}

/// Whether a pod runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// The pod runs.
    Running,
    /// The pod has stopped, and is not removed yet.
    Stopped,
    /// The runtime does not know the state. The pod counts as stopped: plugins that join are not
    /// shown the pod, but are notified of its removal.
    Unknown,
}

/// Why a [`Domain`] has not applied a change.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The container is gone. Nothing is left to do, so NRI does not treat this as a failure.
    #[error("the container has gone")]
    Gone,
    /// The runtime could not apply the change.
    #[error("the runtime failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl DomainError {
    /// Returns [`DomainError::Failed`] with a cause: an error or a text.
    pub fn failed(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(why.into())
    }
}
