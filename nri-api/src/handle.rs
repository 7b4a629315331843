//! What a runtime calls.

mod notify_done;
pub(crate) mod podless;

use std::sync::{Arc, Weak};

use nri_adaptation::merge::MergedCreate;
use nri_adaptation::{Notice, RelayError};
use nri_proto::{Adjustment, Container, Event, Owners, Pod, Resources};
use tokio::time::{Instant, timeout_at};

use crate::client::guards::{Begun, ContainerUpdate, Creation, PodRun, PodUpdate};
use crate::client::start::Start;
use crate::client::{Finish, Way};
use crate::error::{Error, Kind};
use crate::instance::Asked;
use crate::instance::startup::EarlyExit;
use crate::lifecycle::namespace::{ContainerRest, PodRest};
use crate::lifecycle::revocable::{Held, Reins};
use crate::lifecycle::state::{Goal, Run, State};

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

    /// The same, with a deadline of the caller's own for each thing that is asked through it. It costs a plugin nothing that is asked when it is over. An end goes on after it, and
    /// only its caller does not wait any more.
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

    /// Waits until plugins were told that a container has ended: of its Stop, and of its Remove if the runtime has asked for that.
    /// Use it for ends that are told in tasks, such as [exits](Self::container_exited) and failed starts, and for ends whose caller has left.
    /// Until it returns the domain keeps the container: the domain is asked for the words that plugins are told.
    ///
    /// For a container that plugins do not know, or whose end was told already, it returns at once; for one that runs, when the
    /// container has ended. It also returns when NRI has stopped and nothing is told any more, and if NRI is disabled.
    pub async fn container_ended(&self, id: &str) {
        if let Some(way) = &self.way {
            let _ = way.node.over.run_until_cancelled(way.container_ended(id)).await;
        }
    }

    /// Waits until plugins were told that a pod has ended: of its Stop, and of its Remove if the runtime has asked for that. The same
    /// is true of its containers then.
    pub async fn pod_ended(&self, id: &str) {
        if let Some(way) = &self.way {
            let _ = way.node.over.run_until_cancelled(way.pod_ended(id)).await;
        }
    }

    /// The way to plugins, whether or not NRI was started. `None` if it is disabled.
    pub(crate) fn enabled(&self) -> Option<&Way> {
        self.way.as_ref()
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
        check_id(Kind::Pod, &pod.id)?;
        let pod = Arc::new(pod);
        let refused = |refusal| Error::refused(refusal, Kind::Pod, &pod.id);
        way.space.pods.begin(&pod.id, Run::default(), PodRest::new(), None).map_err(refused)?;
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
        let (way, pod) = (way.clone(), Arc::new(pod));
        Held::new(way.deadline, |reins| way.update_pod(pod, overhead, resources, reins)).await
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
        way.finish_pod(pod, None, goal, Run::LAST).await
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
        let Some(way) = self.way()? else { return Ok(Creation::of_nobody(container)) };
        way.clone().create(Arc::new(pod), container, false).await
    }

    /// A container is about to start, perhaps again. That begins a run, unless plugins know that it runs: what is said of its end from now
    /// on is about that run. The exit of the run before is to be said before this is called.
    ///
    /// # Errors
    ///
    /// A plugin does not let it: then the container has stopped, and plugins for which it has not are told so. It is being created or removed.
    pub async fn start_container(&self, pod: Pod, container: Container) -> Result<Start, Error> {
        let Some(way) = self.way()? else { return Ok(Start(None)) };
        way.clone().start(Arc::new(pod), container).await
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
        let Some(way) = self.way()? else { return Ok(ContainerUpdate::of_nobody(resources)) };
        way.clone().update(Arc::new(pod), container, resources).await
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
        let (ending, said) = (way.clone(), way.said(&container.id, goal));
        if goal == Goal::Removed {
            way.space.containers.look(&container.id, |entry| entry.life.remove_asked());
        }
        let end = async move {
            let (pod, id) = (Arc::new(pod), container.id.clone());
            ending.insist(&pod.id, ending.end_container(&pod, &id, Some(container), goal, said)).await
        };
        way.in_time(way.finish(end)).await
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

/// A container says in which pod it is. That it does not is no reason to keep plugins in the dark.
fn place_in(pod: &Pod, container: &mut Container) -> Result<(), Error> {
    check_id(Kind::Container, &container.id)?;
    check_id(Kind::Pod, &pod.id)?;
    if container.pod_id.is_empty() {
        container.pod_id.clone_from(&pod.id);
    }
    if container.pod_id == pod.id {
        return Ok(());
    }
    let (id, pod, said) = (container.id.clone(), pod.id.clone(), container.pod_id.clone());
    Err(Error::OtherPod { id, pod, said })
}

fn check_id(kind: Kind, id: &str) -> Result<(), Error> {
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

impl Way {
    /// Ends a pod, also if nobody waits for it any more.
    pub(crate) async fn finish_pod(
        &self,
        pod: Pod,
        known: Option<Container>,
        goal: Goal,
        said: Run,
    ) -> Result<(), Error> {
        if goal == Goal::Removed {
            self.space.pod_remove_asked(&pod.id);
        }
        let ending = self.clone();
        let end = async move {
            let pod = Arc::new(pod);
            ending.insist(&pod.id, ending.end_pod(&pod, known, goal, said)).await
        };
        self.in_time(self.finish(end)).await
    }

    /// The run of a container that an end is about which is said now: to remove it ends all of them.
    pub(crate) fn said(&self, id: &str, goal: Goal) -> Run {
        let said = self.space.containers.read(id, |entry| entry.life.said());
        said.filter(|_| goal == Goal::Stopped).unwrap_or(Run::LAST)
    }

    /// Waits for an end until the caller's deadline. It goes on after that.
    async fn in_time(&self, end: Finish<Result<(), RelayError>>) -> Result<(), Error> {
        let ended = match self.deadline {
            Some(deadline) => timeout_at(deadline, end).await.unwrap_or(Err(RelayError::Deadline)),
            None => end.await,
        };
        Ok(ended?)
    }

    /// Begins to create a container, with its pod if that is to be, too.
    pub(crate) fn create(self, pod: Arc<Pod>, container: Container, with_pod: bool) -> Held<Creation> {
        Held::new(self.deadline, |reins| self.ask_to_create(pod, container, with_pod, reins))
    }

    async fn ask_to_create(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        with_pod: bool,
        reins: Weak<dyn Reins>,
    ) -> Result<Creation, Error> {
        place_in(&pod, &mut container)?;
        let id = container.id.clone();
        let (run, rest) = (self.space.containers.next_run(), ContainerRest::of_pod(&pod));
        let refused = |refusal| Error::refused(refusal, Kind::Container, &id);
        self.space.containers.begin(&id, run, rest, Some(&reins)).map_err(refused)?;
        if with_pod && let Err(refusal) = self.space.pods.begin(&pod.id, run, PodRest::new(), None) {
            self.space.containers.abandon(&id);
            return Err(Error::refused(refusal, Kind::Pod, &pod.id));
        }
        let mut begun = Begun::new(&self, self.begin(&pod), Arc::clone(&pod), with_pod, Some(id));
        if !self.space.may_belong(&container.id, &pod.id) {
            return Err(Error::PodEnded { id: container.id, pod: pod.id.clone() });
        }
        if with_pod {
            begun.asks().notify(Notice::RunPod).await?;
        }
        let MergedCreate { adjustment, updates, evictions, owners, container } =
            begun.asks().create_container(container).await?;
        let asked = Asked { event: Event::CreateContainer, pod };
        self.node.evict(Some(Arc::clone(&self.space)), evictions, Some(asked.clone()));
        self.node.update(&self.space, asked, updates, &owners).await;
        begun.is_let()?;
        Ok(Creation { begun: Some(begun), adjustment, owners, container })
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
}
