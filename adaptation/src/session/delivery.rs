//! Delivery of a backlog: the requests that a plugin missed are sent to it.
//!
//! A plugin that joins, was silent or was suspended is *behind* until every request in its journal
//! that can be delivered was delivered. Meanwhile the plugin counts as silent: requests skip the
//! plugin, and are added to its journal.
//!
//! An active plugin may still be behind on single pods, because an operation about them was open
//! while the plugin joined. Requests about other pods then share the lanes of the plugin with the
//! delivery. Such a request may have to wait for one request of the backlog, as it would for a
//! request about another pod.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::Lane;
use super::PluginSession;
use super::Standing;
use super::backlog::BacklogWatch;
use super::lane::PODS_AT_A_TIME;
use crate::api::health::{Effect, Gate, State};
use crate::api::operation::OperationId;
use crate::api::request::Request;
use crate::api::wait::wait_until;
use crate::config::policy::Concurrency;
use crate::mistake::Mistake;
use crate::session::call::deliver;
use crate::session::journal::JournalEnd;

/// The deliveries of a journal that are in progress.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Whether nothing is delivered from the journal, because the plugin is being synchronized.
    is_held_back: bool,
    /// The pods of the requests that are being delivered, one request each.
    pub(super) pods: HashSet<Arc<str>>,
    /// Pods that the plugin is behind on, each with the number of that streak: a streak begins with
    /// the first delivery about the pod, and ends when nothing more about the pod can be delivered.
    pub(super) streaks: HashMap<Arc<str>, u64>,
    n_streaks: u64,
    /// The concurrency of the plugin when requests were last taken from the journal.
    concurrency: Option<Concurrency>,
    /// The time at which a timer checks whether the suspended plugin can be probed.
    probe_at: Option<Instant>,
    /// The check that the backlog becomes shorter.
    pub(super) watch: BacklogWatch,
}

impl Deliveries {
    pub(super) fn held_back() -> Self {
        Self { is_held_back: true, ..Self::default() }
    }

    /// Starts no delivery from now on. Deliveries in progress continue.
    pub(super) fn hold_back(&mut self) {
        self.is_held_back = true;
        self.streaks.clear();
        self.watch.is_catching_up = false;
    }

    pub(super) fn are_none(&self) -> bool {
        self.pods.is_empty()
    }

    /// Records that a delivery about a pod begins.
    fn begin(&mut self, pod: Arc<str>) {
        if !self.streaks.contains_key(&pod) {
            self.n_streaks += 1;
            self.streaks.insert(Arc::clone(&pod), self.n_streaks);
        }
        self.pods.insert(pod);
    }

    fn has_room(&self) -> bool {
        match self.concurrency.unwrap_or(Concurrency::Serial) {
            Concurrency::Serial => self.pods.is_empty(),
            Concurrency::PerPod => self.pods.len() < PODS_AT_A_TIME as usize,
        }
    }
}

impl Standing {
    /// Returns whether no request can be delivered now. While requests about several pods are
    /// delivered at a time, requests that wait behind a delivery about the same pod do not count:
    /// under load, some delivery is always in progress.
    pub(super) fn is_even(&self) -> bool {
        let pods = &self.deliveries.pods;
        self.deliveries.has_room() && !self.journal.has_ready_but(|pod| pods.contains(pod))
    }

    /// Returns whether no request can be delivered now, and none is being delivered.
    fn has_heard_all(&self) -> bool {
        self.deliveries.are_none() && !self.journal.has_ready()
    }

    /// Returns whether the journal has a request about this pod, or one is being delivered.
    pub(super) fn is_behind_on(&self, pod: &str) -> bool {
        self.deliveries.pods.contains(pod) || self.journal.concerns(pod)
    }
}

impl PluginSession {
    /// Starts the deliveries that are possible now. A silent plugin that owes no answer and has no
    /// backlog left becomes active.
    pub(super) fn catch_up(self: &Arc<Self>, standing: &mut Standing) -> Effect {
        if standing.deliveries.is_held_back {
            return Effect::None;
        }
        let now = Instant::now();
        standing.note_suspension(now);
        match standing.health.state() {
            State::Closed => return Effect::None,
            State::Suspended => self.probe(standing, now),
            State::Active | State::Silent if standing.health.owes_nothing() => self.deliver_all(standing),
            State::Active | State::Silent => {}
        }
        standing.note_catching_up();
        self.watch_backlog(standing);
        if !standing.health.owes_nothing() || !standing.is_even() {
            return Effect::None;
        }
        let caught_up = standing.health.caught_up();
        self.note_state(standing, caught_up);
        caught_up
    }

    fn deliver_all(self: &Arc<Self>, standing: &mut Standing) {
        if standing.journal.is_empty() {
            return;
        }
        standing.deliveries.concurrency = Some(self.terms().policy().concurrency);
        while standing.deliveries.has_room() && self.deliver_next(standing, false) {}
    }

