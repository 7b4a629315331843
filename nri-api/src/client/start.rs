//! Starts, the first one and others: what plugins are asked, and what becomes of it if a start fails.
//!
//! A start of what was created, or has stopped, begins a run. If it fails, the container is stopped, and those plugins are told so for which it is
//! not: after a first start, all that know it; after another one, those that saw StartContainer. A start of what runs begins no run, and
//! nothing becomes of it if it fails.

use std::sync::{Arc, Weak};

use nri_adaptation::{Known, Notice, Operation, Prior};
use nri_proto::{Container, ContainerState, Pod};

use crate::client::NamespaceClient;
use crate::client::guards::PendingChange;
use crate::error::{Error, ObjectKind};
use crate::lifecycle::namespace::{ContainerInfo, NewlyKnown, PodContainers, Presence};
use crate::lifecycle::revocable::{Revocable, Revoke};
use crate::lifecycle::state::{ApprovalKind, Completion, EndGoal, Lifecycle, RunId, State};
use crate::lifecycle::table::Approval;
use crate::mistake::Mistake;

/// A container that plugins let start. To drop it is to say that it did not: plugins for which it has not stopped are told that it has.
#[must_use = "a container that is not said to be started has failed"]
pub struct Start(pub(crate) Option<PendingStart>);

/// A start that is under way. Unless it succeeds, the container has stopped.
pub(crate) struct PendingStart {
    underway: PendingChange,
    run: RunId,
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
            (starting.underway.client.clone(), Arc::clone(&starting.underway.pod), starting.run)
        });
        async move {
            let Some((client, pod, run)) = done else { return Ok(()) };
            Box::pin(client.post(&pod, container, Completion::Start(run), Notice::PostStart)).await
        }
    }

    /// The container was started. Plugins are told by [`Handle::post_start_container`](crate::Handle::post_start_container).
    pub fn commit(self) {
        if let Some(mut starting) = self.0 {
            starting.succeeds();
        }
    }
}

