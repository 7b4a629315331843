//! Where a pod or container is in its life, and what plugins may be told of it next. Pure: it knows no plugin, waits for nothing and asks for no time.
//!
//! ```text
//!             begin            created             start
//!   (absent) ──────► Creating ────────► Created ───────────► Running
//!       ▲               │                  │                    │
//!       │               │ failed           │ stop               │ stop
//!       │◄──────────────┘                  ▼                    ▼
//!       │                               Stopping ◄──────────────┘
//!       │       remove                     │ told
//!       └─────── Removing ◄──────────── Stopped ───► Running (started again, and plugins let it)
//! ```
//!
//! What is said of it is about one [`RunId`]: the last one that a start was called for when it is said. It never ends another one.

#[cfg(test)]
mod tests;

/// Where a pod or container is in its life, as plugins know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It exists, and was not started.
    Created,
    /// It was started; a frozen one too.
    Running,
    /// It has ended, and was not removed.
    Stopped,
}

/// The same, with what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Plugins are asked, or the runtime is at it. Nobody is shown it.
    Creating,
    Created,
    Running,
    /// Its Stop was claimed: nobody else makes it. It is shown until that was told.
    Stopping {
        was_running: bool,
    },
    Stopped,
    /// Its Remove was claimed.
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

/// One life. Absent ones are not here.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    /// The run that it is in, or was in last. Its beginning counts as one.
    run: RunId,
    /// The last run that a start was called for: what is said of it now is about that.
    called: RunId,
    /// The last start that plugins let be. It has begun a run unless it already ran.
    started: RunId,
    /// How many claims were made whose request was not made yet. Until then nothing else may be claimed, or it could overtake that.
    pending: u32,
    /// How many times plugins are being asked whether it may be started or updated. Such a request may wait for a plugin before it has its place, so no end
    /// is claimed until it was answered.
    gates: u32,
    /// How many of those are starts. What its words are to say of its state is known when they were answered.
    starts: u32,
    /// Whether the runtime has asked for its Remove. Plugins may not have been told yet.
    is_to_remove: bool,
    /// Whether plugins were told that it was created.
    create_posted: bool,
    /// Of which start plugins were told that it was done.
    start_posted: Option<RunId>,
}

/// What is to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndGoal {
    Stopped,
    Removed,
}

/// What is to be done next for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndStep {
    /// The Stop is the caller's to make.
    Stop,
    /// The Remove is the caller's to make.
    Remove,
    /// Look again when the request was made that is about to be.
    Wait,
    /// Nothing: someone else has seen to it, or nobody knows of it.
    Nothing,
}

/// Why something cannot be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    BeingCreated,
    BeingRemoved,
}

/// One of the times that it runs: which start was called for it, among all in the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(pub(crate) u64);

impl RunId {
    /// Whichever is the last one.
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// What plugins are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalKind {
    Start,
    Update,
}

/// What a start or an update is to do now. Plugins are to be asked at once, and that they [were](Lifecycle::gate_passed) is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalStep<T> {
    Ask(T),
    Wait,
    Refused(Refusal),
}

/// What plugins are told was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    Create,
    Start(RunId),
    Update,
}

/// What a notice of what was done is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostStep {
    Tell,
    Wait,
    /// It is too late for it, or was told.
    Drop,
}

impl Lifecycle {
    /// One that is being created.
    pub(crate) fn creating(run: RunId) -> Self {
        Self::in_phase(Phase::Creating, run)
    }

    /// One that there is.
    pub(crate) fn known(state: State, run: RunId) -> Self {
        Self::in_phase(Phase::of(state), run)
    }

    fn in_phase(phase: Phase, run: RunId) -> Self {
        Self {
            phase,
            run,
            called: run,
            started: run,
            pending: 0,
            gates: 0,
            starts: 0,
            is_to_remove: false,
            create_posted: false,
            start_posted: None,
        }
    }

    /// Where it is. One that is being created is nowhere yet.
    pub(crate) fn state(&self) -> Option<State> {
        match self.phase {
            Phase::Creating => None,
            Phase::Created | Phase::Stopping { was_running: false } => Some(State::Created),
            Phase::Running | Phase::Stopping { was_running: true } => Some(State::Running),
            Phase::Stopped | Phase::Removing => Some(State::Stopped),
        }
    }

