//! What a runtime calls.

use std::sync::Arc;

use nri_adaptation::Notice;
use nri_adaptation::merge::{MergedCreate, MergedUpdate};
use nri_proto::{Adjustment, Container, Event, Owners, Pod, Resources};
use tokio::time::Instant;

use crate::begun::{Begun, ContainerUpdate, Creation, PodRun, PodUpdate, Start, Starting, Underway};
use crate::error::{Error, Kind};
use crate::life::{Goal, Run, State};
use crate::node::Asked;
use crate::space::{ContainerRest, PodRest, Presence, state_of};
use crate::stage::EarlyExit;
use crate::way::Way;

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
    way: Option<Way>,
}

impl Handle {
    pub(crate) fn new(way: Option<Way>) -> Self {
        Self { way }
    }

    /// The same, with a deadline of the caller's own for each thing that is asked through it. It costs a plugin nothing that is asked when it is over.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self { way: self.way.as_ref().map(|way| Way { deadline: Some(deadline), ..way.clone() }) }
    }

    /// Whether there may be plugins. If NRI is [disabled](crate::Config::disable), what is asked is answered at once, and words for it need not be made.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.way.is_some()
    }

    /// Where a pod is in its life, as plugins know it. `None` if they do not.
    #[must_use]
    pub fn pod_state(&self, id: &str) -> Option<State> {
        self.way.as_ref()?.space.pods.state(id)
    }

    /// Where a container is in its life, as plugins know it. `None` if they do not.
    #[must_use]
    pub fn container_state(&self, id: &str) -> Option<State> {
        self.way.as_ref()?.space.containers.state(id)
    }

    /// The way to plugins, if there is one.
    pub(crate) fn way(&self) -> Result<Option<&Way>, Error> {
        let Some(way) = &self.way else { return Ok(None) };
        way.node.stages.check()?;
        Ok(Some(way))
    }

    /// A pod is there, and about to run.
    ///
    /// # Errors
    ///
    /// A plugin does not let it, or it is there already.
    pub async fn run_pod(&self, pod: Pod) -> Result<PodRun, Error> {
        let Some(way) = self.way()? else { return Ok(PodRun(None)) };
        let pod = Arc::new(pod);
        let refused = |refusal| Error::refused(refusal, Kind::Pod, &pod.id);
        way.space.pods.begin(&pod.id, PodRest::new()).map_err(refused)?;
        let begun = Begun::new(way, way.begin(&pod), Arc::clone(&pod), true, None);
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
        let Some(way) = self.way()? else { return Ok(PodUpdate(None)) };
        let pod = Arc::new(pod);
        way.space.enter_pod(&pod.id, State::Running);
        let operation = way.begin(&pod);
        operation.notify(Notice::UpdatePod { overhead, resources }).await?;
        let mut underway = Underway::new(way, pod, None);
        underway.begins(operation);
        Ok(PodUpdate(Some(underway)))
    }

    /// A pod has stopped. Its containers have, too: plugins that do not know that are told first.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn stop_pod(&self, pod: Pod) -> Result<(), Error> {
        self.end_pod(pod, Goal::Stopped).await
    }

    /// A pod is removed, with its containers. To be said before the domain forgets it.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn remove_pod(&self, pod: Pod) -> Result<(), Error> {
        self.end_pod(pod, Goal::Removed).await
    }

    async fn end_pod(&self, pod: Pod, goal: Goal) -> Result<(), Error> {
        let Some(way) = self.way()? else { return Ok(()) };
        if way.space.pods.state(&pod.id).is_none() {
            return way.nothing_to_end(Kind::Pod, &pod.id);
        }
        way.finish_pod(pod, None, goal).await
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
        let Some(way) = self.way()? else { return Ok(Creation::of_nobody()) };
        Box::pin(way.create(Arc::new(pod), container, false)).await
    }

    /// A container is about to start, perhaps again.
    ///
    /// # Errors
    ///
    /// A plugin does not let it: then plugins are told that it has stopped. It is being created or removed.
    pub async fn start_container(&self, pod: Pod, container: Container) -> Result<Start, Error> {
        let Some(way) = self.way()? else { return Ok(Start(None)) };
        Box::pin(way.start(Arc::new(pod), container)).await
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
        let Some(way) = self.way()? else { return Ok(ContainerUpdate { underway: None, resources }) };
        Box::pin(way.update(Arc::new(pod), container, resources)).await
    }

    /// A container has stopped. How is what it says itself, or what its [exit](Self::container_exited) said.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn stop_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        self.end_container(pod, container, Goal::Stopped).await
    }

    /// A container is removed. If it has not stopped, it has now. To be said before the domain forgets it.
    ///
    /// # Errors
    ///
    /// A plugin failed. All others were told.
    pub async fn remove_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        self.end_container(pod, container, Goal::Removed).await
    }

    async fn end_container(&self, pod: Pod, container: Container, goal: Goal) -> Result<(), Error> {
        let Some(way) = self.way()? else { return Ok(()) };
        if way.space.containers.state(&container.id).is_none() {
            return way.nothing_to_end(Kind::Container, &container.id);
        }
        let ending = way.clone();
        let end = async move {
            let id = container.id.clone();
            ending.end_container(&Arc::new(pod), &id, Some(container), goal).await
        };
        Ok(way.finish(end).await?)
    }

    /// A container has exited by itself. Its words say how: `exit_code`, `finished_at`, `status_reason`, `status_message`. Plugins are told in a task, as of a Stop;
    /// this never waits. Before [`Nri::start`](crate::Nri::start) it is kept until then; after [`Nri::stop`](crate::Nri::stop) it is only counted.
    pub fn container_exited(&self, pod: Pod, container: Container) {
        let Some(way) = &self.way else { return };
        let pod = Arc::new(pod);
        if way.node.stages.check().is_ok() {
            return way.exited(pod, container);
        }
        let exit = EarlyExit { space: Arc::clone(&way.space), pod, container };
        if let Some(EarlyExit { space: _, pod, container }) = way.node.stages.exited(exit) {
            way.exited(pod, container);
        }
    }
}

