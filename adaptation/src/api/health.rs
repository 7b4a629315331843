//! How a plugin is doing: a state machine that does no I/O and knows no clock.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How a plugin is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is asked, and waited for.
    Active,
    /// The plugin owes an answer that did not come in time, or has yet to hear what it missed
    /// meanwhile. Requests skip the plugin until it owes nothing and has heard everything.
    Silent,
    /// The plugin was silent too often, and its connection is kept. Requests skip the plugin until
    /// its last overdue answer has come, or until it answers a probe after a pause.
    Suspended,
    /// Its connection is gone.
    Closed,
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Active => "active",
            Self::Silent => "silent",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
        })
    }
}

/// What the policy says about a plugin that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How many strikes end its time.
    pub strikes: u32,
    /// Whether it is then suspended, not closed.
    pub keep_connected: bool,
    /// How long each silence may be until it is a strike: the request timeout.
    pub interval: Duration,
    /// How long the first suspension lasts if nothing ends it before.
    pub first_pause: Duration,
    /// The limit of that pause, which doubles from one suspension to the next.
    pub longest_pause: Duration,
}

/// Whether a plugin may be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Ask,
    /// It is passed over, because it is in this state.
    Pass(State),
}

/// What an input did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that anyone else need know.
    None,
    /// One more strike, and it is still in the state it was in.
    Strike,
    /// It is in another state now. To [`State::Closed`] means: close it.
    Became(State),
}

/// How one plugin is doing.
#[derive(Clone, Debug)]
pub struct Health {
    rules: Rules,
    state: State,
    strikes: u32,
    /// Answers that are late and still to come.
    overdue: usize,
    last_strike: Option<Instant>,
    /// How many times in a row the plugin was suspended without an answer in time.
    n_pauses: u32,
    /// When a suspended plugin may be tried again.
    resumes: Option<Instant>,
    /// One request tries a suspended plugin.
    trying: bool,
    /// The plugin was suspended twice without an answer in time in between: a late answer does not
    /// end this suspension before its pause is over.
    waits_out_pause: bool,
    /// All strikes that it ever had.
    struck: u64,
}

