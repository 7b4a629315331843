//! What is begun and not done yet. To drop it without its last word is to say that it failed.

use std::sync::Arc;

use nri_adaptation::{Notice, Operation};
use nri_proto::{Adjustment, Container, Event, Owners, Pod, Resources};

use crate::client::NamespaceClient;
use crate::error::Error;
use crate::instance::RequestContext;
use crate::lifecycle::namespace::conform;
use crate::lifecycle::state::{Completion, State};
use crate::lifecycle::table::OperationKey;
use crate::mistake::Mistake;

/// A pod or container that is to be.
pub(crate) struct PendingCreate {
    client: NamespaceClient,
    /// There while plugins are asked.
    operation: Option<Operation>,
    /// Where it is while the runtime is at it, if it is about a container.
    parked: Option<OperationKey>,
    pod: Arc<Pod>,
    /// Whether the pod is to be, too.
    with_pod: bool,
    /// The container, unless it is about the pod alone.
    container: Option<String>,
}

impl PendingCreate {
    pub(crate) fn new(
        client: &NamespaceClient,
        operation: Operation,
        pod: Arc<Pod>,
        with_pod: bool,
        container: Option<String>,
    ) -> Self {
        Self { client: client.clone(), operation: Some(operation), parked: None, pod, with_pod, container }
    }

    pub(crate) fn asks(&self) -> &Operation {
        self.operation.as_ref().expect("plugins are being asked")
    }

    /// Plugins let it be: from now on the runtime is at it, unless its pod has ended meanwhile.
    pub(crate) fn is_let(&mut self) -> Result<(), Error> {
        if let (Some(id), Some(operation)) = (&self.container, self.operation.take()) {
            let parked = self.client.namespace.containers.park_creation(id, operation);
            self.parked = Some(parked.map_err(|_operation| self.pod_ended(id))?);
        }
        Ok(())
    }

    fn pod_ended(&self, id: &str) -> Error {
        Error::PodEnded { id: id.to_owned(), pod: self.pod.id.clone() }
    }

    /// It is now, unless its pod has ended meanwhile. What a joining plugin is shown says so before the operation ends.
    pub(crate) fn succeeds(&mut self) -> Result<(), Error> {
        let Some(operation) = self.operation() else {
            return self.container.as_ref().map_or(Ok(()), |id| Err(self.pod_ended(id)));
        };
        let namespace = &self.client.namespace;
        if self.with_pod {
            namespace.pods.created(&self.pod.id, State::Running);
        }
        if let Some(id) = &self.container {
            namespace.containers.created(id, State::Created);
        }
        operation.commit();
        if self.with_pod {
            namespace.pods.ended(&self.pod.id);
        }
        if let Some(id) = &self.container {
            namespace.containers.ended(id);
            // It may have exited already.
            self.client.tell_exit(Arc::clone(&self.pod), id);
        }
        Ok(())
    }

    /// Its operation, unless it has ended.
    fn operation(&mut self) -> Option<Operation> {
        let (container, parked) = (&self.container, self.parked.take());
        let parked =
            || container.as_ref().zip(parked).and_then(|(id, at)| self.client.namespace.containers.take_parked(id, at));
        self.operation.take().or_else(parked)
    }
}

impl Drop for PendingCreate {
    fn drop(&mut self) {
        let Some(operation) = self.operation() else { return };
        // What is undone has its place in the queue before another one of the same id can be begun.
        drop(operation);
        if let Some(id) = &self.container {
            self.client.namespace.abandon_container(id, &self.pod.id);
        }
        if self.with_pod {
            self.client.namespace.pods.abandon(&self.pod.id);
        }
    }
}

/// A pod that plugins let run. To drop it is to say that it does not: plugins that have heard of it are told that it is stopped and removed.
#[must_use = "a pod that is not committed has failed"]
pub struct PodRun(pub(crate) Option<PendingCreate>);

impl PodRun {
    /// The pod runs, and the domain's [inventory](crate::Domain::inventory) has it.
    pub fn commit(self) {
        if let Some(mut begun) = self.0 {
            // Only a container can come too late.
            _ = begun.succeeds();
        }
    }
}

/// Something that plugins let be done with a pod or container, and that the runtime is at. If that ends meanwhile, it counts as done.
pub(crate) struct PendingChange {
    pub(crate) client: NamespaceClient,
    pub(crate) pod: Arc<Pod>,
    /// The container, unless it is about the pod.
    pub(crate) container: Option<String>,
    /// Where its operation is, once plugins let it be done.
    pub(crate) parked: Option<OperationKey>,
}

impl PendingChange {
    pub(crate) fn new(client: &NamespaceClient, pod: Arc<Pod>, container: Option<String>) -> Self {
        Self { client: client.clone(), pod, container, parked: None }
    }

    pub(crate) fn end(&mut self, end: impl FnOnce(Operation)) {
        let (namespace, Some(parked)) = (&self.client.namespace, self.parked.take()) else { return };
        match &self.container {
            Some(id) => namespace.containers.end_parked(id, parked, |_| (), end),
            None => namespace.pods.end_parked(&self.pod.id, parked, |_| (), end),
        }
    }

    /// It was done. Returns who is to be told, and about which pod.
    fn done(mut self) -> (NamespaceClient, Arc<Pod>) {
        self.succeeds();
        (self.client.clone(), Arc::clone(&self.pod))
    }

    /// It was done.
    pub(crate) fn succeeds(&mut self) {
        self.end(Operation::commit);
    }
}

impl Drop for PendingChange {
    fn drop(&mut self) {
        self.end(drop);
    }
}

