//! What has happened, told by itself: for a runtime that does not keep what it has begun until then.

use std::sync::Arc;

use nri_adaptation::Notice;
use nri_proto::{Container, Pod};

use crate::client::guards::{ContainerUpdate, Creation, PodUpdate};
use crate::domain::Inventory;
use crate::error::Error;
use crate::handle::Handle;
use crate::lifecycle::state::Completion;

impl Handle {
    /// Enters pods and containers that have come into being without being asked for, such as some that were found late. Those that are known stay as they are. Plugins that are there are
    /// not told; those that join are shown them, and all hear of their end. Also before [`Nri::start`](crate::Nri::start), which then leaves them as they are; after
    /// [`Nri::stop`](crate::Nri::stop) there is nobody who would hear of them.
    pub fn adopt(&self, found: Inventory) {
        if let Some(client) = self.enabled() {
            client.namespace.fill(found);
        }
    }

    /// A container was created: what [`Creation::created`] says after [`Creation::commit`].
    ///
    /// # Errors
    ///
    /// A plugin failed to hear it.
    pub async fn post_create_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        Box::pin(client.post(&Arc::new(pod), container, Completion::Create, Notice::PostCreate)).await
    }

    /// A container was started: what [`Start::started`](crate::Start::started) says after [`Start::commit`](crate::Start::commit). Of one that has stopped meanwhile nobody is told.
    ///
    /// # Errors
    ///
    /// A plugin failed to hear it.
    pub async fn post_start_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        let run = client.namespace.containers.read(&container.id, |entry| entry.life.last_start());
        let Some(run) = run else { return Ok(()) };
        Box::pin(client.post(&Arc::new(pod), container, Completion::Start(run), Notice::PostStart)).await
    }

    /// A container was updated: what [`ContainerUpdate::updated`] says after [`ContainerUpdate::commit`].
    ///
    /// # Errors
    ///
    /// A plugin failed to hear it.
    pub async fn post_update_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        Box::pin(client.post(&Arc::new(pod), container, Completion::Update, Notice::PostUpdate)).await
    }

    /// A pod was updated: what [`PodUpdate::updated`] says after [`PodUpdate::commit`].
    ///
    /// # Errors
    ///
    /// A plugin failed to hear it.
    pub async fn post_update_pod(&self, pod: Pod) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        Box::pin(client.post_pod(pod)).await
    }
}

impl Creation {
    /// The container was created, and the domain's [inventory](crate::Domain::inventory) has it. Plugins are told by
    /// [`Handle::post_create_container`].
    ///
    /// # Errors
    ///
    /// [Its pod has ended](Error::PodEnded) meanwhile.
    pub fn commit(self) -> Result<(), Error> {
        self.begun.map_or(Ok(()), |mut begun| begun.succeeds())
    }
}

impl ContainerUpdate {
    /// The container has its new limits. Plugins are told by [`Handle::post_update_container`].
    pub fn commit(mut self) {
        if let Some(mut underway) = self.underway.take() {
            underway.succeeds();
        }
    }
}

impl PodUpdate {
    /// The pod has its new limits. Plugins are told by [`Handle::post_update_pod`].
    pub fn commit(self) {
        if let Some(mut underway) = self.0 {
            underway.succeeds();
        }
    }
}
