//! What a runtime calls.

mod notify_done;
pub(crate) mod podless;

use std::sync::{Arc, Weak};

use nri_adaptation::merge::MergedCreate;
use nri_adaptation::{Notice, RelayError};
use nri_proto::{Adjustment, Container, Event, Owners, Pod, Resources};
use tokio::time::{Instant, timeout_at};

use crate::client::guards::{ContainerUpdate, Creation, PendingCreate, PodRun, PodUpdate};
use crate::client::start::Start;
use crate::client::{DetachOnDrop, NamespaceClient};
use crate::error::{Error, ObjectKind};
use crate::instance::RequestContext;
use crate::instance::startup::EarlyExit;
use crate::lifecycle::namespace::{ContainerInfo, PodContainers};
use crate::lifecycle::revocable::{Revocable, Revoke};
use crate::lifecycle::state::{EndGoal, RunId, State};

/// The way in of one namespace. A clone is the same one.
///
/// What the runtime is about to do it asks first, and gets a value that stands for it: a [`PodRun`], a [`Creation`], a [`Start`] or an update. When it
/// has done it, it says so with that value. If it drops the value, or the future that would give it, it has failed, and plugins that have heard of it are told.
///
/// What has ended it says, with [`stop_container`](Self::stop_container), [`remove_container`](Self::remove_container), [`stop_pod`](Self::stop_pod) and
/// [`remove_pod`](Self::remove_pod). Those are done to their end, also if nobody waits for them any more. They may be called as often as one likes: plugins hear of
/// each end at most once, and in order.
///
/// Errors of those, and of what comes after something was done, are for the log: there is nothing to be done about them.
#[derive(Clone)]
pub struct Handle {
    /// There unless NRI is disabled.
    client: Option<NamespaceClient>,
}

impl Handle {
    pub(crate) fn new(client: Option<NamespaceClient>) -> Self {
        Self { client }
    }

