//! Whether a plugin may be asked now, and waiting until it may.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Entry, Lane, Standing};
use crate::act::Act;
use crate::cause::Cause;
use crate::chain::gates;
use crate::health::{Gate, State};
use crate::journal::End;
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

impl Entry {
    /// Waits for the lane. Whoever may not ask now, or any more, is told at once.
    pub(super) async fn enter(
        self: &Arc<Self>,
        request: &Arc<Request>,
        act: Option<&Arc<Act>>,
        policy: &Policy,
    ) -> Result<(Lane, bool), Cause> {
        let begun = Instant::now();
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let mut limit = begun + policy.lane_timeout;
            let mut busy = Cause::Busy;
            let is_trial = match self.pass(request, act) {
                Pass::Ask { is_trial } => Some(is_trial),
                Pass::Wait => None,
                Pass::Behind if policy.required && self.is_waited_for(request) => {
                    (limit, busy) = (begun + policy.join_timeout, Cause::Behind);
                    None
                }
                Pass::Behind => {
                    self.keep(request, act, End::Back);
                    return Err(Cause::Behind);
                }
                Pass::Over(state) => return Err(Cause::PassedOver(state)),
            };
            let trial = Trial { entry: self, is_trial: is_trial == Some(true) };
            tokio::select! {
                biased;
                () = &mut changed => {}
                lane = self.lanes.one(policy.concurrency, &request.pod().id), if is_trial.is_some() => {
                    // It may have become silent while this one waited.
                    if trial.is_trial || self.may_ask() {
                        return Ok((lane, trial.begins()));
                    }
                }
                () = tokio::time::sleep_until(limit) => {
                    drop(trial);
                    self.keep(request, act, End::Back);
                    return Err(busy);
                }
            }
        }
    }

    /// Whether a request waits until it has heard what was before, if it is required.
    fn is_waited_for(&self, request: &Request) -> bool {
        gates(request.event()) && self.standing().joined
    }

    /// Whether it may be asked. If it is passed over, what it must not miss is kept for it.
    fn pass(self: &Arc<Self>, request: &Arc<Request>, act: Option<&Arc<Act>>) -> Pass {
        let (pass, caught_up) = {
            let mut standing = self.standing();
            let caught_up = self.catch_up(&mut standing);
            (self.gate(&mut standing, request), caught_up)
        };
        self.apply(caught_up, "");
        if let Pass::Over(State::Silent | State::Suspended) = pass {
            self.keep(request, act, End::Back);
        }
        pass
    }

    fn gate(self: &Arc<Self>, standing: &mut Standing, request: &Request) -> Pass {
        let now = Instant::now();
        let is_held = !standing.journal.is_empty() && standing.journal.holds(&request.pod().id);
        match standing.health.state() {
            State::Active if is_held || !standing.joined => Pass::Behind,
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

    fn may_ask(&self) -> bool {
        let standing = self.standing();
        standing.health.state() == State::Active && !standing.telling
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
