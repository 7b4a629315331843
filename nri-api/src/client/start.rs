//! Starts, the first one and others: what plugins are asked, and what becomes of it if a start fails.
//!
//! A start of what was created, or has stopped, begins a run. If it fails, the container is stopped, and those plugins are told so for which it is
//! not: after a first start, all that know it; after another one, those that saw StartContainer. A start of what runs begins no run, and
//! nothing becomes of it if it fails.

use std::sync::{Arc, Weak};

use nri_adaptation::{Known, Notice, Operation, Prior};
use nri_proto::{Container, ContainerState, Pod};

use crate::client::Way;
use crate::client::guards::Underway;
use crate::error::{Error, Kind};
use crate::lifecycle::namespace::{ContainerRest, Entered, PodRest, Presence};
use crate::lifecycle::revocable::{Held, Reins};
use crate::lifecycle::state::{Deed, GateKind, Goal, Life, Run, State};
use crate::lifecycle::table::Gate;
use crate::mistake::Mistake;

/// A container that plugins let start. To drop it is to say that it did not: plugins for which it has not stopped are told that it has.
#[must_use = "a container that is not said to be started has failed"]
pub struct Start(pub(crate) Option<Starting>);

/// A start that is under way. Unless it succeeds, the container has stopped.
pub(crate) struct Starting {
    underway: Underway,
    run: Run,
    /// Where plugins knew the container to be when they were asked. `None`: they were not yet.
    prior: Option<State>,
    is_done: bool,
}

impl Start {
    /// The container was started. It counts as started when this is called, whether or not what is returned is awaited, which tells
    /// plugins so. If it has stopped meanwhile, plugins are not told: they know.
    ///
    /// # Errors
    ///
    /// A plugin failed to hear that. The container was started all the same.
    pub fn started(self, container: Container) -> impl Future<Output = Result<(), Error>> + Send {
        let done = self.0.map(|mut starting| {
            starting.succeeds();
            (starting.underway.way.clone(), Arc::clone(&starting.underway.pod), starting.run)
        });
        async move {
            let Some((way, pod, run)) = done else { return Ok(()) };
            Box::pin(way.post(&pod, container, Deed::Start(run), Notice::PostStart)).await
        }
    }

    /// The container was started. Plugins are told by [`Handle::post_start_container`](crate::Handle::post_start_container).
    pub fn commit(self) {
        if let Some(mut starting) = self.0 {
            starting.succeeds();
        }
    }
}

impl Starting {
    fn succeeds(&mut self) {
        self.is_done = true;
        self.underway.succeeds();
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let (run, way, pod) = (self.run, self.underway.way.clone(), Arc::clone(&self.underway.pod));
        let Some(id) = self.underway.container.clone().filter(|_| !self.is_done) else { return };
        let stops_running = way.node.makes(Mistake::StartOfRunningStops);
        match self.prior {
            #[cfg(feature = "mistakes")]
            Some(State::Stopped) if way.node.makes(Mistake::RestartUndoneForAll) => {
                self.underway.end(drop);
                way.space.containers.look(&id, |entry| entry.life.forget_stop(run));
                way.first_start_failed(pod, &id, run);
            }
            Some(State::Stopped) => self.underway.end_with(
                |life| life.start_undone(run),
                |operation| {
                    if way.space.is_podless {
                        way.space.pods.change(&pod.id, |life| life.start_undone(run));
                    }
                    // Those who saw the start are told by this. Whatever is asked about the pod from now on comes behind that.
                    drop(operation);
                },
            ),
            Some(State::Running) if stops_running => {
                way.space.containers.look(&id, |entry| entry.rest.note_exit(run, None));
                way.tell_exit(pod, &id);
            }
            Some(State::Running) => self.underway.end(drop),
            Some(State::Created) | None => {
                self.underway.end(drop);
                way.first_start_failed(pod, &id, run);
            }
        }
    }
}

/// What an operation is to know of something that is in this state.
pub(crate) fn prior(state: State) -> Prior {
    match state {
        State::Created => Prior::Created,
        State::Running => Prior::Running,
        State::Stopped => Prior::Stopped,
    }
}

/// What is known of a container that plugins are asked about.
pub(crate) struct Asking<'a> {
    pub(crate) gate: Gate<'a, ContainerRest>,
    /// Where plugins know it to be.
    pub(crate) state: State,
    /// What this request made known.
    pub(crate) entered: Entered,
}

impl Way {
    /// Begins to start a container.
    pub(crate) fn start(self, pod: Arc<Pod>, container: Container) -> Held<Start> {
        Held::new(self.deadline, |reins| self.ask_to_start(pod, container, reins))
    }

