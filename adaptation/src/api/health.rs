//! The health of a plugin: a state machine that does no I/O and reads no clock.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// The health state of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The plugin is asked, and requests wait for its answers.
    Active,
    /// The plugin owes an answer that did not come in time, or has not received everything that it
    /// missed meanwhile. Requests skip the plugin until it owes nothing and has caught up.
    Silent,
    /// The plugin was silent too often, and its connection is kept. Requests skip the plugin until
    /// its last overdue answer has arrived, or until it answers a probe after a pause.
    Suspended,
    /// The connection of the plugin is closed.
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

/// The policy for a plugin that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The number of strikes after which the plugin is closed or suspended.
    pub strikes: u32,
    /// Whether the plugin is suspended instead of closed.
    pub keep_connected: bool,
    /// How long a silence may last before it counts as a strike: the request timeout.
    pub interval: Duration,
    /// How long the first suspension lasts, unless an answer ends the suspension earlier.
    pub first_pause: Duration,
    /// The limit of that pause. The pause doubles with each suspension.
    pub longest_pause: Duration,
}

/// Whether a request may ask the plugin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The request may ask the plugin.
    Ask,
    /// The request skips the plugin because of this state.
    Pass(State),
}

/// The effect of an input on the health of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that the caller has to act on.
    None,
    /// The plugin got a strike, and its state is unchanged.
    Strike,
    /// The state has changed. If the state is [`State::Closed`], the caller must close the plugin.
    Became(State),
}

/// The health of one plugin.
#[derive(Clone, Debug)]
pub struct Health {
    rules: Rules,
    state: State,
    strikes: u32,
    /// The number of overdue answers that have not arrived.
    overdue: usize,
    last_strike: Option<Instant>,
    /// How many times in a row the plugin was suspended without an answer in time.
    n_pauses: u32,
    /// When a suspended plugin may be probed.
    resumes: Option<Instant>,
    /// Whether a request is probing the suspended plugin.
    trying: bool,
    /// Whether the plugin was suspended twice without an answer in time in between. A late answer
    /// then does not end the suspension before its pause is over.
    waits_out_pause: bool,
    /// The number of strikes since the plugin joined.
    struck: u64,
}

impl Health {
    /// Creates the health of a plugin that is active and has no strikes.
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

    /// Replaces the rules. Strikes so far still count.
    pub fn follow(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Returns the state of the plugin.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the number of strikes that count towards the limit.
    #[must_use]
    pub fn strikes(&self) -> u32 {
        self.strikes
    }

    /// Returns the number of strikes since the plugin joined, including strikes that were cleared,
    /// and probes that failed.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.struck
    }

    /// Returns whether a request may ask the plugin now. If the plugin is suspended, the request
    /// becomes its probe.
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

    /// Returns whether a suspended plugin may be probed: its pause is over, no answer is overdue,
    /// and no other request probes it.
    #[must_use]
    pub fn may_try(&self, now: Instant) -> bool {
        self.state == State::Suspended
            && self.overdue == 0
            && !self.trying
            && self.resumes.is_none_or(|resumes| resumes <= now)
    }

    /// Cancels a probe: the request that [`Health::gate`] let through was not sent.
    pub fn not_asked(&mut self) {
        self.trying = false;
    }

    /// Handles an answer in time. If the request was the probe (`is_probe`), the suspension ends.
    /// `is_even` says whether the plugin has received everything that it missed.
    pub fn answered(&mut self, is_probe: bool, is_even: bool) -> Effect {
        if self.state == State::Closed {
            return Effect::None;
        }
        self.strikes = 0;
        self.n_pauses = 0;
        if !is_probe {
            return Effect::None;
        }
        self.resume(is_even)
    }

    /// Ends a suspension. A plugin that has not received everything that it missed becomes silent.
    fn resume(&mut self, is_even: bool) -> Effect {
        (self.trying, self.resumes) = (false, None);
        let is_even = is_even && self.overdue == 0;
        self.become_state(if is_even { State::Active } else { State::Silent })
    }

    /// Handles an answer which says that the plugin's own deadline has expired: a strike, without
    /// an overdue answer.
    pub fn gave_up(&mut self, now: Instant, is_probe: bool) -> Effect {
        if is_probe {
            return self.fail_trial(now);
        }
        self.strike(now)
    }

    /// Handles an answer that did not come in time. The answer is overdue from now on.
    pub fn timed_out(&mut self, now: Instant, is_probe: bool) -> Effect {
        self.overdue += 1;
        if is_probe {
            return self.fail_trial(now);
        }
        let strike = self.strike(now);
        match (self.state, strike) {
            (State::Active, _) => self.become_state(State::Silent),
            _ => strike,
        }
    }

    /// Handles another interval of silence.
    pub fn still_silent(&mut self, now: Instant) -> Effect {
        match self.state {
            State::Silent => self.strike(now),
            State::Active | State::Suspended | State::Closed => Effect::None,
        }
    }

    /// Handles an overdue answer that has arrived. The last one ends a suspension. If the plugin
    /// was suspended twice without an answer in time in between, the pause must be over as well. A
    /// late answer clears no strikes. `is_even` is as in [`Health::answered`].
    pub fn settled(&mut self, now: Instant, is_even: bool) -> Effect {
        self.overdue = self.overdue.saturating_sub(1);
        let waits = self.waits_out_pause && self.resumes.is_some_and(|resumes| resumes > now);
        if self.state == State::Suspended && self.overdue == 0 && !self.trying && !waits {
            return self.resume(is_even);
        }
        Effect::None
    }

    /// Returns when a suspended plugin may be probed, unless an overdue answer ends the suspension
    /// earlier.
    #[must_use]
    pub fn resumes(&self) -> Option<Instant> {
        self.resumes.filter(|_| self.state == State::Suspended)
    }

    /// Handles a plugin that joins before it has received everything that it missed. The plugin is
    /// silent until then, without a strike.
    pub fn falls_behind(&mut self) -> Effect {
        match self.state {
            State::Active => self.become_state(State::Silent),
            State::Silent | State::Suspended | State::Closed => Effect::None,
        }
    }

    /// Returns whether missed events may be delivered to the plugin: no answer is overdue, and the
    /// plugin is neither suspended nor closed.
    #[must_use]
    pub fn owes_nothing(&self) -> bool {
        self.overdue == 0 && matches!(self.state, State::Active | State::Silent)
    }

    /// Handles a plugin that has received everything that it missed. A silent plugin becomes
    /// active, unless an answer is overdue.
    pub fn caught_up(&mut self) -> Effect {
        match (self.state, self.overdue) {
            (State::Silent, 0) => self.become_state(State::Active),
            _ => Effect::None,
        }
    }

    /// Handles a connection that is closed or must be closed.
    pub fn close(&mut self) -> Effect {
        match self.state {
            State::Closed => Effect::None,
            State::Active | State::Silent | State::Suspended => self.become_state(State::Closed),
        }
    }

    /// Counts a strike, at most one per interval, however many answers are overdue.
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

    /// Returns the length of the next pause under the current rules.
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