    /// Delivers the first request of a suspended plugin's backlog as a probe, if the plugin may be
    /// probed now. Otherwise a timer checks again when the plugin's pause is over.
    fn probe(self: &Arc<Self>, standing: &mut Standing, now: Instant) {
        if standing.health.may_try(now) {
            // With an empty backlog, the next request is the probe: NRI has no ping.
            if standing.is_even() || !standing.deliveries.are_none() {
                return;
            }
            if standing.health.gate(now) == Gate::Ask && !self.deliver_next(standing, true) {
                standing.health.not_asked();
            }
            return;
        }
        if Mistake::OnlyRequestsProbe.is_injected() {
            return;
        }
        let resumes = standing.health.resumes().filter(|resumes| *resumes > now);
        if let Some(resumes) = resumes.filter(|resumes| standing.deliveries.probe_at != Some(*resumes)) {
            standing.deliveries.probe_at = Some(resumes);
            let entry = Arc::clone(self);
            self.services.spawn(async move {
                let pause = sleep_until(resumes);
                if entry.closed.run_until_cancelled(pause).await.is_some() {
                    entry.goes_on();
                }
            });
        }
    }

    fn deliver_next(self: &Arc<Self>, standing: &mut Standing, is_probe: bool) -> bool {
        let Deliveries { pods, .. } = &standing.deliveries;
        let Some(request) = standing.journal.pop(|pod| pods.contains(pod)) else { return false };
        standing.deliveries.begin(request.pod().id.as_str().into());
        self.services.spawn(deliver(Arc::clone(self), request, is_probe));
        true
    }

    /// Waits for a lane in which a request of the backlog can be delivered. Returns `None` if the
    /// plugin is closed, or if it owes an answer again; in that case the request goes back to the
    /// front of the journal.
    pub(crate) async fn lane_for_delivery(self: &Arc<Self>, request: &Arc<Request>, is_probe: bool) -> Option<Lane> {
        let concurrency = self.terms().policy().concurrency;
        let lane = self.lanes.one(concurrency, &request.pod().id);
        let lane = self.closed.run_until_cancelled(lane).await?;
        let is_still_due = {
            let standing = self.standing();
            standing.health.owes_nothing() || is_probe && standing.health.state() == State::Suspended
        };
        if !is_still_due {
            self.keep(request, None, JournalEnd::Front);
            self.delivered(request);
            return None;
        }
        Some(lane)
    }

    /// Ends a delivery, so that the next request about the pod can be delivered.
    pub(crate) fn delivered(self: &Arc<Self>, request: &Request) {
        self.update(
            |standing| {
                let pod = &*request.pod().id;
                standing.deliveries.pods.remove(pod);
                if !standing.journal.has_ready_about(pod) {
                    standing.deliveries.streaks.remove(pod);
                }
                ((), Effect::None)
            },
            "",
        );
        self.changed.notify_waiters();
    }

    /// Returns whether a request that needs the plugin has to wait until earlier requests were
    /// delivered. `about` is the pod that the plugin is asked about, or `None` if the plugin only
    /// validates. A request does not wait for the end of its own operation.
    pub(crate) fn is_behind(&self, about: Option<&str>, operation: OperationId) -> bool {
        let standing = self.standing();
        match (standing.health.state(), about) {
            (State::Silent, Some(_)) => standing.health.owes_nothing(),
            (State::Active, Some(_)) if standing.journal.is_empty() && standing.deliveries.are_none() => false,
            (State::Active, Some(pod)) => {
                standing.deliveries.pods.contains(pod)
                    || standing.journal.has_ready_about(pod)
                    || standing.journal.holds_for_others(pod, operation)
            }
            // A validator is asked for its verdict while it catches up.
            (State::Active | State::Silent, None) | (State::Suspended | State::Closed, _) => false,
        }
    }

    /// Waits until the plugin is not [behind](PluginSession::is_behind) any more.
    pub(crate) async fn has_heard(&self, about: Option<&str>, operation: OperationId) {
        wait_until(&self.changed, || !self.is_behind(about, operation)).await;
    }

    /// Waits until no request can be delivered to the plugin now, and none is being delivered.
    pub(crate) async fn has_heard_all(&self) {
        wait_until(&self.changed, || self.standing().has_heard_all()).await;
    }

    /// Waits until no request is being delivered and the plugin is active.
    pub(crate) async fn is_idle(&self) {
        wait_until(&self.changed, || {
            let standing = self.standing();
            standing.deliveries.are_none() && standing.health.state() == State::Active
        })
        .await;
    }

    /// Begins to deliver the journal of a joining plugin. Returns when every request that can be
    /// delivered was delivered, when the plugin owes an overdue answer, when its journal has
    /// overflowed, or when it is closed.
    pub(crate) async fn catches_up(self: &Arc<Self>) {
        self.update(
            |standing| {
                standing.deliveries.is_held_back = false;
                ((), Effect::None)
            },
            "",
        );
        let catching_up = wait_until(&self.changed, || {
            let standing = self.standing();
            standing.deaf || standing.is_even() || !standing.health.owes_nothing()
        });
        self.closed.run_until_cancelled(catching_up).await;
    }

    /// Makes a plugin that joins with a backlog count as silent until its backlog was delivered.
    pub(crate) fn falls_behind(self: &Arc<Self>) {
        if Mistake::BacklogWaitedFor.is_injected() {
            return;
        }
        self.update(|standing| ((), standing.health.falls_behind()), "");
    }

    /// Waits for one request timeout before a request that the plugin did not take is delivered
    /// again. Returns false if the plugin is closed meanwhile.
    pub(crate) async fn pause(&self) -> bool {
        let pause = tokio::time::sleep(self.terms().policy().request_timeout);
        self.closed.run_until_cancelled(pause).await.is_some()
    }
}
