//! Creates of pods and containers: what plugins are asked, and what the runtime then reports.

use std::sync::Arc;

use nri_adaptation::Notice;
use nri_adaptation::merge::MergedCreate;
use nri_proto::{Adjustment, Container, Event, Owners, Pod};

use super::pending::PendingCreate;
use super::{NamespaceClient, check_id};
use crate::error::{Error, ObjectKind};
use crate::instance::plugin_requests::RequestContext;
use crate::lifecycle::namespace::{ContainerInfo, PodContainers};
use crate::lifecycle::steps::{Completion, RunId};

/// A pod that plugins approved.
///
/// If the value is dropped without [`commit`](Self::commit), the pod has failed to run: plugins
/// that heard of the pod are notified that it is stopped and removed.
#[must_use = "a pod that is not committed has failed"]
pub struct PodRun {
    /// `None` if NRI is disabled.
    pending: Option<PendingCreate>,
}

impl PodRun {
    /// Returns the value that a disabled NRI returns.
    pub(crate) fn unasked() -> Self {
        Self { pending: None }
    }

    /// Reports that the pod runs, and that the domain's [inventory](crate::Domain::inventory)
    /// contains it.
    pub fn commit(self) {
        if let Some(mut pending) = self.pending {
            // Only the create of a container can fail here.
            _ = pending.commit();
        }
    }
}

/// A container that plugins approved, and the adjustment that they want.
///
/// If the value is dropped without [`created`](Self::created) or [`commit`](Self::commit), the
/// create has failed: plugins that were asked are notified that the container is stopped and
/// removed.
#[must_use = "a container that is not reported as created has failed"]
pub struct Creation {
    /// `None` if NRI is disabled.
    pending: Option<PendingCreate>,
    adjustment: Adjustment,
    owners: Owners,
    container: Arc<Container>,
}

impl Creation {
    /// Returns the creation of a container that no plugin was asked about.
    pub(crate) fn unasked(container: Container) -> Self {
        let (adjustment, owners) = (Adjustment::default(), Owners::default());
        Self { pending: None, adjustment, owners, container: Arc::new(container) }
    }

    /// Returns the changes that plugins want in the container.
    #[must_use]
    pub fn adjustment(&self) -> &Adjustment {
        &self.adjustment
    }

    /// Takes the changes that plugins want in the container, and leaves none.
    #[must_use]
    pub fn take_adjustment(&mut self) -> Adjustment {
        std::mem::take(&mut self.adjustment)
    }

    /// Returns which plugin wants which change.
    #[must_use]
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the container with all changes applied, as plugins see it.
    #[must_use]
    pub fn container(&self) -> &Arc<Container> {
        &self.container
    }

    /// Reports that the container was created, and that the domain's
    /// [inventory](crate::Domain::inventory) contains it.
    ///
    /// The container counts as created as soon as this is called, whether or not the returned
    /// future is awaited. The future sends PostCreateContainer to plugins.
    ///
    /// # Errors
    ///
    /// - A plugin failed to handle the event. The container stays created.
    /// - [`Error::PodEnded`]: the pod has ended meanwhile. Plugins were told that the container has
    ///   ended, too. Remove the container.
    pub fn created(self, container: Container) -> impl Future<Output = Result<(), Error>> + Send {
        let committed = self.pending.map(PendingCreate::into_committed);
        async move {
            let Some((client, pod)) = committed.transpose()? else { return Ok(()) };
            Box::pin(client.post(&pod, container, Completion::Create, Notice::PostCreate)).await
        }
    }

    /// Reports that the container was created, and that the domain's
    /// [inventory](crate::Domain::inventory) contains it. To notify plugins, call
    /// [`Handle::post_create_container`](crate::Handle::post_create_container).
    ///
    /// # Errors
    ///
    /// [`Error::PodEnded`]: the pod has ended meanwhile.
    pub fn commit(self) -> Result<(), Error> {
        self.pending.map_or(Ok(()), |mut pending| pending.commit())
    }
}

impl NamespaceClient {
    /// Asks plugins whether a pod may run.
    pub(crate) async fn run_pod(self, pod: Arc<Pod>) -> Result<PodRun, Error> {
        check_id(ObjectKind::Pod, &pod.id)?;
        let begun = self.namespace.pods.begin_create(&pod.id, RunId::default(), PodContainers::new());
        begun.map_err(|refusal| refusal.error(ObjectKind::Pod, &pod.id))?;
        let pending = PendingCreate::new(&self, &pod, true, None);
        pending.operation().notify(Notice::RunPod).await?;
        Ok(PodRun { pending: Some(pending) })
    }

    /// Asks plugins about a container to be created, and about its pod if that is created with it.
    pub(crate) async fn create(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        with_pod: bool,
    ) -> Result<Creation, Error> {
        set_pod_id(&pod, &mut container)?;
        let id = container.id.clone();
        let (run, info) = (self.namespace.containers.next_run(), ContainerInfo::of_pod(&pod));
        let begun = self.namespace.containers.begin_create(&id, run, info);
        begun.map_err(|refusal| refusal.error(ObjectKind::Container, &id))?;
        if with_pod && let Err(refusal) = self.namespace.pods.begin_create(&pod.id, run, PodContainers::new()) {
            self.namespace.containers.abandon(&id);
            return Err(refusal.error(ObjectKind::Pod, &pod.id));
        }
        let mut pending = PendingCreate::new(&self, &pod, with_pod, Some(id));
        if !self.namespace.begin_create_in_pod(&container.id, &pod.id) {
            return Err(Error::PodEnded { id: container.id, pod: pod.id.clone() });
        }
        if with_pod {
            pending.operation().notify(Notice::RunPod).await?;
        }
        let MergedCreate { adjustment, updates, evictions, owners, container } =
            pending.operation().create_container(container).await?;
        let context = RequestContext { event: Event::CreateContainer, pod };
        let updated = self.instance.apply_updates(&self.namespace, context.clone(), updates, &owners);
        self.instance.evict(Some(Arc::clone(&self.namespace)), evictions, Some(context));
        updated.await;
        pending.mark_approved()?;
        Ok(Creation { pending: Some(pending), adjustment, owners, container })
    }
}

/// Sets the pod id of a container that has none. Fails if the container names another pod.
fn set_pod_id(pod: &Pod, container: &mut Container) -> Result<(), Error> {
    check_id(ObjectKind::Container, &container.id)?;
    check_id(ObjectKind::Pod, &pod.id)?;
    if container.pod_id.is_empty() {
        container.pod_id.clone_from(&pod.id);
    }
    if container.pod_id == pod.id {
        return Ok(());
    }
    let (id, pod, said) = (container.id.clone(), pod.id.clone(), container.pod_id.clone());
    Err(Error::OtherPod { id, pod, said })
}