    /// The same, with a deadline of the caller's own for each thing that is asked through it. It costs a plugin nothing that is asked when it is over. An end goes on after it, and
    /// only its caller does not wait any more.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self {
            client: self.client.as_ref().map(|client| NamespaceClient { deadline: Some(deadline), ..client.clone() }),
        }
    }

    /// Whether there may be plugins. If NRI is [disabled](crate::Config::disable), what is asked is answered at once, and words for it need not be made.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.client.is_some()
    }

    /// Where a pod is in its life, as plugins know it. `None` if they do not.
    #[must_use]
    pub fn pod_state(&self, id: &str) -> Option<State> {
        self.client.as_ref()?.namespace.pods.state(id)
    }

    /// Where a container is in its life, as plugins know it. `None` if they do not.
    #[must_use]
    pub fn container_state(&self, id: &str) -> Option<State> {
        self.client.as_ref()?.namespace.containers.state(id)
    }

    /// Waits until plugins were told that a container has ended: of its Stop, and of its Remove if the runtime has asked for that.
    /// Use it for ends that are told in tasks, such as [exits](Self::container_exited) and failed starts, and for ends whose caller has left.
    /// Until it returns the domain keeps the container: the domain is asked for the words that plugins are told.
    ///
    /// For a container that plugins do not know, or whose end was told already, it returns at once; for one that runs, when the
    /// container has ended. It also returns when NRI has stopped and nothing is told any more, and if NRI is disabled.
    pub async fn container_ended(&self, id: &str) {
        if let Some(client) = &self.client {
            let _ = client.instance.over.run_until_cancelled(client.container_ended(id)).await;
        }
    }

    /// Waits until plugins were told that a pod has ended: of its Stop, and of its Remove if the runtime has asked for that. The same
    /// is true of its containers then.
    pub async fn pod_ended(&self, id: &str) {
        if let Some(client) = &self.client {
            let _ = client.instance.over.run_until_cancelled(client.pod_ended(id)).await;
        }
    }

    /// The way to plugins, whether or not NRI was started. `None` if it is disabled.
    pub(crate) fn enabled(&self) -> Option<&NamespaceClient> {
        self.client.as_ref()
    }

    /// The way to plugins, if there is one.
    pub(crate) fn client(&self) -> Result<Option<&NamespaceClient>, Error> {
        let Some(client) = &self.client else { return Ok(None) };
        client.instance.stages.check()?;
        Ok(Some(client))
    }

    /// A pod is there, and about to run.
    ///
    /// # Errors
    ///
    /// A plugin does not let it, or it is there already.
    pub async fn run_pod(&self, pod: Pod) -> Result<PodRun, Error> {
        let Some(client) = self.client()? else { return Ok(PodRun(None)) };
        check_id(ObjectKind::Pod, &pod.id)?;
        let pod = Arc::new(pod);
        let refused = |refusal| Error::refused(refusal, ObjectKind::Pod, &pod.id);
        client.namespace.pods.begin(&pod.id, RunId::default(), PodContainers::new(), None).map_err(refused)?;
        let begun = PendingCreate::new(client, client.begin(&pod), Arc::clone(&pod), true, None);
        begun.asks().notify(Notice::RunPod).await?;
        Ok(PodRun(Some(begun)))
    }

    /// A pod is about to get new limits: of what it costs itself, and of all its containers together.
    ///
    /// # Errors
    ///
    /// A plugin does not let it.
    pub async fn update_pod(
        &self,
        pod: Pod,
        overhead: Option<Resources>,
        resources: Option<Resources>,
    ) -> Result<PodUpdate, Error> {
        let Some(client) = self.client()? else { return Ok(PodUpdate(None)) };
        let (client, pod) = (client.clone(), Arc::new(pod));
        Revocable::new(client.deadline, |revoke| client.update_pod(pod, overhead, resources, revoke)).await
    }

    /// A pod has stopped. Its containers have, too: plugins that do not know that are told first.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn stop_pod(&self, pod: Pod) -> Result<(), Error> {
        self.end_pod(pod, EndGoal::Stopped).await
    }

    /// A pod is removed, with its containers. To be said before the domain forgets it.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn remove_pod(&self, pod: Pod) -> Result<(), Error> {
        self.end_pod(pod, EndGoal::Removed).await
    }

    async fn end_pod(&self, pod: Pod, goal: EndGoal) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        if client.namespace.pods.state(&pod.id).is_none() {
            return client.nothing_to_end(ObjectKind::Pod, &pod.id);
        }
        client.finish_pod(pod, None, goal, RunId::LAST).await
    }

    /// A container is to be created in a pod. Plugins say what they want changed in it.
    ///
    /// Before this returns, the [`Domain`](crate::Domain) of each has made the updates that plugins want of other containers. What fails of them does not fail the create; it is in
    /// the [ledger](crate::Nri::ledger). What plugins want stopped is stopped after that, and nobody waits for it.
    ///
    /// # Errors
    ///
    /// A plugin does not let it, plugins want contrary things, or there is such a container.
    pub async fn create_container(&self, pod: Pod, container: Container) -> Result<Creation, Error> {
        let Some(client) = self.client()? else { return Ok(Creation::of_nobody(container)) };
        client.clone().create(Arc::new(pod), container, false).await
    }

    /// A container is about to start, perhaps again. That begins a run, unless plugins know that it runs: what is said of its end from now
    /// on is about that run. The exit of the run before is to be said before this is called.
    ///
    /// # Errors
    ///
    /// A plugin does not let it: then the container has stopped, and plugins for which it has not are told so. It is being created or removed.
    pub async fn start_container(&self, pod: Pod, container: Container) -> Result<Start, Error> {
        let Some(client) = self.client()? else { return Ok(Start(None)) };
        client.clone().start(Arc::new(pod), container).await
    }

    /// A container is to get new limits. Plugins may change them; [`ContainerUpdate::resources`] says to what. Of updates of other containers and what plugins want stopped the
    /// same holds as when one is [created](Self::create_container).
    ///
    /// # Errors
    ///
    /// A plugin does not let it, or plugins want contrary things.
    pub async fn update_container(
        &self,
        pod: Pod,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<ContainerUpdate, Error> {
        let Some(client) = self.client()? else { return Ok(ContainerUpdate::of_nobody(resources)) };
        client.clone().update(Arc::new(pod), container, resources).await
    }

    /// A container has stopped. How is what it says itself, or what its [exit](Self::container_exited) said.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn stop_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        self.end_container(pod, container, EndGoal::Stopped).await
    }

    /// A container is removed. If it has not stopped, it has now. To be said before the domain forgets it.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn remove_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        self.end_container(pod, container, EndGoal::Removed).await
    }

    async fn end_container(&self, pod: Pod, container: Container, goal: EndGoal) -> Result<(), Error> {
        let Some(client) = self.client()? else { return Ok(()) };
        if client.namespace.containers.state(&container.id).is_none() {
            return client.nothing_to_end(ObjectKind::Container, &container.id);
        }
        let (ending, said) = (client.clone(), client.said(&container.id, goal));
        if goal == EndGoal::Removed {
            client.namespace.containers.look(&container.id, |entry| entry.life.remove_asked());
        }
        let end = async move {
            let (pod, id) = (Arc::new(pod), container.id.clone());
            ending.insist(&pod.id, ending.end_container(&pod, &id, Some(container), goal, said)).await
        };
        client.in_time(client.finish(end)).await
    }

    /// A container has exited by itself. Its words say how: `exit_code`, `finished_at`, `status_reason`, `status_message`. Plugins are told in a task, as of a Stop;
    /// this never waits. Before [`Nri::start`](crate::Nri::start) it is kept until then; after [`Nri::stop`](crate::Nri::stop) it is only counted.
    pub fn container_exited(&self, pod: Pod, container: Container) {
        let Some(client) = &self.client else { return };
        let pod = Arc::new(pod);
        if client.instance.stages.check().is_ok() {
            return client.exited(pod, container);
        }
        let exit = EarlyExit { namespace: Arc::clone(&client.namespace), pod, container };
        if let Some(EarlyExit { namespace: _, pod, container }) = client.instance.stages.exited(exit) {
            client.exited(pod, container);
        }
    }
}

