//! Methods of [`Handle`] that report completed actions on their own, for a runtime that does not
//! keep the value of the action until then.

use std::sync::Arc;

use nri_adaptation::Notice;
use nri_proto::{Container, Pod};

use super::Handle;
use crate::domain::Inventory;
use crate::error::Error;
use crate::lifecycle::steps::Completion;

impl Handle {
    /// Adds pods and containers that exist although plugins were not asked about them, such as
    /// containers that the runtime has found late. Known objects stay as they are.
    ///
    /// Plugins that are present are not notified. Plugins that join are shown the objects, and all
    /// plugins hear of their ends. If this is called before [`Nri::start`](crate::Nri::start), the
    /// start keeps the states of these objects. After [`Nri::stop`](crate::Nri::stop) this has no
    /// effect on plugins.
    pub fn adopt(&self, found: Inventory) {
        if let Some(client) = &self.client {
            client.namespace.fill(found);
        }
    }

    /// Sends PostCreateContainer to plugins, for a container whose
    /// [`Creation`](crate::Creation::commit) was committed.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event.
    pub async fn post_create_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        Box::pin(client.post(&Arc::new(pod), container, Completion::Create, Notice::PostCreate)).await
    }

    /// Sends PostStartContainer to plugins, for a container whose [`Start`](crate::Start::commit)
    /// was committed. Plugins are not notified if the container has stopped meanwhile.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event.
    pub async fn post_start_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        let run = client.namespace.containers.read(&container.id, |entry| entry.lifecycle.last_start());
        let Some(run) = run else { return Ok(()) };
        Box::pin(client.post(&Arc::new(pod), container, Completion::Start(run), Notice::PostStart)).await
    }

    /// Sends PostUpdateContainer to plugins, for a container whose
    /// [`ContainerUpdate`](crate::ContainerUpdate::commit) was committed.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event.
    pub async fn post_update_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        Box::pin(client.post(&Arc::new(pod), container, Completion::Update, Notice::PostUpdate)).await
    }

    /// Sends PostUpdatePodSandbox to plugins, for a pod whose
    /// [`PodUpdate`](crate::PodUpdate::commit) was committed.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event.
    pub async fn post_update_pod(&self, pod: Pod) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        Box::pin(client.post_pod(pod)).await
    }
}