impl Health {
    /// A plugin that is doing well.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Active,
            strikes: 0,
            overdue: 0,
            last_strike: None,
            n_pauses: 0,
            resumes: None,
            trying: false,
            waits_out_pause: false,
            struck: 0,
        }
    }

    /// From now on these rules hold. What was counted so far still counts.
    pub fn follow(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// How many strikes it has.
    #[must_use]
    pub fn strikes(&self) -> u32 {
        self.strikes
    }

    /// How many strikes it ever had, those too that were cleared or ended its time.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.struck
    }

    /// Whether a request may ask it now. One that may ask a suspended plugin is its trial.
    pub fn gate(&mut self, now: Instant) -> Gate {
        match self.state {
            State::Active => Gate::Ask,
            State::Suspended if self.may_try(now) => {
                self.trying = true;
                Gate::Ask
            }
            State::Silent | State::Suspended | State::Closed => Gate::Pass(self.state),
        }
    }

    /// Whether a suspended plugin's pause is over, and nothing is in the way of a trial.
    #[must_use]
    pub fn may_try(&self, now: Instant) -> bool {
        self.state == State::Suspended
            && self.overdue == 0
            && !self.trying
            && self.resumes.is_none_or(|resumes| resumes <= now)
    }

    /// The request that might have asked it did not: it gave up before, or was too late itself.
    pub fn not_asked(&mut self) {
        self.trying = false;
    }

    /// The plugin answered in time. If that was its trial, the suspension ends; `is_even` says
    /// whether the plugin has heard everything that it missed.
    pub fn answered(&mut self, is_trial: bool, is_even: bool) -> Effect {
        if self.state == State::Closed {
            return Effect::None;
        }
        self.strikes = 0;
        self.n_pauses = 0;
        if !is_trial {
            return Effect::None;
        }
        self.resume(is_even)
    }

    /// Ends a suspension. A plugin that has yet to hear what it missed counts as silent.
    fn resume(&mut self, is_even: bool) -> Effect {
        (self.trying, self.resumes) = (false, None);
        let is_even = is_even && self.overdue == 0;
        self.become_state(if is_even { State::Active } else { State::Silent })
    }

    /// It answered that its own deadline had passed: a strike, but nothing is owed.
    pub fn gave_up(&mut self, now: Instant, is_trial: bool) -> Effect {
        if is_trial {
            return self.fail_trial(now);
        }
        self.strike(now)
    }

    /// An answer did not come in time, and is owed from now on.
    pub fn timed_out(&mut self, now: Instant, is_trial: bool) -> Effect {
        self.overdue += 1;
        if is_trial {
            return self.fail_trial(now);
        }
        let strike = self.strike(now);
        match (self.state, strike) {
            (State::Active, _) => self.become_state(State::Silent),
            _ => strike,
        }
    }

    /// Another interval of silence has passed.
    pub fn still_silent(&mut self, now: Instant) -> Effect {
        match self.state {
            State::Silent => self.strike(now),
            State::Active | State::Suspended | State::Closed => Effect::None,
        }
    }

    /// An overdue answer has come. The last one ends a suspension, unless the plugin was suspended
    /// again before it had answered anything in time; then its pause has to be over, too. The late
    /// answer clears no strikes. `is_even` as in [`Health::answered`].
    pub fn settled(&mut self, now: Instant, is_even: bool) -> Effect {
        self.overdue = self.overdue.saturating_sub(1);
        let waits = self.waits_out_pause && self.resumes.is_some_and(|resumes| resumes > now);
        if self.state == State::Suspended && self.overdue == 0 && !self.trying && !waits {
            return self.resume(is_even);
        }
        Effect::None
    }

    /// Returns when a suspended plugin may be tried, unless an overdue answer ends that before.
    #[must_use]
    pub fn resumes(&self) -> Option<Instant> {
        self.resumes.filter(|_| self.state == State::Suspended)
    }

    /// The plugin has joined before it has heard everything that it missed: it counts as silent
    /// until then, without a strike.
    pub fn falls_behind(&mut self) -> Effect {
        match self.state {
            State::Active => self.become_state(State::Silent),
            State::Silent | State::Suspended | State::Closed => Effect::None,
        }
    }

    /// Whether it may be told what it missed: no answer is overdue, and it is neither suspended nor
    /// closed.
    #[must_use]
    pub fn owes_nothing(&self) -> bool {
        self.overdue == 0 && matches!(self.state, State::Active | State::Silent)
    }

    /// It owes nothing and has been told what it missed: a silent plugin is active again.
    pub fn caught_up(&mut self) -> Effect {
        match (self.state, self.overdue) {
            (State::Silent, 0) => self.become_state(State::Active),
            _ => Effect::None,
        }
    }

    /// Its connection is gone, or is to be.
    pub fn close(&mut self) -> Effect {
        match self.state {
            State::Closed => Effect::None,
            State::Active | State::Silent | State::Suspended => self.become_state(State::Closed),
        }
    }

    /// Counts at most one strike in an interval, however many answers are overdue.
    fn strike(&mut self, now: Instant) -> Effect {
        let counted = self.last_strike.is_some_and(|last| now.saturating_duration_since(last) < self.rules.interval);
        if counted || matches!(self.state, State::Closed | State::Suspended) {
            return Effect::None;
        }
        self.last_strike = Some(now);
        self.strikes += 1;
        self.struck += 1;
        if self.strikes < self.rules.strikes {
            return Effect::Strike;
        }
        self.lose_patience(now)
    }

    fn fail_trial(&mut self, now: Instant) -> Effect {
        self.struck += 1;
        self.lose_patience(now)
    }

    fn lose_patience(&mut self, now: Instant) -> Effect {
        match self.rules.keep_connected {
            true => self.suspend(now),
            false => self.close(),
        }
    }

    fn suspend(&mut self, now: Instant) -> Effect {
        if self.state == State::Closed {
            return Effect::None;
        }
        self.trying = false;
        self.waits_out_pause = self.n_pauses > 0;
        self.resumes = Some(now + self.next_pause());
        self.n_pauses = self.n_pauses.saturating_add(1);
        self.become_state(State::Suspended)
    }

    /// Returns how long the next pause is, by the rules that hold now.
    fn next_pause(&self) -> Duration {
        let Rules { first_pause, longest_pause, .. } = self.rules;
        let times = 1_u32.checked_shl(self.n_pauses).unwrap_or(u32::MAX);
        first_pause.saturating_mul(times).min(longest_pause).max(first_pause)
    }

    fn become_state(&mut self, state: State) -> Effect {
        self.state = state;
        Effect::Became(state)
    }
}

#[cfg(test)]
mod tests;