/// A container says in which pod it is. That it does not is no reason to keep plugins in the dark.
fn place_in(pod: &Pod, container: &mut Container) -> Result<(), Error> {
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

fn check_id(kind: ObjectKind, id: &str) -> Result<(), Error> {
    if id.is_empty() { Err(Error::NoId { kind }) } else { Ok(()) }
}

impl Creation {
    /// Of a container that no plugin was asked about.
    pub(crate) fn of_nobody(container: Container) -> Self {
        let (adjustment, owners) = (Adjustment::default(), Owners::default());
        Self { begun: None, adjustment, owners, container: Arc::new(container) }
    }
}

impl ContainerUpdate {
    /// Of a container that no plugin was asked about.
    pub(crate) fn of_nobody(resources: Option<Resources>) -> Self {
        Self { underway: None, resources, plugins: Vec::new() }
    }
}

impl NamespaceClient {
    /// Ends a pod, also if nobody waits for it any more.
    pub(crate) async fn finish_pod(
        &self,
        pod: Pod,
        known: Option<Container>,
        goal: EndGoal,
        said: RunId,
    ) -> Result<(), Error> {
        if goal == EndGoal::Removed {
            self.namespace.pod_remove_asked(&pod.id);
        }
        let ending = self.clone();
        let end = async move {
            let pod = Arc::new(pod);
            ending.insist(&pod.id, ending.end_pod(&pod, known, goal, said)).await
        };
        self.in_time(self.finish(end)).await
    }

    /// The run of a container that an end is about which is said now: to remove it ends all of them.
    pub(crate) fn said(&self, id: &str, goal: EndGoal) -> RunId {
        let said = self.namespace.containers.read(id, |entry| entry.life.said());
        said.filter(|_| goal == EndGoal::Stopped).unwrap_or(RunId::LAST)
    }

    /// Waits for an end until the caller's deadline. It goes on after that.
    async fn in_time(&self, end: DetachOnDrop<Result<(), RelayError>>) -> Result<(), Error> {
        let ended = match self.deadline {
            Some(deadline) => timeout_at(deadline, end).await.unwrap_or(Err(RelayError::Deadline)),
            None => end.await,
        };
        Ok(ended?)
    }

    /// Begins to create a container, with its pod if that is to be, too.
    pub(crate) fn create(self, pod: Arc<Pod>, container: Container, with_pod: bool) -> Revocable<Creation> {
        Revocable::new(self.deadline, |revoke| self.ask_to_create(pod, container, with_pod, revoke))
    }

    async fn ask_to_create(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        with_pod: bool,
        revoke: Weak<dyn Revoke>,
    ) -> Result<Creation, Error> {
        place_in(&pod, &mut container)?;
        let id = container.id.clone();
        let (run, rest) = (self.namespace.containers.next_run(), ContainerInfo::of_pod(&pod));
        let refused = |refusal| Error::refused(refusal, ObjectKind::Container, &id);
        self.namespace.containers.begin(&id, run, rest, Some(&revoke)).map_err(refused)?;
        if with_pod && let Err(refusal) = self.namespace.pods.begin(&pod.id, run, PodContainers::new(), None) {
            self.namespace.containers.abandon(&id);
            return Err(Error::refused(refusal, ObjectKind::Pod, &pod.id));
        }
        let mut begun = PendingCreate::new(&self, self.begin(&pod), Arc::clone(&pod), with_pod, Some(id));
        if !self.namespace.may_belong(&container.id, &pod.id) {
            return Err(Error::PodEnded { id: container.id, pod: pod.id.clone() });
        }
        if with_pod {
            begun.asks().notify(Notice::RunPod).await?;
        }
        let MergedCreate { adjustment, updates, evictions, owners, container } =
            begun.asks().create_container(container).await?;
        let asked = RequestContext { event: Event::CreateContainer, pod };
        self.instance.evict(Some(Arc::clone(&self.namespace)), evictions, Some(asked.clone()));
        self.instance.update(&self.namespace, asked, updates, &owners).await;
        begun.is_let()?;
        Ok(Creation { begun: Some(begun), adjustment, owners, container })
    }

    /// Plugins know nothing of it that could end: it is not there, or not yet.
    fn nothing_to_end(&self, kind: ObjectKind, id: &str) -> Result<(), Error> {
        let is_creating = match kind {
            ObjectKind::Pod => self.namespace.pods.read(id, |entry| entry.life.is_creating()),
            ObjectKind::Container => self.namespace.containers.read(id, |entry| entry.life.is_creating()),
        };
        match is_creating {
            Some(true) => Err(Error::BeingCreated { kind, id: id.to_owned() }),
            _ => Ok(()),
        }
    }
}