    /// Where it will be, as plugins know it, when they have been told all that was claimed up to now.
    pub(crate) fn told_state(&self) -> Option<State> {
        match self.phase {
            Phase::Stopping { .. } => Some(State::Stopped),
            Phase::Creating | Phase::Created | Phase::Running | Phase::Stopped | Phase::Removing => self.state(),
        }
    }

    /// How a plugin that joins is shown it, if it is.
    pub(crate) fn shown(&self) -> Option<State> {
        self.state().filter(|state| *state != State::Stopped)
    }

    pub(crate) fn is_creating(&self) -> bool {
        self.phase == Phase::Creating
    }

    /// Whether its Stop is still to be claimed.
    pub(crate) fn needs_stop(&self) -> bool {
        matches!(self.phase, Phase::Created | Phase::Running)
    }

    /// Whether nothing may begin in it any more.
    pub(crate) fn is_over(&self) -> bool {
        !self.needs_stop() && !self.is_creating()
    }

    /// Why there cannot be another one.
    pub(crate) fn in_the_way(&self) -> Refusal {
        match self.phase {
            Phase::Creating => Refusal::BeingCreated,
            Phase::Removing => Refusal::BeingRemoved,
            Phase::Created | Phase::Running | Phase::Stopping { .. } | Phase::Stopped => Refusal::Exists,
        }
    }

    /// It was created. False if that is not being done. Its operation is to be ended, and that to be [said](Lifecycle::asked).
    pub(crate) fn created(&mut self, state: State) -> bool {
        let was = self.is_creating();
        if was {
            self.phase = Phase::of(state);
        }
        self.ends_operation();
        was
    }

    /// An operation about it is being ended. Until that was [said](Lifecycle::asked), nothing is claimed: a plugin that joins after its end would hear of the operation.
    pub(crate) fn ends_operation(&mut self) {
        self.pending += 1;
    }

    /// Claims the next step to a goal, as was said of this run. A step is to be [made](Lifecycle::asked) at once.
    pub(crate) fn claim(&mut self, goal: EndGoal, said: RunId) -> EndStep {
        let (phase, step) = match (self.phase, goal) {
            // Also if there is nothing left to do: whoever comes after that must come behind it.
            _ if self.pending > 0 || self.gates > 0 => return EndStep::Wait,
            (Phase::Creating | Phase::Removing, _) => return EndStep::Nothing,
            (Phase::Stopping { .. } | Phase::Stopped, EndGoal::Stopped) => return EndStep::Nothing,
            // Another run has begun since that was said.
            (Phase::Created | Phase::Running, EndGoal::Stopped) if self.run > said => return EndStep::Nothing,
            (Phase::Created, _) => (Phase::Stopping { was_running: false }, EndStep::Stop),
            (Phase::Running, _) => (Phase::Stopping { was_running: true }, EndStep::Stop),
            (Phase::Stopping { .. } | Phase::Stopped, EndGoal::Removed) => (Phase::Removing, EndStep::Remove),
        };
        self.phase = phase;
        self.pending += 1;
        step
    }

    /// What was claimed is asked now, or an operation has ended: whatever is asked from now on comes behind it.
    pub(crate) fn asked(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// Its Stop was told.
    pub(crate) fn stop_told(&mut self) {
        if let Phase::Stopping { .. } = self.phase {
            self.phase = Phase::Stopped;
        }
    }

    /// Notes that the runtime asks for the Remove of this object.
    pub(crate) fn remove_asked(&mut self) {
        self.is_to_remove = true;
    }

    /// Whether plugins were told of the end of this object, and nothing more of its end is to be told. A restart that failed ends with
    /// its operation: only then has its undo a place among the requests about the pod.
    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Stopped && self.starts == 0 && self.pending == 0 && !self.is_to_remove
    }

    /// Whether its Remove was claimed.
    pub(crate) fn is_removing(&self) -> bool {
        self.phase == Phase::Removing
    }

    /// A start is called, which may begin this run.
    pub(crate) fn start_called(&mut self, run: RunId) {
        self.called = self.called.max(run);
    }

    /// The run that what is said now is about.
    pub(crate) fn said(&self) -> RunId {
        self.called
    }

    /// The run that it is in, or was in last.
    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// Whether an end that was said of this run is still to be told.
    pub(crate) fn is_to_end(&self, run: RunId) -> bool {
        self.needs_stop() && run >= self.run
    }