impl PendingStart {
    fn succeeds(&mut self) {
        self.is_done = true;
        self.underway.succeeds();
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        let (run, client, pod) = (self.run, self.underway.client.clone(), Arc::clone(&self.underway.pod));
        let Some(id) = self.underway.container.clone().filter(|_| !self.is_done) else { return };
        let stops_running = client.instance.makes(Mistake::StartOfRunningStops);
        match self.prior {
            #[cfg(feature = "mistakes")]
            Some(State::Stopped) if client.instance.makes(Mistake::RestartUndoneForAll) => {
                self.underway.end(drop);
                client.namespace.containers.look(&id, |entry| entry.life.forget_stop(run));
                client.first_start_failed(pod, &id, run);
            }
            Some(State::Stopped) => self.underway.end_with(
                |life| life.start_undone(run),
                |operation| {
                    if client.namespace.is_podless {
                        client.namespace.pods.change(&pod.id, |life| life.start_undone(run));
                    }
                    // Those who saw the start are told by this. Whatever is asked about the pod from now on comes behind that.
                    drop(operation);
                },
            ),
            Some(State::Running) if stops_running => {
                client.namespace.containers.look(&id, |entry| entry.rest.note_exit(run, None));
                client.tell_exit(pod, &id);
            }
            Some(State::Running) => self.underway.end(drop),
            Some(State::Created) | None => {
                self.underway.end(drop);
                client.first_start_failed(pod, &id, run);
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
pub(crate) struct ApprovalRequest<'a> {
    pub(crate) gate: Approval<'a, ContainerInfo>,
    /// Where plugins know it to be.
    pub(crate) state: State,
    /// What this request made known.
    pub(crate) entered: NewlyKnown,
}

impl NamespaceClient {
    /// Begins to start a container.
    pub(crate) fn start(self, pod: Arc<Pod>, container: Container) -> Revocable<Start> {
        Revocable::new(self.deadline, |revoke| self.ask_to_start(pod, container, revoke))
    }

    async fn ask_to_start(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        revoke: Weak<dyn Revoke>,
    ) -> Result<Start, Error> {
        let id = container.id.clone();
        let run = self.namespace.containers.next_run();
        self.namespace.containers.look(&id, |entry| entry.life.start_called(run));
        let underway = PendingChange::new(&self, Arc::clone(&pod), Some(id.clone()));
        let mut starting = PendingStart { underway, run, prior: None, is_done: false };
        self.catch_up(&id, &pod, run).await;
        // The pod's before the container's: whoever ends both waits for them in this order, too.
        let of_pod = self.pod_gate(&id, &pod.id, &revoke).await?;
        let asking = self.gate(&id, &pod, State::Created, run, ApprovalKind::Start, &revoke).await?;
        let ApprovalRequest { gate, state, entered } = asking;
        let stops_pod = state == State::Stopped && of_pod.as_ref().is_some_and(|(state, _)| *state == State::Stopped);
        starting.prior = Some(state);
        self.namespace.containers.look(&id, |entry| entry.rest.is_restarted |= state == State::Stopped);
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
        let was_shown = self.instance.makes(Mistake::RestartIsShown);
        let container = if was_shown { Prior::Created } else { prior(state) };
        let operation = self.begin(pod).knowing(Known { pod: of_pod, container });
        if state != State::Stopped || self.instance.makes(Mistake::RestartUndoneForAll) {
            return operation;
        }
        operation.undoing_start(stops_pod && !self.instance.makes(Mistake::RestartLeavesPod))
    }

    /// Tells plugins of what ended before a start of a container, also if nobody waits for that any more.
    async fn catch_up(&self, id: &str, pod: &Arc<Pod>, run: RunId) {
        let (ending, pod, id) = (Self { deadline: None, ..self.clone() }, Arc::clone(pod), id.to_owned());
        if let Some(run) = self.untold_exit(&id) {
            self.finish(async move { ending.end_exited(&pod, &id, run).await }).await;
        } else if self.namespace.is_podless && self.is_left(&id, &pod.id) {
            // Someone is about to tell that its pod has stopped, too. That is not to end the pod when it runs again.
            self.finish(async move { ending.end_pod(&pod, None, EndGoal::Stopped, run).await })
                .await
                .unwrap_or_default();
        }
    }

    /// Whether a pod that was made for a container runs, and the container does not.
    fn is_left(&self, id: &str, pod: &str) -> bool {
        let is_over = self.namespace.containers.read(id, |entry| entry.life.is_over()) == Some(true);
        is_over && self.namespace.pods.read(pod, |entry| entry.life.needs_stop()) == Some(true)
    }

    /// A pod that was made for a container starts with it: its end waits. Another pod must not have ended.
    async fn pod_gate<'a>(
        &'a self,
        id: &str,
        pod: &'a str,
        revoke: &Weak<dyn Revoke>,
    ) -> Result<Option<(State, Approval<'a, PodContainers>)>, Error> {
        if self.namespace.is_podless {
            let asked = self.namespace.pods.gate(pod, revoke, ApprovalKind::Start).await.transpose();
            return asked.map_err(|refusal| Error::refused(refusal, ObjectKind::Container, id));
        }
        match self.namespace.pods.read(pod, |entry| entry.life.is_over()) {
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
        run: RunId,
        kind: ApprovalKind,
        revoke: &Weak<dyn Revoke>,
    ) -> Result<ApprovalRequest<'a>, Error> {
        let mut entered = NewlyKnown::default();
        loop {
            match self.namespace.containers.gate(id, revoke, kind).await {
                Some(begun) => {
                    let (state, gate) = begun.map_err(|refusal| Error::refused(refusal, ObjectKind::Container, id))?;
                    return Ok(ApprovalRequest { gate, state, entered });
                }
                None if self.namespace.presence(id) == Presence::Over => {
                    return Err(Error::Removed { kind: ObjectKind::Container, id: id.to_owned() });
                }
                None => entered = self.namespace.enter_container(id, pod, state, run),
            }
        }
    }
}

impl PendingChange {
    /// Ends its operation. What that changes is so before.
    fn end_with(&mut self, change: impl FnOnce(&mut Lifecycle), end: impl FnOnce(Operation)) {
        if let (Some(id), Some(parked)) = (&self.container, self.parked.take()) {
            self.client.namespace.containers.end_parked(id, parked, change, end);
        }
    }
}
