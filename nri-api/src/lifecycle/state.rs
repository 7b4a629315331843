//! The state machine of one pod or container: what plugins know of it, and what they may be told
//! next.
//!
//! The machine is pure: it knows no plugin, never waits and reads no clock.
//!
//! ```text
//!             begin            created             start
//!   (absent) ──────► Creating ────────► Created ───────────► Running
//!       ▲               │                  │                    │
//!       │               │ failed           │ stop               │ stop
//!       │◄──────────────┘                  ▼                    ▼
//!       │                               Stopping ◄──────────────┘
//!       │       remove                     │ told
//!       └─────── Removing ◄──────────── Stopped ───► Running (restarted, and plugins approved)
//! ```
//!
//! An end that the runtime reports (an exit or a stop) belongs to one [run](RunId): the last run
//! for which a start was called before the report. The report never ends a later run.

#[cfg(test)]
mod tests;

use super::steps::{ApprovalKind, ApprovalStep, Completion, EndGoal, EndStep, PostStep, Refusal, RunId};

/// The state of a pod or container, as plugins know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The object exists and was not started. A pod is never in this state.
    Created,
    /// The object was started. A paused container counts as running.
    Running,
    /// The object has ended and was not removed.
    Stopped,
}

/// The state of an object, including the transitions that are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Plugins are asked, or the runtime is creating the object. Snapshots do not show the object.
    Creating,
    Created,
    Running,
    /// A caller has claimed the Stop. Snapshots show the object until the Stop is delivered.
    Stopping {
        was_running: bool,
    },
    Stopped,
    /// A caller has claimed the Remove.
    Removing,
}

impl Phase {
    fn of(state: State) -> Self {
        match state {
            State::Created => Self::Created,
            State::Running => Self::Running,
            State::Stopped => Self::Stopped,
        }
    }
}

/// The state machine of one object. An absent object has none.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    /// The creation, which counts as a run. Another object of the same id has another one.
    creation: RunId,
    /// The current run, or the last run if the object has stopped. The creation counts as a run.
    run: RunId,
    /// The last run for which a start was called. An end that is reported now belongs to this run.
    last_call: RunId,
    /// Calls to start the object that have neither succeeded nor failed yet. Each may begin a run.
    start_calls: Vec<RunId>,
    /// The last start that plugins approved. It began a run unless the object was running already.
    last_start: RunId,
    /// Claimed requests that are not sent yet, and operations that are about to end. Until the
    /// count is zero nothing else is claimed: a later request could overtake an earlier one.
    holds: u32,
    /// Starts and updates that plugins are being asked about. Such a request may wait for a plugin
    /// before it has its place in the queue, so no end is claimed before the request is answered.
    open_approvals: u32,
    /// How many of the open approvals are starts. The state of the object is known after them.
    open_starts: u32,
    /// Whether the runtime has requested the Remove. The Remove may not be claimed yet.
    is_remove_requested: bool,
    /// Whether PostCreateContainer was claimed.
    is_create_posted: bool,
    /// The last start for which PostStartContainer was claimed.
    posted_start: Option<RunId>,
}

impl Lifecycle {
    /// Returns the state machine of an object that is being created.
    pub(crate) fn creating(run: RunId) -> Self {
        Self::in_phase(Phase::Creating, run)
    }

    /// Returns the state machine of an object that exists.
    pub(crate) fn known(state: State, run: RunId) -> Self {
        Self::in_phase(Phase::of(state), run)
    }

    fn in_phase(phase: Phase, run: RunId) -> Self {
        Self {
            phase,
            creation: run,
            run,
            last_call: run,
            start_calls: Vec::new(),
            last_start: run,
            holds: 0,
            open_approvals: 0,
            open_starts: 0,
            is_remove_requested: false,
            is_create_posted: false,
            posted_start: None,
        }
    }

    /// Returns the state that plugins know. An object that is being created has none yet.
    pub(crate) fn state(&self) -> Option<State> {
        match self.phase {
            Phase::Creating => None,
            Phase::Created | Phase::Stopping { was_running: false } => Some(State::Created),
            Phase::Running | Phase::Stopping { was_running: true } => Some(State::Running),
            Phase::Stopped | Phase::Removing => Some(State::Stopped),
        }
    }

    /// Returns the state that plugins will know after everything claimed so far is delivered.
    pub(crate) fn state_after_claims(&self) -> Option<State> {
        match self.phase {
            Phase::Stopping { .. } => Some(State::Stopped),
            Phase::Creating | Phase::Created | Phase::Running | Phase::Stopped | Phase::Removing => self.state(),
        }
    }

    /// Returns the state in which a snapshot shows the object, or `None` if it hides the object.
    pub(crate) fn snapshot_state(&self) -> Option<State> {
        self.state().filter(|state| *state != State::Stopped)
    }

    pub(crate) fn is_creating(&self) -> bool {
        self.phase == Phase::Creating
    }