    /// Whether an exit that is said now may be one that plugins are to hear of: of what has ended it is not, unless it is being started.
    pub(crate) fn may_exit(&self) -> bool {
        !self.is_over() || self.called > self.run
    }

    /// It is to be started, perhaps again. Plugins know it in this state, and do so until they were asked: what they are being asked
    /// about it already comes before.
    pub(crate) fn start(&mut self) -> ApprovalStep<State> {
        if self.gates > 0 {
            return ApprovalStep::Wait;
        }
        self.gate(ApprovalKind::Start)
    }

    /// It is to get new limits. Plugins know it in this state.
    pub(crate) fn update(&mut self) -> ApprovalStep<State> {
        if self.starts > 0 {
            return ApprovalStep::Wait;
        }
        self.gate(ApprovalKind::Update)
    }

    fn gate(&mut self, kind: ApprovalKind) -> ApprovalStep<State> {
        if let Some(step) = self.closed_gate() {
            return step;
        }
        let Some(state) = self.told_state() else { return ApprovalStep::Refused(Refusal::BeingCreated) };
        self.gates += 1;
        self.starts += u32::from(kind == ApprovalKind::Start);
        ApprovalStep::Ask(state)
    }

    /// Why nothing may be done with it now.
    fn closed_gate<T>(&self) -> Option<ApprovalStep<T>> {
        match self.phase {
            Phase::Creating => Some(ApprovalStep::Refused(Refusal::BeingCreated)),
            Phase::Removing => Some(ApprovalStep::Refused(Refusal::BeingRemoved)),
            _ if self.pending > 0 => Some(ApprovalStep::Wait),
            Phase::Created | Phase::Running | Phase::Stopping { .. } | Phase::Stopped => None,
        }
    }

    /// Plugins were asked, or are not any more.
    pub(crate) fn gate_passed(&mut self, kind: ApprovalKind) {
        self.gates = self.gates.saturating_sub(1);
        self.starts = self.starts.saturating_sub(u32::from(kind == ApprovalKind::Start));
    }

    /// Plugins let it be started. That begins a run, unless it runs: true if it does.
    pub(crate) fn start_asked(&mut self, run: RunId) -> bool {
        self.started = run;
        let begins = self.phase != Phase::Running;
        if begins {
            self.runs_again(run);
        }
        begins
    }

    /// It is in this run from now on.
    pub(crate) fn runs_again(&mut self, run: RunId) {
        (self.phase, self.run) = (Phase::Running, run);
    }

    /// A start of what had stopped came to nothing: it has stopped, as before. Those who saw the start are told so by whoever says this.
    pub(crate) fn start_undone(&mut self, run: RunId) {
        if self.phase == Phase::Running && self.run == run {
            self.phase = Phase::Stopped;
        }
    }

    /// A first start came to nothing. True if all plugins are to be told that it has stopped.
    pub(crate) fn first_start_failed(&self, run: RunId) -> bool {
        // While plugins are asked about another start, its outcome decides.
        let is_not_started = self.phase == Phase::Created && self.starts == 0;
        is_not_started || (self.phase == Phase::Running && self.run == run)
    }

    /// Makes it one that was created, as was once done wrong.
    #[cfg(feature = "mistakes")]
    pub(crate) fn forget_stop(&mut self, run: RunId) {
        (self.phase, self.run) = (Phase::Created, run);
    }

    /// Whether this start is the last one, and it has not stopped since.
    pub(crate) fn runs(&self, start: RunId) -> bool {
        self.started == start && self.needs_stop()
    }

    /// The last start; or its beginning, for one that nobody saw start.
    pub(crate) fn last_start(&self) -> RunId {
        self.started
    }

    /// Claims that plugins are told what was done. To be [made](Lifecycle::asked) at once.
    pub(crate) fn post(&mut self, deed: Completion) -> PostStep {
        let is_late = match deed {
            Completion::Create => !self.needs_stop() || self.create_posted,
            Completion::Start(run) => !self.runs(run) || self.start_posted == Some(run),
            Completion::Update => matches!(self.phase, Phase::Creating | Phase::Removing),
        };
        if is_late {
            return PostStep::Drop;
        }
        if self.pending > 0 || self.starts > 0 {
            return PostStep::Wait;
        }
        match deed {
            Completion::Create => self.create_posted = true,
            Completion::Start(run) => self.start_posted = Some(run),
            Completion::Update => {}
        }
        self.pending += 1;
        PostStep::Tell
    }
}
