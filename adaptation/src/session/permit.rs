//! Whether a plugin may be asked now, and waiting until it may.

use std::sync::Arc;

use nri_proto::Event;
use tokio::time::Instant;

use super::Lane;
use super::PluginSession;
use super::RequestScope;
use super::SessionStage;
use super::Standing;
use crate::api::error::Cause;
use crate::api::health::{Gate, State};
use crate::api::request::Request;
use crate::config::policy::Policy;
use crate::session::faults::Mistake;

/// Whether a request may ask a plugin.
enum Pass {
    Ask {
        is_trial: bool,
    },
    /// What was asked about the pod before has to be told first.
    Behind,
    /// The plugin owes nothing, and has yet to hear what it missed. It is asked for verdicts all
    /// the same.
    CatchingUp,
    Over(State),
}

impl Standing {
    /// Whether the plugin has to hear something else about the pod first. A verdict is about what
    /// the request itself shows, so a validator need not have heard what was before.
    fn is_behind(&self, request: &Request) -> bool {
        request.event() != Event::ValidateContainerAdjustment && self.is_behind_on(&request.pod().id)
    }

    /// Whether the plugin can be asked for a verdict although it catches up.
    fn can_judge(&self, request: &Request) -> bool {
        let is_verdict = request.event() == Event::ValidateContainerAdjustment;
        is_verdict && self.health.state() == State::Silent && self.health.owes_nothing()
    }
}

impl PluginSession {
    /// Waits for the lane, until `cut` at most. Whoever may not ask now, or any more, is told at
    /// once.
    pub(super) async fn enter(
        self: &Arc<Self>,
        request: &Arc<Request>,
        part: RequestScope<'_>,
        policy: &Policy,
        cut: Option<Instant>,
    ) -> Result<(Lane, bool), Cause> {
        let begun = Instant::now();
        let limit = begun + policy.lane_timeout;
        let (limit, cause) = match cut.filter(|cut| *cut < limit) {
            Some(cut) => (cut, Cause::CutShort),
            None => (limit, Cause::Busy),
        };
        // With no time left, not even a free lane is taken.
        let is_over = cut.is_some_and(|cut| cut <= begun);
        // A request keeps its place in the queue, whatever changes meanwhile: nothing that comes
        // later goes before it.
        let queue = || self.lanes.one(policy.concurrency, &request.pod().id);
        let lane = queue();
        tokio::pin!(lane);
        loop {
            if part.is_moot(self) {
                // It has not even heard of the beginning.
                return Err(Cause::Behind);
            }
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_trial = match self.pass(request, part) {
                Pass::Ask { is_trial } => is_trial,
                Pass::Behind => {
                    self.pass_over(request, part);
                    return Err(Cause::Behind);
                }
                Pass::CatchingUp => {
                    self.pass_over(request, part);
                    return Err(Cause::CatchingUp);
                }
                Pass::Over(state) => return Err(Cause::PassedOver(state)),
            };
            let trial = Trial { entry: self, is_trial };
            tokio::select! {
                biased;
                () = &mut changed => {
                    if self.services.makes(Mistake::PlaceLost) {
                        lane.set(queue());
                    }
                }
                free = &mut lane, if !is_over => {
                    // It may have become silent while this one waited, or have missed something.
                    let may_ask = trial.is_trial || self.may_ask(request);
                    if may_ask && !part.is_moot(self) {
                        return Ok((free, trial.begins()));
                    }
                    drop(free);
                    lane.set(queue());
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
    fn pass(self: &Arc<Self>, request: &Arc<Request>, part: RequestScope<'_>) -> Pass {
        let (pass, caught_up) = {
            let mut standing = self.standing();
            let caught_up = self.catch_up(&mut standing);
            (Self::gate(&mut standing, request), caught_up)
        };
        self.apply(caught_up, "");
        if let Pass::Over(State::Silent | State::Suspended) = pass {
            self.pass_over(request, part);
        }
        pass
    }

    fn gate(standing: &mut Standing, request: &Request) -> Pass {
        let now = Instant::now();
        match standing.health.state() {
            State::Active if standing.stage == SessionStage::Joining || standing.is_behind(request) => Pass::Behind,
            State::Silent if standing.can_judge(request) => Pass::Ask { is_trial: false },
            State::Silent if standing.health.owes_nothing() => Pass::CatchingUp,
            // The trial of a plugin that missed something begins with that.
            State::Suspended if !standing.is_even() || standing.is_behind(request) => Pass::Over(State::Suspended),
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
        let is_active = standing.health.state() == State::Active;
        is_active && !standing.is_behind(request) || standing.can_judge(request)
    }
}

/// A request that may turn out not to be a suspended plugin's trial after all.
struct Trial<'a> {
    entry: &'a PluginSession,
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
