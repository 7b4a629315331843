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

/// What a start is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartStep {
    Start(Run),
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
    /// It is too late for it.
    Drop,
}

impl Life {
    /// One that is being created.
    pub(crate) fn creating() -> Self {
        Self { phase: Phase::Creating, runs: 0, pending: 0 }
    }

    /// One that there is.
    pub(crate) fn known(state: State) -> Self {
        let phase = match state {
            State::Created => Phase::Created,
            State::Running => Phase::Running,
            State::Stopped => Phase::Stopped,
        };
        Self { phase, runs: 0, pending: 0 }
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

    /// Whether an exit of it is news.
    pub(crate) fn may_exit(&self) -> bool {
        self.needs_stop() || self.is_creating()
    }

    /// Why there cannot be another one.
    pub(crate) fn in_the_way(&self) -> Refusal {
        match self.phase {
            Phase::Creating => Refusal::BeingCreated,
            Phase::Removing => Refusal::BeingRemoved,
            Phase::Created | Phase::Running | Phase::Stopping { .. } | Phase::Stopped => Refusal::Exists,
        }
    }

    /// It was created. False if that is not being done.
    pub(crate) fn created(&mut self, state: State) -> bool {
        let was = self.is_creating();
        if was {
            self.phase = Self::known(state).phase;
        }
        was
    }

    /// Claims the next step to a goal. A step is to be [made](Life::asked) at once.
    pub(crate) fn claim(&mut self, goal: Goal) -> Step {
        let (phase, step) = match (self.phase, goal) {
            // Also if there is nothing left to do: whoever comes after that must come behind it.
            _ if self.pending > 0 => return Step::Wait,
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

    /// What was claimed is asked now: whatever is asked from now on comes behind it.
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
    pub(crate) fn start(&mut self) -> StartStep {
        match self.phase {
            Phase::Creating => return StartStep::Refused(Refusal::BeingCreated),
            Phase::Removing => return StartStep::Refused(Refusal::BeingRemoved),
            _ if self.pending > 0 => return StartStep::Wait,
            Phase::Stopping { .. } | Phase::Stopped => self.phase = Phase::Created,
            Phase::Created | Phase::Running => {}
        }
        self.runs += 1;
        StartStep::Start(Run(self.runs))
    }

    /// Plugins let it be started.
    pub(crate) fn start_asked(&mut self, run: Run) {
        if self.is(run) && self.phase == Phase::Created {
            self.phase = Phase::Running;
        }
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
            Deed::Create => !self.needs_stop(),
            Deed::Start(run) => !self.runs(run),
            Deed::Update => matches!(self.phase, Phase::Creating | Phase::Removing),
        };
        if is_late {
            return PostStep::Drop;
        }
        if self.pending > 0 {
            return PostStep::Wait;
        }
        self.pending += 1;
        PostStep::Tell
    }
}
