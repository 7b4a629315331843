//! A runtime without pods: one is made for each container.

use std::sync::Arc;

use nri_proto::{Container, LinuxPod, Pod, Resources};
use tokio::time::Instant;

use crate::client::guards::{ContainerUpdate, Creation};
use crate::client::start::Start;
use crate::error::Error;
use crate::handle::Handle;
use crate::lifecycle::state::{EndGoal, State};

/// The way in of a namespace that has no pods. A clone is the same one.
///
/// Plugins see a pod for each container: it runs when the container is created, stops after it, and is removed after it. Its id is that of the container. All else is as with a [`Handle`].
#[derive(Clone)]
pub struct PodlessHandle {
    handle: Handle,
    namespace: Arc<str>,
}

impl PodlessHandle {
    pub(crate) fn new(handle: Handle, namespace: &str) -> Self {
        Self { handle, namespace: namespace.into() }
    }

    /// As [`Handle::until`].
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self { handle: self.handle.until(deadline), namespace: Arc::clone(&self.namespace) }
    }

    /// As [`Handle::container_state`].
    #[must_use]
    pub fn container_state(&self, id: &str) -> Option<State> {
        self.handle.container_state(id)
    }

    /// As [`Handle::container_ended`], and of its pod.
    pub async fn container_ended(&self, id: &str) {
        self.handle.container_ended(id).await;
        self.handle.pod_ended(id).await;
    }

    /// As [`Handle::create_container`]; its pod runs first, and comes to nothing with it.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn create_container(&self, container: Container) -> Result<Creation, Error> {
        let Some(client) = self.handle.client()? else { return Ok(Creation::of_nobody(container)) };
        let (pod, container) = self.with_pod(container);
        client.clone().create(Arc::new(pod), container, true).await
    }

    /// As [`Handle::start_container`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn start_container(&self, container: Container) -> Result<Start, Error> {
        let Some(client) = self.handle.client()? else { return Ok(Start(None)) };
        let (pod, container) = self.with_pod(container);
        client.clone().start(Arc::new(pod), container).await
    }

    /// As [`Handle::update_container`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn update_container(
        &self,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<ContainerUpdate, Error> {
        let Some(client) = self.handle.client()? else { return Ok(ContainerUpdate::of_nobody(resources)) };
        let (pod, container) = self.with_pod(container);
        client.clone().update(Arc::new(pod), container, resources).await
    }

    /// As [`Handle::stop_container`], and then of its pod.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn stop_container(&self, container: Container) -> Result<(), Error> {
        self.end(container, EndGoal::Stopped).await
    }

    /// As [`Handle::remove_container`], and then of its pod.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove_container(&self, container: Container) -> Result<(), Error> {
        self.end(container, EndGoal::Removed).await
    }

    async fn end(&self, container: Container, goal: EndGoal) -> Result<(), Error> {
        let Some(client) = self.handle.client()? else { return Ok(()) };
        if client.namespace.pods.state(&container.id).is_none() {
            return Ok(());
        }
        let (pod, container) = self.with_pod(container);
        let said = client.said(&container.id, goal);
        client.finish_pod(pod, Some(container), goal, said).await
    }

    /// As [`Handle::container_exited`].
    pub fn container_exited(&self, container: Container) {
        if self.handle.enabled().is_none() {
            return;
        }
        let (pod, container) = self.with_pod(container);
        self.handle.container_exited(pod, container);
    }

    fn with_pod(&self, mut container: Container) -> (Pod, Container) {
        let pod = made_pod(&self.namespace, &container);
        container.pod_id.clone_from(&pod.id);
        (pod, container)
    }
}

/// The pod of a container that has none.
pub(crate) fn made_pod(namespace: &str, container: &Container) -> Pod {
    let cgroups_path = container.linux.as_ref().map(|linux| linux.cgroups_path.clone()).unwrap_or_default();
    let linux = (!cgroups_path.is_empty()).then(|| LinuxPod { cgroups_path, ..LinuxPod::default() });
    Pod {
        id: container.id.clone(),
        name: container.name.clone(),
        uid: container.id.clone(),
        namespace: namespace.to_owned(),
        labels: container.labels.clone(),
        annotations: container.annotations.clone(),
        linux,
        ..Pod::default()
    }
}