/// New limits of a pod that plugins have heard of.
#[must_use = "plugins are to hear that the pod was updated"]
pub struct PodUpdate(pub(crate) Option<PendingChange>);

impl PodUpdate {
    /// The pod has its new limits. It has them when this is called, whether or not what is returned is awaited, which tells plugins so.
    ///
    /// # Errors
    ///
    /// A plugin failed to hear that. The pod has its new limits all the same.
    pub fn updated(self, pod: Pod) -> impl Future<Output = Result<(), Error>> + Send {
        let done = self.0.map(PendingChange::done);
        async move {
            let Some((client, _)) = done else { return Ok(()) };
            Box::pin(client.post_pod(pod)).await
        }
    }
}

/// A container that plugins let be created, and what they want changed in it. To drop it is to say that it was not created: plugins that were asked about it are
/// told that it is stopped and removed.
#[must_use = "a container that is not said to be created has failed"]
pub struct Creation {
    pub(crate) begun: Option<PendingCreate>,
    pub(crate) adjustment: Adjustment,
    pub(crate) owners: Owners,
    pub(crate) container: Arc<Container>,
}

impl Creation {
    /// What plugins want changed in the container.
    #[must_use]
    pub fn adjustment(&self) -> &Adjustment {
        &self.adjustment
    }

    /// The same, to be changed or kept. What is left is empty.
    #[must_use]
    pub fn take_adjustment(&mut self) -> Adjustment {
        std::mem::take(&mut self.adjustment)
    }

    /// Which plugin wants what.
    #[must_use]
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// The container with all that plugins want changed in it, as they see it.
    #[must_use]
    pub fn container(&self) -> &Arc<Container> {
        &self.container
    }

    /// The container was created, and the domain's [inventory](crate::Domain::inventory) has it. It counts as created when this is called,
    /// whether or not what is returned is awaited, which tells plugins so, and whatever comes of that.
    ///
    /// # Errors
    ///
    /// A plugin failed to hear that: the container is created all the same. Or [its pod has ended](Error::PodEnded) meanwhile: plugins were told that the container
    /// has, too, and it is to be removed.
    pub fn created(self, container: Container) -> impl Future<Output = Result<(), Error>> + Send {
        let done = self.begun.map(|mut begun| {
            let pod = Arc::clone(&begun.pod);
            begun.succeeds().map(|()| (begun.client.clone(), pod))
        });
        async move {
            let Some((client, pod)) = done.transpose()? else { return Ok(()) };
            Box::pin(client.post(&pod, container, Completion::Create, Notice::PostCreate)).await
        }
    }
}

/// New limits of a container, as plugins want them. To drop it is to say that it did not get them.
#[must_use = "plugins are to hear that the container was updated"]
pub struct ContainerUpdate {
    pub(crate) underway: Option<PendingChange>,
    pub(crate) resources: Option<Resources>,
    /// Those who changed something of what it was to get.
    pub(crate) plugins: Vec<String>,
}

impl Drop for ContainerUpdate {
    fn drop(&mut self) {
        let Some(PendingChange { client, pod, container: Some(id), .. }) = &self.underway else { return };
        let asked = RequestContext { event: Event::UpdateContainer, pod: Arc::clone(pod) };
        for plugin in &self.plugins {
            client.instance.update_failed(plugin, Some(&asked), id, "the runtime did not make it".to_owned());
        }
    }
}

impl ContainerUpdate {
    /// What the container is to be updated to: all that was asked for, with what plugins changed. `None` if neither the runtime nor a plugin wants anything.
    #[must_use]
    pub fn resources(&self) -> Option<&Resources> {
        self.resources.as_ref()
    }

    /// The container has its new limits. It has them when this is called, whether or not what is returned is awaited, which tells
    /// plugins so.
    ///
    /// # Errors
    ///
    /// A plugin failed to hear that. The container has its new limits all the same.
    pub fn updated(mut self, container: Container) -> impl Future<Output = Result<(), Error>> + Send {
        let done = self.underway.take().map(PendingChange::done);
        async move {
            let Some((client, pod)) = done else { return Ok(()) };
            Box::pin(client.post(&pod, container, Completion::Update, Notice::PostUpdate)).await
        }
    }
}

impl NamespaceClient {
    /// Tells plugins that something was done, unless it is too late for that. An operation of its own: what was done is done.
    pub(crate) async fn post(
        &self,
        pod: &Arc<Pod>,
        mut container: Container,
        deed: Completion,
        notice: impl FnOnce(Container) -> Notice,
    ) -> Result<(), Error> {
        if self.namespace.is_podless {
            container.pod_id.clone_from(&pod.id);
        }
        let id = container.id.clone();
        let Some(pending) = self.namespace.containers.claim_post(&id, deed).await else { return Ok(()) };
        if let Some(state) = pending.prior.filter(|_| !self.instance.makes(Mistake::WordsAsTheyAre)) {
            conform(&mut container, state);
        }
        let operation = Arc::new(self.begin(pod));
        let (told, telling) = pending.make(&operation, operation.notify(notice(container))).await;
        telling.end();
        Ok(told?)
    }

    /// The same of a pod that has new limits.
    pub(crate) async fn post_pod(&self, pod: Pod) -> Result<(), Error> {
        let pod = Arc::new(pod);
        let Some(pending) = self.namespace.pods.claim_post(&pod.id, Completion::Update).await else { return Ok(()) };
        let operation = Arc::new(self.begin(&pod));
        let (told, telling) = pending.make(&operation, operation.notify(Notice::PostUpdatePod)).await;
        telling.end();
        Ok(told?)
    }
}