    /// Returns whether the object exists and its Stop is not claimed yet.
    pub(crate) fn needs_stop(&self) -> bool {
        matches!(self.phase, Phase::Created | Phase::Running)
    }

    /// Returns whether the Stop is claimed: nothing may be created or started in a pod that is
    /// over.
    pub(crate) fn is_over(&self) -> bool {
        !self.needs_stop() && !self.is_creating()
    }

    /// Returns why another object of the same id cannot be created.
    pub(crate) fn create_refusal(&self) -> Refusal {
        match self.phase {
            Phase::Creating => Refusal::BeingCreated,
            Phase::Removing => Refusal::BeingRemoved,
            Phase::Created | Phase::Running | Phase::Stopping { .. } | Phase::Stopped => Refusal::Exists,
        }
    }

    /// Marks the object as created. The caller ends the operation and then calls
    /// [`release`](Self::release). Returns false if the object was not being created.
    pub(crate) fn mark_created(&mut self, state: State) -> bool {
        let was_creating = self.is_creating();
        if was_creating {
            self.phase = Phase::of(state);
        }
        self.hold();
        was_creating
    }

    /// Prevents claims while an operation about the object is being ended, until
    /// [`release`](Self::release). Otherwise a plugin that joins after the object's end could still
    /// hear of the operation.
    pub(crate) fn hold(&mut self) {
        self.holds += 1;
    }

    /// Releases one hold: a claimed request was sent, or an operation has ended. Requests that
    /// follow are queued behind it.
    pub(crate) fn release(&mut self) {
        self.holds = self.holds.saturating_sub(1);
    }

    /// Claims the next step towards `goal`, for an end that was reported of the run `reported`.
    /// The caller sends the claimed request at once and then calls [`release`](Self::release).
    pub(crate) fn claim_end(&mut self, goal: EndGoal, reported: RunId) -> EndStep {
        let (phase, step) = match (self.phase, goal) {
            // Also if nothing is left to do: the next caller must be queued behind the request that
            // is about to be sent.
            _ if self.holds > 0 || self.open_approvals > 0 => return EndStep::Wait,
            (Phase::Creating | Phase::Removing, _) => return EndStep::Nothing,
            (Phase::Stopping { .. } | Phase::Stopped, EndGoal::Stopped) => return EndStep::Nothing,
            // A later run has begun since the report.
            (Phase::Created | Phase::Running, EndGoal::Stopped) if self.run > reported => return EndStep::Nothing,
            (Phase::Created, _) => (Phase::Stopping { was_running: false }, EndStep::Stop),
            (Phase::Running, _) => (Phase::Stopping { was_running: true }, EndStep::Stop),
            (Phase::Stopping { .. } | Phase::Stopped, EndGoal::Removed) => (Phase::Removing, EndStep::Remove),
        };
        self.phase = phase;
        self.hold();
        step
    }

    /// Records that the Stop was delivered to plugins.
    pub(crate) fn stop_delivered(&mut self) {
        if let Phase::Stopping { .. } = self.phase {
            self.phase = Phase::Stopped;
        }
    }

    /// Records that the runtime requests the Remove of the object.
    pub(crate) fn request_remove(&mut self) {
        self.is_remove_requested = true;
    }

    /// Returns whether plugins were told of the end of the object, and no other end is to be
    /// delivered.
    ///
    /// A failed restart has ended when its operation has ended: only then the rollback has a place
    /// in the queue of the pod.
    pub(crate) fn is_end_delivered(&self) -> bool {
        self.phase == Phase::Stopped && self.open_starts == 0 && self.holds == 0 && !self.is_remove_requested
    }

    /// Returns whether the Remove is claimed.
    pub(crate) fn is_removing(&self) -> bool {
        self.phase == Phase::Removing
    }

    /// Records a call to start the object, which may begin this run.
    pub(crate) fn record_start_call(&mut self, run: RunId) {
        self.last_call = self.last_call.max(run);
        self.start_calls.push(run);
    }

    /// Records that a call to start the object has succeeded or failed.
    pub(crate) fn start_call_ended(&mut self, run: RunId) {
        self.start_calls.retain(|call| *call != run);
    }

    /// Whether a call to start the object has neither succeeded nor failed yet.
    pub(crate) fn is_being_started(&self) -> bool {
        !self.start_calls.is_empty()
    }

    /// Returns the run to which an end belongs that is reported now.
    pub(crate) fn reported_run(&self) -> RunId {
        self.last_call
    }

    /// Returns the run that stands for the creation of the object. Another object of the same id
    /// has another one.
    pub(crate) fn creation(&self) -> RunId {
        self.creation
    }

    /// Returns the current run, or the last run if the object has stopped.
    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// Returns whether the Stop for an end that was reported of this run is not claimed yet.
    pub(crate) fn run_needs_stop(&self, run: RunId) -> bool {
        self.needs_stop() && run >= self.run
    }

