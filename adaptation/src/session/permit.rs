//! The decision whether a request may ask a plugin now, and the wait until it may.

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
use crate::mistake::Mistake;

/// The decision whether a request may ask a plugin.
enum Permission {
    Ask {
        is_probe: bool,
    },
    /// Earlier requests about the pod have to be delivered to the plugin first.
    Behind,
    /// The plugin owes no answer, but has a backlog. It can still be asked for verdicts.
    CatchingUp,
    Over(State),
}

impl Standing {
    /// Returns whether earlier requests about the pod have to be delivered to the plugin first. A
    /// verdict depends on the validation request alone, so a validation need not wait for earlier
    /// requests.
    fn is_behind(&self, request: &Request) -> bool {
        request.event() != Event::ValidateContainerAdjustment && self.is_behind_on(&request.pod().id)
    }

    /// Returns whether the plugin can be asked for a verdict although it is catching up.
    fn can_judge(&self, request: &Request) -> bool {
        let is_verdict = request.event() == Event::ValidateContainerAdjustment;
        is_verdict && self.health.state() == State::Silent && self.health.owes_nothing()
    }
}

impl PluginSession {
    /// Waits for a lane until the lane timeout of the policy, and until `cut` at most. Returns the
    /// lane, and whether the request is the probe of a suspended plugin. Fails as soon as the
    /// request may not ask the plugin. A request that fails is added to the plugin's journal if it
    /// is still useful later.
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
        // With no time left, even a free lane is not taken.
        let is_over = cut.is_some_and(|cut| cut <= begun);
        // A request keeps its place in the queue for the lanes, whatever changes while it waits: no
        // later request overtakes it.
        let queue = || self.lanes.one(policy.concurrency, &request.pod().id);
        let lane = queue();
        tokio::pin!(lane);
        loop {
            if part.is_moot(self) {
                // The plugin has not seen the beginning of what this request rolls back.
                return Err(Cause::Behind);
            }
            let changed = self.changed.notified();
            let is_probe = match self.pass(request, part) {
                Permission::Ask { is_probe } => is_probe,
                Permission::Behind => {
                    self.pass_over(request, part);
                    return Err(Cause::Behind);
                }
                Permission::CatchingUp => {
                    self.pass_over(request, part);
                    return Err(Cause::CatchingUp);
                }
                Permission::Over(state) => return Err(Cause::PassedOver(state)),
            };
            let trial = ProbeReservation { entry: self, is_probe };
            tokio::select! {
                biased;
                () = changed => {
                    if Mistake::PlaceLost.is_injected() {
                        lane.set(queue());
                    }
                }
                free = &mut lane, if !is_over => {
                    // The plugin may have become silent, or may have missed a request, while this
                    // one waited.
                    let may_ask = trial.is_probe || self.may_ask(request);
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

    /// Returns whether the plugin may be asked. If a request skips a silent or suspended plugin,
    /// the request is kept for the plugin.
    fn pass(self: &Arc<Self>, request: &Arc<Request>, part: RequestScope<'_>) -> Permission {
        let (pass, caught_up) = {
            let mut standing = self.standing();
            let caught_up = self.catch_up(&mut standing);
            (Self::gate(&mut standing, request), caught_up)
        };
        self.apply(caught_up, "");
        if let Permission::Over(State::Silent | State::Suspended) = pass {
            self.pass_over(request, part);
        }
        pass
    }

    fn gate(standing: &mut Standing, request: &Request) -> Permission {
        let now = Instant::now();
        match standing.health.state() {
            State::Active if standing.stage == SessionStage::Joining || standing.is_behind(request) => {
                Permission::Behind
            }
            State::Silent if standing.can_judge(request) => Permission::Ask { is_probe: false },
            State::Silent if standing.health.owes_nothing() => Permission::CatchingUp,
            // A plugin with a backlog is probed with the first request of the backlog.
            State::Suspended if !standing.is_even() || standing.is_behind(request) => {
                Permission::Over(State::Suspended)
            }
            state @ (State::Active | State::Silent | State::Suspended | State::Closed) => {
                match standing.health.gate(now) {
                    Gate::Ask => Permission::Ask { is_probe: state == State::Suspended },
                    Gate::Pass(state) => Permission::Over(state),
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

/// The reservation of a request to probe a suspended plugin. Dropping it before
/// [`ProbeReservation::begins`] gives the reservation back.
struct ProbeReservation<'a> {
    entry: &'a PluginSession,
    is_probe: bool,
}

impl ProbeReservation<'_> {
    /// Uses the reservation, because the request asks the plugin now. Returns whether the request
    /// is a probe; the result of the call then ends the probe.
    fn begins(mut self) -> bool {
        std::mem::take(&mut self.is_probe)
    }
}

impl Drop for ProbeReservation<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.entry.standing().health.not_asked();
        }
    }
}
