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
//!       └─────── Removing ◄──────────── Stopped ───► Created (started again)
//! ```

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

/// One life. Absent ones are not here.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    phase: Phase,
    /// How often it was started.
    runs: u64,
    /// How many claims were made whose request was not made yet. Until then nothing else may be claimed, or it could overtake that.
    pending: u32,
    /// How many times plugins are being asked whether it may be started or updated. Such a request may wait for a plugin before it has its place, so no end
    /// is claimed until it was answered.
    gates: u32,
    /// Whether plugins were told that it was created.
    create_posted: bool,
    /// Of which start plugins were told that it was done.
    start_posted: Option<Run>,
}

/// What is to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Stopped,
    Removed,
}

/// What is to be done next for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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

/// One of the times that it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run(u64);

/// What a start or an update is to do now. Plugins are to be asked at once, and that they [were](Life::gate_passed) is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateStep<T> {
    Ask(T),
    Wait,
    Refused(Refusal),
}

/// What plugins are told was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Create,
    Start(Run),
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

impl Life {
    /// One that is being created.
    pub(crate) fn creating() -> Self {
        Self::in_phase(Phase::Creating)
    }

    /// One that there is.
    pub(crate) fn known(state: State) -> Self {
        let phase = match state {
            State::Created => Phase::Created,
            State::Running => Phase::Running,
            State::Stopped => Phase::Stopped,
        };
        Self::in_phase(phase)
    }

    fn in_phase(phase: Phase) -> Self {
        Self { phase, runs: 0, pending: 0, gates: 0, create_posted: false, start_posted: None }
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

    /// It was created. False if that is not being done. Its operation is to be ended, and that to be [said](Life::asked).
    pub(crate) fn created(&mut self, state: State) -> bool {
        let was = self.is_creating();
        if was {
            self.phase = Self::known(state).phase;
        }
        self.ends_operation();
        was
    }

    /// An operation about it is being ended. Until that was [said](Life::asked), nothing is claimed: a plugin that joins after its end would hear of the operation.
    pub(crate) fn ends_operation(&mut self) {
        self.pending += 1;
    }

    /// Claims the next step to a goal. A step is to be [made](Life::asked) at once.
    pub(crate) fn claim(&mut self, goal: Goal) -> Step {
        let (phase, step) = match (self.phase, goal) {
            // Also if there is nothing left to do: whoever comes after that must come behind it.
            _ if self.pending > 0 || self.gates > 0 => return Step::Wait,
            (Phase::Creating | Phase::Removing, _) => return Step::Nothing,
            (Phase::Stopping { .. } | Phase::Stopped, Goal::Stopped) => return Step::Nothing,
            (Phase::Created, _) => (Phase::Stopping { was_running: false }, Step::Stop),
            (Phase::Running, _) => (Phase::Stopping { was_running: true }, Step::Stop),
            (Phase::Stopping { .. } | Phase::Stopped, Goal::Removed) => (Phase::Removing, Step::Remove),
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

    /// Whether its Remove was claimed.
    pub(crate) fn is_removing(&self) -> bool {
        self.phase == Phase::Removing
    }

    /// It is to be started, perhaps again.
    pub(crate) fn start(&mut self) -> GateStep<Run> {
        if let Some(step) = self.closed_gate() {
            return step;
        }
        if !self.needs_stop() {
            self.phase = Phase::Created;
        }
        self.gates += 1;
        self.runs += 1;
        GateStep::Ask(Run(self.runs))
    }

    /// It is to get new limits.
    pub(crate) fn update(&mut self) -> GateStep<()> {
        if let Some(step) = self.closed_gate() {
            return step;
        }
        self.gates += 1;
        GateStep::Ask(())
    }

    /// Why nothing may be done with it now.
    fn closed_gate<T>(&self) -> Option<GateStep<T>> {
        match self.phase {
            Phase::Creating => Some(GateStep::Refused(Refusal::BeingCreated)),
            Phase::Removing => Some(GateStep::Refused(Refusal::BeingRemoved)),
            _ if self.pending > 0 => Some(GateStep::Wait),
            Phase::Created | Phase::Running | Phase::Stopping { .. } | Phase::Stopped => None,
        }
    }

    /// Plugins were asked, or are not any more.
    pub(crate) fn gate_passed(&mut self) {
        self.gates = self.gates.saturating_sub(1);
    }

    /// Plugins let it be started.
    pub(crate) fn start_asked(&mut self, run: Run) {
        if self.is(run) && self.phase == Phase::Created {
            self.phase = Phase::Running;
        }
    }

    /// A pod that was made for a container which is started again runs again.
    pub(crate) fn run_again(&mut self) -> GateStep<()> {
        if let Some(step) = self.closed_gate() {
            return step;
        }
        self.phase = Phase::Running;
        GateStep::Ask(())
    }

    /// Whether this start is the last one, and it has not stopped since.
    pub(crate) fn runs(&self, run: Run) -> bool {
        self.is(run) && self.needs_stop()
    }

    /// The last time that it was started; or that it was there, for one that nobody saw start.
    pub(crate) fn last_run(&self) -> Run {
        Run(self.runs)
    }

    fn is(&self, run: Run) -> bool {
        self.runs == run.0
    }

    /// Claims that plugins are told what was done. To be [made](Life::asked) at once.
    pub(crate) fn post(&mut self, deed: Deed) -> PostStep {
        let is_late = match deed {
            Deed::Create => !self.needs_stop() || self.create_posted,
            Deed::Start(run) => !self.runs(run) || self.start_posted == Some(run),
            Deed::Update => matches!(self.phase, Phase::Creating | Phase::Removing),
        };
        if is_late {
            return PostStep::Drop;
        }
        if self.pending > 0 {
            return PostStep::Wait;
        }
        match deed {
            Deed::Create => self.create_posted = true,
            Deed::Start(run) => self.start_posted = Some(run),
            Deed::Update => {}
        }
        self.pending += 1;
        PostStep::Tell
    }
}
