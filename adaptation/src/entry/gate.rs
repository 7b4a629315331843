//! Whether a plugin may be asked now, and waiting until it may.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Entry, Lane, Part, Stage, Standing};
use crate::cause::Cause;
use crate::health::{Gate, State};
use crate::policy::Policy;
use crate::request::Request;

/// Whether a request may ask a plugin.
enum Pass {
    Ask {
        is_trial: bool,
    },
    Wait,
    /// What was asked about the pod before has to be told first.
    Behind,
    Over(State),
}

impl Standing {
    /// Whether something about the pod has to be heard first, and waits for the end of an operation.
    fn is_behind(&self, request: &Request) -> bool {
        !self.journal.is_empty() && self.journal.holds(&request.pod().id)
    }
}

impl Entry {
    /// Waits for the lane, until `cut` at most. Whoever may not ask now, or any more, is told at once.
    pub(super) async fn enter(
        self: &Arc<Self>,
        request: &Arc<Request>,
        part: Part<'_>,
        policy: &Policy,
        cut: Option<Instant>,
    ) -> Result<(Lane, bool), Cause> {
        let begun = Instant::now();
        let limit = begun + policy.lane_timeout;
        let (limit, cause) = match cut.filter(|cut| *cut < limit) {
            Some(cut) => (cut, Cause::CutShort),
            None => (limit, Cause::Busy),
        };
        loop {
            if part.is_moot(self) {
                // It has not even heard of the beginning.
                return Err(Cause::Behind);
            }
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_trial = match self.pass(request, part) {
                Pass::Ask { is_trial } => Some(is_trial),
                Pass::Wait => None,
                Pass::Behind => {
                    self.pass_over(request, part);
                    return Err(Cause::Behind);
                }
                Pass::Over(state) => return Err(Cause::PassedOver(state)),
            };
            let trial = Trial { entry: self, is_trial: is_trial == Some(true) };
            // With no time left, not even a free lane is taken.
            let is_over = cut.is_some_and(|cut| cut <= begun);
            tokio::select! {
                biased;
                () = &mut changed => {}
                lane = self.lanes.one(policy.concurrency, &request.pod().id), if is_trial.is_some() && !is_over => {
                    // It may have become silent while this one waited, or have missed something.
                    let may_ask = trial.is_trial || self.may_ask(request);
                    if may_ask && !part.is_moot(self) {
                        return Ok((lane, trial.begins()));
                    }
                }
                () = tokio::time::sleep_until(limit) => {
                    drop(trial);
                    self.pass_over(request, part);
                    return Err(cause);
                }
            }
        }
    }

    /// Whether it may be asked. If it is passed over, what it must not miss is kept for it.
    fn pass(self: &Arc<Self>, request: &Arc<Request>, part: Part<'_>) -> Pass {
        let (pass, caught_up) = {
            let mut standing = self.standing();
            let caught_up = self.catch_up(&mut standing);
            (self.gate(&mut standing, request), caught_up)
        };
        self.apply(caught_up, "");
        if let Pass::Over(State::Silent | State::Suspended) = pass {
            self.pass_over(request, part);
        }
        pass
    }

    fn gate(self: &Arc<Self>, standing: &mut Standing, request: &Request) -> Pass {
        let now = Instant::now();
        let is_held = standing.is_behind(request);
        match standing.health.state() {
            State::Active if is_held || standing.stage == Stage::Joining => Pass::Behind,
            State::Active if standing.telling => Pass::Wait,
            // The trial of a plugin that missed something begins with that.
            State::Suspended if is_held && !standing.journal.has_ready() => Pass::Over(State::Suspended),
            State::Suspended if standing.journal.has_ready() => {
                if !standing.telling && standing.health.gate(now) == Gate::Ask {
                    standing.telling = true;
                    self.spawn_telling(true);
                }
                Pass::Over(State::Suspended)
            }
            state @ (State::Active | State::Silent | State::Suspended | State::Closed) => {
                match standing.health.gate(now) {
                    Gate::Ask => Pass::Ask { is_trial: state == State::Suspended },
                    Gate::Pass(state) => Pass::Over(state),
                }
            }
        }
    }

    fn may_ask(&self, request: &Request) -> bool {
        let standing = self.standing();
        standing.health.state() == State::Active && !standing.telling && !standing.is_behind(request)
    }
}

/// A request that may turn out not to be a suspended plugin's trial after all.
struct Trial<'a> {
    entry: &'a Entry,
    is_trial: bool,
}

impl Trial<'_> {
    /// It is asked now: its answer ends the trial.
    fn begins(mut self) -> bool {
        std::mem::take(&mut self.is_trial)
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.entry.standing().health.not_asked();
        }
    }
}
