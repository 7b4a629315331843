//! The handle of a namespace without pods. Plugins see a synthetic pod for each container.

use std::sync::Arc;

use nri_proto::{Container, Pod, Resources};
use tokio::time::Instant;

use super::Handle;
use crate::client::create::Creation;
use crate::client::start::Start;
use crate::client::update::ContainerUpdate;
use crate::error::Error;
use crate::lifecycle::convert::synthetic_pod;
use crate::lifecycle::state::State;
use crate::lifecycle::steps::EndGoal;

/// The entry point for a namespace of a runtime without pods. Clones share the namespace.
///
/// Plugins see a pod for each container, with the id of the container. The pod runs when the
/// container is created; it is stopped and removed after the container. Everything else is as with
/// a [`Handle`].
#[derive(Clone)]
pub struct PodlessHandle {
    handle: Handle,
    /// The name of the namespace, which is also the Kubernetes namespace of the synthetic pods.
    namespace: Arc<str>,
}

impl PodlessHandle {
    pub(crate) fn new(handle: Handle, namespace: &str) -> Self {
        Self { handle, namespace: namespace.into() }
    }

    /// Returns a handle whose calls have a deadline, as [`Handle::until`] does.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self { handle: self.handle.until(deadline), namespace: Arc::clone(&self.namespace) }
    }

    /// Returns the state of a container as plugins know it, as [`Handle::container_state`] does.
    #[must_use]
    pub fn container_state(&self, id: &str) -> Option<State> {
        self.handle.container_state(id)
    }

    /// Waits until plugins were told of the end of a container and of its synthetic pod, as
    /// [`Handle::container_ended`] does.
    pub async fn container_ended(&self, id: &str) {
        self.handle.container_ended(id).await;
        self.handle.pod_ended(id).await;
    }

    /// Asks plugins about a container to be created, as [`Handle::create_container`] does. Plugins
    /// are first asked about the synthetic pod, which fails with the container.
    ///
    /// # Errors
    ///
    /// A plugin rejects the pod or the container, plugins want conflicting changes, or there is a
    /// container of this id.
    pub async fn create_container(&self, container: Container) -> Result<Creation, Error> {
        let Some(client) = self.handle.client()? else { return Ok(Creation::unasked(container)) };
        let (pod, container) = self.with_pod(container);
        client.run_request(Box::pin(client.clone().create(Arc::new(pod), container, true))).await
    }

    /// Asks plugins about a container that is about to be started or restarted, as
    /// [`Handle::start_container`] does.
    ///
    /// # Errors
    ///
    /// A plugin rejects the start, or the container is being created or removed.
    pub async fn start_container(&self, container: Container) -> Result<Start, Error> {
        let Some(client) = self.handle.client()? else { return Ok(Start::unasked()) };
        let (pod, container) = self.with_pod(container);
        client.run_request(Box::pin(client.clone().start(Arc::new(pod), container))).await
    }

    /// Asks plugins about new limits of a container, as [`Handle::update_container`] does.
    ///
    /// # Errors
    ///
    /// A plugin rejects the update, or plugins want conflicting changes.
    pub async fn update_container(
        &self,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<ContainerUpdate, Error> {
        let Some(client) = self.handle.client()? else { return Ok(ContainerUpdate::unasked(resources)) };
        let (pod, container) = self.with_pod(container);
        client.run_request(Box::pin(client.clone().update(Arc::new(pod), container, resources))).await
    }

    /// Reports that a container has stopped, and then its synthetic pod, as
    /// [`Handle::stop_container`] does.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle an event. All other plugins were notified.
    pub async fn stop_container(&self, container: Container) -> Result<(), Error> {
        self.report_end(container, EndGoal::Stopped).await
    }

    /// Reports that a container is being removed, and then its synthetic pod, as
    /// [`Handle::remove_container`] does.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle an event. All other plugins were notified.
    pub async fn remove_container(&self, container: Container) -> Result<(), Error> {
        self.report_end(container, EndGoal::Removed).await
    }

    async fn report_end(&self, container: Container, goal: EndGoal) -> Result<(), Error> {
        let Some(client) = self.handle.client()? else { return Ok(()) };
        let (pod, container) = self.with_pod(container);
        client.report_podless_end(pod, container, goal).await
    }

    /// Reports that a container has exited, as [`Handle::container_exited`] does.
    pub fn container_exited(&self, container: Container) {
        if self.handle.is_enabled() {
            let (pod, container) = self.with_pod(container);
            self.handle.container_exited(pod, container);
        }
    }

    fn with_pod(&self, mut container: Container) -> (Pod, Container) {
        let pod = synthetic_pod(&self.namespace, &container);
        container.pod_id.clone_from(&pod.id);
        (pod, container)
    }
}