    async fn ask_to_start(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        reins: Weak<dyn Reins>,
    ) -> Result<Start, Error> {
        let id = container.id.clone();
        let run = self.space.containers.next_run();
        self.space.containers.look(&id, |entry| entry.life.start_called(run));
        let underway = Underway::new(&self, Arc::clone(&pod), Some(id.clone()));
        let mut starting = Starting { underway, run, prior: None, is_done: false };
        self.catch_up(&id, &pod, run).await;
        // The pod's before the container's: whoever ends both waits for them in this order, too.
        let of_pod = self.pod_gate(&id, &pod.id, &reins).await?;
        let asking = self.gate(&id, &pod, State::Created, run, GateKind::Start, &reins).await?;
        let Asking { gate, state, entered } = asking;
        let stops_pod = state == State::Stopped && of_pod.as_ref().is_some_and(|(state, _)| *state == State::Stopped);
        starting.prior = Some(state);
        self.space.containers.look(&id, |entry| entry.rest.is_restarted |= state == State::Stopped);
        let operation = self.start_operation(&pod, state, stops_pod, entered.pod);
        // Its process is there and does not run, whatever the runtime's store has of a run before.
        container.state = ContainerState::Created;
        operation.notify(Notice::Start(container)).await?;
        let mut begins = false;
        starting.underway.parked = Some(gate.pass(operation, |life| begins = life.start_asked(run)));
        if let (true, Some((_, gate))) = (begins, of_pod) {
            gate.leave(|life| life.runs_again(run));
        }
        // It may have exited while plugins were asked.
        self.tell_exit(pod, &id);
        Ok(Start(Some(starting)))
    }

    /// The operation of a start of a container that plugins know in this state.
    fn start_operation(&self, pod: &Arc<Pod>, state: State, stops_pod: bool, new_pod: Option<State>) -> Operation {
        let of_pod = if stops_pod { Prior::Stopped } else { new_pod.map_or(Prior::AsSaid, prior) };
        let was_shown = self.node.makes(Mistake::RestartIsShown);
        let container = if was_shown { Prior::Created } else { prior(state) };
        let operation = self.begin(pod).knowing(Known { pod: of_pod, container });
        if state != State::Stopped || self.node.makes(Mistake::RestartUndoneForAll) {
            return operation;
        }
        operation.undoing_start(stops_pod && !self.node.makes(Mistake::RestartLeavesPod))
    }

    /// Tells plugins of what ended before a start of a container, also if nobody waits for that any more.
    async fn catch_up(&self, id: &str, pod: &Arc<Pod>, run: Run) {
        let (ending, pod, id) = (Self { deadline: None, ..self.clone() }, Arc::clone(pod), id.to_owned());
        if let Some(run) = self.untold_exit(&id) {
            self.finish(async move { ending.end_exited(&pod, &id, run).await }).await;
        } else if self.space.is_podless && self.is_left(&id, &pod.id) {
            // Someone is about to tell that its pod has stopped, too. That is not to end the pod when it runs again.
            self.finish(async move { ending.end_pod(&pod, None, Goal::Stopped, run).await }).await.unwrap_or_default();
        }
    }

    /// Whether a pod that was made for a container runs, and the container does not.
    fn is_left(&self, id: &str, pod: &str) -> bool {
        let is_over = self.space.containers.read(id, |entry| entry.life.is_over()) == Some(true);
        is_over && self.space.pods.read(pod, |entry| entry.life.needs_stop()) == Some(true)
    }

    /// A pod that was made for a container starts with it: its end waits. Another pod must not have ended.
    async fn pod_gate<'a>(
        &'a self,
        id: &str,
        pod: &'a str,
        reins: &Weak<dyn Reins>,
    ) -> Result<Option<(State, Gate<'a, PodRest>)>, Error> {
        if self.space.is_podless {
            let asked = self.space.pods.gate(pod, reins, GateKind::Start).await.transpose();
            return asked.map_err(|refusal| Error::refused(refusal, Kind::Container, id));
        }
        match self.space.pods.read(pod, |entry| entry.life.is_over()) {
            Some(true) => Err(Error::PodEnded { id: id.to_owned(), pod: pod.to_owned() }),
            Some(false) | None => Ok(None),
        }
    }

    /// Begins to ask whether something may be done with a container. One that nobody knows of is entered, unless it was known.
    pub(crate) async fn gate<'a>(
        &'a self,
        id: &'a str,
        pod: &Pod,
        state: State,
        run: Run,
        kind: GateKind,
        reins: &Weak<dyn Reins>,
    ) -> Result<Asking<'a>, Error> {
        let mut entered = Entered::default();
        loop {
            match self.space.containers.gate(id, reins, kind).await {
                Some(begun) => {
                    let (state, gate) = begun.map_err(|refusal| Error::refused(refusal, Kind::Container, id))?;
                    return Ok(Asking { gate, state, entered });
                }
                None if self.space.presence(id) == Presence::Over => {
                    return Err(Error::Removed { kind: Kind::Container, id: id.to_owned() });
                }
                None => entered = self.space.enter_container(id, pod, state, run),
            }
        }
    }
}

impl Underway {
    /// Ends its operation. What that changes is so before.
    fn end_with(&mut self, change: impl FnOnce(&mut Life), end: impl FnOnce(Operation)) {
        if let (Some(id), Some(parked)) = (&self.container, self.parked.take()) {
            self.way.space.containers.end_parked(id, parked, change, end);
        }
    }
}
