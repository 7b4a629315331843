//! The runtime, as this crate needs it.

pub(crate) mod timeout;

use std::error::Error;

use async_trait::async_trait;
use nri_proto::{Container, Eviction, Pod, Update};

/// The pods and containers of one namespace of the runtime.
///
/// What is called here may come at any time, also while the runtime itself calls the namespace's [`Handle`](crate::Handle). So nothing
/// here may wait for a lock under which that is called: a plugin may ask for an update of a container while another one is created.
///
/// It lives as long as the [`Nri`](crate::Nri) and its handles. If it has its own handle, or whoever has that, both live as long as the process; then hold it by a `Weak`, or let it be so.
///
/// Each call has a limit, [`source_timeout`](crate::Config::source_timeout): what takes longer is given up, and its future dropped. One that
/// panics fails alone.
#[async_trait]
pub trait Domain: Send + Sync + 'static {
    /// The pods and containers that there are now, those that have stopped too: their states say so.
    ///
    /// What was said to be [created](crate::Creation::created) must be there, what is [removed](crate::Handle::remove_container) until
    /// that was said. What the runtime has never said anything of is not shown to plugins.
    async fn inventory(&self) -> Inventory;

    /// Those of these containers that there are, as in the [inventory](Self::inventory), which is asked by default.
    ///
    /// RequestContext for when a pod ends and the runtime has not said of its containers that they have, and when the first start of a container
    /// failed: a runtime with many of them had better look these up.
    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        let Inventory { pods: _, mut containers } = self.inventory().await;
        containers.retain(|container| ids.contains(&container.id));
        containers
    }

    /// Gives a container new limits. What is not set stays as it is.
    ///
    /// Nobody is told of it: to call [`Handle::update_container`](crate::Handle::update_container) here would ask plugins again.
    ///
    /// # Errors
    ///
    /// The container has gone, or could not be updated.
    async fn update(&self, update: Update) -> Result<(), DomainError>;

    /// Stops a container, without grace. That it has stopped is said as ever: with
    /// [`Handle::stop_container`](crate::Handle::stop_container) or [`Handle::container_exited`](crate::Handle::container_exited).
    ///
    /// # Errors
    ///
    /// The container has gone, or could not be stopped.
    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError>;
}

/// What a [`Domain`] has at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Its pods. In a namespace without pods there are none.
    pub pods: Vec<KnownPod>,
    /// Its containers, each with the state that it is in.
    pub containers: Vec<Container>,
}

/// A pod, and whether it runs. What plugins see of a pod does not say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPod {
    /// The pod.
    pub pod: Pod,
    /// Whether it runs.
    pub state: PodState,
}

/// Whether a pod runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It does.
    Running,
    /// It has stopped, and is still to be removed.
    Stopped,
    /// The runtime does not know. Plugins are told when it is removed.
    Unknown,
}

/// Why a [`Domain`] has not done what a plugin asked for.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The container has just gone: there is nothing to do, and that is no failure.
    #[error("the container has gone")]
    Gone,
    /// It could not be done.
    #[error("the runtime could not do it")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl DomainError {
    /// It could not be done, for this reason.
    pub fn failed(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(why.into())
    }
}