impl Creation {
    /// Of a container that no plugin was asked about.
    pub(crate) fn of_nobody() -> Self {
        Self { begun: None, adjustment: Adjustment::default(), owners: Owners::default() }
    }
}

impl Way {
    /// Ends a pod, also if nobody waits for it any more.
    pub(crate) async fn finish_pod(&self, pod: Pod, known: Option<Container>, goal: Goal) -> Result<(), Error> {
        let ending = self.clone();
        let end = async move { ending.end_pod(&Arc::new(pod), known, goal).await };
        Ok(self.finish(end).await?)
    }

    /// Begins to create a container, with its pod if that is to be, too.
    pub(crate) async fn create(&self, pod: Arc<Pod>, container: Container, with_pod: bool) -> Result<Creation, Error> {
        let id = container.id.clone();
        let rest = ContainerRest { pod: pod.id.clone(), ..ContainerRest::default() };
        let refused = |refusal| Error::refused(refusal, Kind::Container, &id);
        self.space.containers.begin(&id, rest).map_err(refused)?;
        if with_pod && let Err(refusal) = self.space.pods.begin(&pod.id, PodRest::new()) {
            self.space.containers.abandon(&id);
            return Err(Error::refused(refusal, Kind::Pod, &pod.id));
        }
        let mut begun = Begun::new(self, self.begin(&pod), Arc::clone(&pod), with_pod, Some(id));
        if !self.space.may_belong(&container.id, &pod.id) {
            return Err(Error::PodEnded { id: container.id, pod: pod.id.clone() });
        }
        if with_pod {
            begun.asks().notify(Notice::RunPod).await?;
        }
        let MergedCreate { adjustment, updates, evictions, owners } = begun.asks().create_container(container).await?;
        let asked = Asked { event: Event::CreateContainer, pod };
        self.node.evict(Some(Arc::clone(&self.space)), evictions, Some(asked.clone()));
        self.node.update(&self.space, asked, updates, &owners).await;
        begun.is_let()?;
        Ok(Creation { begun: Some(begun), adjustment, owners })
    }