    /// Returns whether plugins may have to be notified of an exit that is reported now: the object
    /// has not ended, or it is being started again.
    pub(crate) fn can_exit(&self) -> bool {
        !self.is_over() || self.is_being_started()
    }

    /// Whether an end that was reported of this run may still be told as a Stop, or was claimed and
    /// is about to be told.
    pub(crate) fn may_tell_end(&self, run: RunId) -> bool {
        let is_to_stop = match self.phase {
            Phase::Creating | Phase::Stopping { .. } => true,
            Phase::Created | Phase::Running => run >= self.run,
            Phase::Stopped | Phase::Removing => false,
        };
        is_to_stop || self.start_calls.iter().any(|call| *call <= run)
    }

    /// Begins to ask plugins about a start. The step contains the state that plugins know.
    ///
    /// Waits for all requests about the object that plugins are being asked about.
    pub(crate) fn request_start(&mut self) -> ApprovalStep<State> {
        if self.open_approvals > 0 {
            return ApprovalStep::Wait;
        }
        self.begin_approval(ApprovalKind::Start)
    }

    /// Begins to ask plugins about new limits. The step contains the state that plugins know.
    pub(crate) fn request_update(&mut self) -> ApprovalStep<State> {
        if self.open_starts > 0 {
            return ApprovalStep::Wait;
        }
        self.begin_approval(ApprovalKind::Update)
    }

    fn begin_approval(&mut self, kind: ApprovalKind) -> ApprovalStep<State> {
        match self.phase {
            Phase::Creating => return ApprovalStep::Refused(Refusal::BeingCreated),
            Phase::Removing => return ApprovalStep::Refused(Refusal::BeingRemoved),
            _ if self.holds > 0 => return ApprovalStep::Wait,
            Phase::Created | Phase::Running | Phase::Stopping { .. } | Phase::Stopped => {}
        }
        let Some(state) = self.state_after_claims() else { return ApprovalStep::Refused(Refusal::BeingCreated) };
        self.open_approvals += 1;
        self.open_starts += u32::from(kind == ApprovalKind::Start);
        ApprovalStep::Ask(state)
    }

    /// Records that plugins have answered a start or an update, or that the caller has left.
    pub(crate) fn approval_ended(&mut self, kind: ApprovalKind) {
        self.open_approvals = self.open_approvals.saturating_sub(1);
        self.open_starts = self.open_starts.saturating_sub(u32::from(kind == ApprovalKind::Start));
    }

    /// Records that plugins approved a start. Returns whether the start begins a run: it does
    /// unless the object is running.
    pub(crate) fn start_approved(&mut self, run: RunId) -> bool {
        self.last_start = run;
        let begins = self.phase != Phase::Running;
        if begins {
            self.begin_run(run);
        }
        begins
    }

    /// Marks the object as running, in this run.
    pub(crate) fn begin_run(&mut self, run: RunId) {
        (self.phase, self.run) = (Phase::Running, run);
    }

    /// Rolls a failed restart back: the object is stopped again. The caller notifies the plugins
    /// that saw the start.
    pub(crate) fn undo_start(&mut self, run: RunId) {
        if self.phase == Phase::Running && self.run == run {
            self.phase = Phase::Stopped;
        }
    }

    /// Returns whether all plugins have to be sent a Stop because the first start has failed.
    pub(crate) fn needs_stop_after_failed_start(&self, run: RunId) -> bool {
        // If plugins are being asked about another start, the outcome of that start decides.
        let is_not_started = self.phase == Phase::Created && self.open_starts == 0;
        is_not_started || (self.phase == Phase::Running && self.run == run)
    }

    /// Returns whether PostStartContainer may be sent for this start: it belongs to the current
    /// run, the object has not stopped since, and no PostStartContainer was claimed for it or for a
    /// later start. The start of a running object begins no run, and does not use up the
    /// PostStartContainer of the start that began the run.
    fn may_post_start(&self, start: RunId) -> bool {
        self.needs_stop() && start >= self.run && self.posted_start.is_none_or(|posted| posted < start)
    }

    /// Returns the last start, or the creation if plugins saw no start.
    pub(crate) fn last_start(&self) -> RunId {
        self.last_start
    }

    /// Claims a Post event. The caller sends the event at once and then calls
    /// [`release`](Self::release).
    pub(crate) fn claim_post(&mut self, completion: Completion) -> PostStep {
        let is_outdated = match completion {
            Completion::Create => !self.needs_stop() || self.is_create_posted,
            Completion::Start(run) => !self.may_post_start(run),
            Completion::Update => matches!(self.phase, Phase::Creating | Phase::Removing),
        };
        if is_outdated {
            return PostStep::Drop;
        }
        if self.holds > 0 || self.open_starts > 0 {
            return PostStep::Wait;
        }
        match completion {
            Completion::Create => self.is_create_posted = true,
            Completion::Start(run) => self.posted_start = Some(run),
            Completion::Update => {}
        }
        self.hold();
        PostStep::Tell
    }
}