    pub(crate) async fn start(&self, pod: Arc<Pod>, container: Container) -> Result<Start, Error> {
        let id = container.id.clone();
        let run = self.begin_run(&id, &pod).await?;
        let underway = Underway::new(self, Arc::clone(&pod), Some(id.clone()));
        let mut starting = Starting { underway, run, is_done: false };
        let operation = self.begin(&pod);
        operation.notify(Notice::Start(container)).await?;
        self.space.containers.look(&id, |entry| entry.life.start_asked(run));
        starting.underway.begins(operation);
        Ok(Start(Some(starting)))
    }

    /// Enters a container that nobody knows of, unless it was known.
    fn know(&self, id: &str, pod: &str, state: State) -> Result<(), Error> {
        let (kind, id_of) = (Kind::Container, || id.to_owned());
        match self.space.containers.read(id, |entry| entry.life.is_creating()) {
            Some(true) => Err(Error::BeingCreated { kind, id: id_of() }),
            Some(false) => Ok(()),
            None if self.space.presence(id) == Presence::Over => Err(Error::Removed { kind, id: id_of() }),
            None => {
                self.space.enter_container(id, pod, state);
                Ok(())
            }
        }
    }

    /// Plugins know nothing of it that could end: it is not there, or not yet.
    fn nothing_to_end(&self, kind: Kind, id: &str) -> Result<(), Error> {
        let is_creating = match kind {
            Kind::Pod => self.space.pods.read(id, |entry| entry.life.is_creating()),
            Kind::Container => self.space.containers.read(id, |entry| entry.life.is_creating()),
        };
        match is_creating {
            Some(true) => Err(Error::BeingCreated { kind, id: id.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Begins a run of a container. One that nobody knows of is entered. Of an exit of the run before plugins are told first.
    async fn begin_run(&self, id: &str, pod: &Arc<Pod>) -> Result<Run, Error> {
        self.catch_up_with_exit(id, pod).await;
        loop {
            match self.space.containers.start(id).await {
                Some(begun) => return begun.map_err(|refusal| Error::refused(refusal, Kind::Container, id)),
                None => self.know(id, &pod.id, State::Created)?,
            }
        }
    }

    /// Tells plugins of an exit that was noted, also if nobody waits for that any more.
    pub(crate) async fn catch_up_with_exit(&self, id: &str, pod: &Arc<Pod>) {
        if self.has_exited(id) {
            let (ending, pod, id) = (Self { deadline: None, ..self.clone() }, Arc::clone(pod), id.to_owned());
            self.finish(async move { ending.end_exited(&pod, &id).await }).await;
        }
    }

    pub(crate) async fn update(
        &self,
        pod: Arc<Pod>,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<ContainerUpdate, Error> {
        let id = container.id.clone();
        self.know(&id, &pod.id, state_of(container.state))?;
        let operation = self.begin(&pod);
        let merged = operation.update_container(container, resources.clone()).await?;
        let MergedUpdate { own, others, evictions, owners } = merged;
        let mut underway = Underway::new(self, Arc::clone(&pod), Some(id));
        underway.begins(operation);
        let asked = Asked { event: Event::UpdateContainer, pod };
        self.node.evict(Some(Arc::clone(&self.space)), evictions, Some(asked.clone()));
        self.node.update(&self.space, asked, others, &owners).await;
        let merged = own.and_then(|own| own.linux).and_then(|linux| linux.resources);
        Ok(ContainerUpdate { underway: Some(underway), resources: merged.or(resources) })
    }
}
