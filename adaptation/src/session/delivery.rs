//! Delivery of a backlog: how a plugin is told what it missed.
//!
//! A plugin that joins, was silent or was suspended is *behind* until it has been told everything
//! in its journal that can be told. Meanwhile the plugin counts as silent: requests skip it, and
//! are added to the journal. An active plugin may still have to be told something about single
//! pods, because an operation about them was open while the plugin joined; then it is behind for
//! those pods alone, and other requests share its lane with the delivery: one of them may have to
//! wait for one request of the backlog, as for a request about another pod.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::Lane;
use super::PluginSession;
use super::SessionStage;
use super::Standing;
use super::lane::PODS_AT_A_TIME;
use crate::api::health::{Effect, Gate, State};
use crate::api::operation::OperationId;
use crate::api::request::Request;
use crate::config::policy::Concurrency;
use crate::session::call::deliver;
use crate::session::faults::Mistake;
use crate::session::journal::End;

/// The requests of a journal that a plugin is being told.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// The plugin is being synchronized: nothing of its journal is delivered.
    is_held_back: bool,
    /// The pods that the plugin is being told about, one request each.
    pub(super) pods: HashSet<Arc<str>>,
    /// Pods that the plugin is behind on, each with the number of that streak: a streak begins with
    /// the first delivery about the pod, and ends when nothing more about the pod can be delivered.
    pub(super) streaks: HashMap<Arc<str>, u64>,
    n_streaks: u64,
    /// Whether the plugin was last told about one pod at a time.
    concurrency: Option<Concurrency>,
    /// When a timer looks whether a suspended plugin can be tried.
    probe_at: Option<Instant>,
    /// A task checks that the backlog becomes shorter.
    pub(super) is_watched: bool,
    /// How many times the plugin has begun to catch up.
    pub(super) n_begun: u64,
    /// The plugin has begun to catch up, and is not even yet.
    is_catching_up: bool,
}

impl Deliveries {
    pub(super) fn held_back() -> Self {
        Self { is_held_back: true, ..Self::default() }
    }

    /// Begins nothing from now on. What is being delivered goes on.
    pub(super) fn hold_back(&mut self) {
        self.is_held_back = true;
        self.streaks.clear();
    }

    pub(super) fn are_none(&self) -> bool {
        self.pods.is_empty()
    }

    /// The plugin is told something about a pod.
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
    /// Whether the plugin has been told everything that it can be told now. A plugin that is told
    /// about several pods at a time is even when nothing waits but behind what it is being told
    /// about a pod: under load something is always on its way.
    pub(super) fn is_even(&self) -> bool {
        let pods = &self.deliveries.pods;
        self.deliveries.has_room() && !self.journal.has_ready_but(|pod| pods.contains(pod))
    }

    /// Whether the plugin has been told everything that it can be told now, and is being told
    /// nothing.
    fn has_heard_all(&self) -> bool {
        self.deliveries.are_none() && !self.journal.has_ready()
    }

    /// Whether the plugin has yet to hear something about this pod.
    pub(super) fn is_behind_on(&self, pod: &str) -> bool {
        self.deliveries.pods.contains(pod) || self.journal.concerns(pod)
    }

    /// Whether the plugin owes nothing, and only has to be told what it missed to be active.
    pub(super) fn is_catching_up(&self) -> bool {
        let counts_as_silent = self.health.state() == State::Silent || self.stage == SessionStage::Joining;
        counts_as_silent && !self.deliveries.is_held_back && self.health.owes_nothing() && !self.is_even()
    }
}

impl PluginSession {
    /// Delivers what the plugin missed, as far as that can be done now. A silent plugin that owes
    /// nothing and has heard everything is active again.
    pub(super) fn catch_up(self: &Arc<Self>, standing: &mut Standing) -> Effect {
        if standing.deliveries.is_held_back {
            return Effect::None;
        }
        let now = Instant::now();
        match standing.health.state() {
            State::Closed => return Effect::None,
            State::Suspended => self.probe(standing, now),
            State::Active | State::Silent if standing.health.owes_nothing() => self.deliver_all(standing),
            State::Active | State::Silent => {}
        }
        let is_catching_up = standing.is_catching_up();
        let was_catching_up = std::mem::replace(&mut standing.deliveries.is_catching_up, is_catching_up);
        if is_catching_up && !was_catching_up {
            standing.deliveries.n_begun += 1;
        }
        if standing.is_to_be_watched() {
            self.watch_backlog(standing);
        }
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

    /// Delivers the first request of a suspended plugin's backlog, if it can be tried now.
    /// Otherwise a timer looks again when the plugin's pause is over.
    fn probe(self: &Arc<Self>, standing: &mut Standing, now: Instant) {
        if standing.health.may_try(now) {
            // With an empty backlog the next request is the probe: NRI has no ping.
            if standing.is_even() || !standing.deliveries.are_none() {
                return;
            }
            if standing.health.gate(now) == Gate::Ask && !self.deliver_next(standing, true) {
                standing.health.not_asked();
            }
            return;
        }
        if self.services.makes(Mistake::OnlyRequestsProbe) {
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

    /// Waits for a lane in which a request of the backlog can be delivered. `None` if the plugin is
    /// closed, or owes an answer again: then the request goes back to where it was.
    pub(crate) async fn lane_for_delivery(self: &Arc<Self>, request: &Arc<Request>, is_probe: bool) -> Option<Lane> {
        let concurrency = self.terms().policy().concurrency;
        let lane = self.lanes.one(concurrency, &request.pod().id);
        let lane = self.closed.run_until_cancelled(lane).await?;
        let is_still_due = {
            let standing = self.standing();
            standing.health.owes_nothing() || is_probe && standing.health.state() == State::Suspended
        };
        if !is_still_due {
            self.keep(request, None, End::Front);
            self.delivered(request);
            return None;
        }
        Some(lane)
    }

    /// Ends a delivery. The next request about the pod can be delivered.
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

    /// Whether a request that cannot do without the plugin has to wait until the plugin has heard
    /// what was before. `about` is the pod that the plugin is asked about; a validator is not asked
    /// about the pod. A request does not wait for the end of its own operation.
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
            // It is asked for its verdict while it catches up.
            (State::Active | State::Silent, None) | (State::Suspended | State::Closed, _) => false,
        }
    }

    /// Waits until the plugin is not [behind](PluginSession::is_behind) any more.
    pub(crate) async fn has_heard(&self, about: Option<&str>, operation: OperationId) {
        self.until(|| !self.is_behind(about, operation)).await;
    }

    /// Waits until the plugin has heard everything that it can hear now.
    pub(crate) async fn has_heard_all(&self) {
        self.until(|| self.standing().has_heard_all()).await;
    }

    /// Waits until the plugin is being told nothing, and owes no answer.
    pub(crate) async fn is_idle(&self) {
        self.until(|| {
            let standing = self.standing();
            standing.deliveries.are_none() && standing.health.state() == State::Active
        })
        .await;
    }

    /// Begins to tell a joining plugin what is in its journal. Returns when the plugin has heard
    /// all of it, or fails to.
    pub(crate) async fn catches_up(self: &Arc<Self>) {
        self.update(
            |standing| {
                standing.deliveries.is_held_back = false;
                ((), Effect::None)
            },
            "",
        );
        let catching_up = self.until(|| {
            let standing = self.standing();
            standing.deaf || standing.is_even() || !standing.health.owes_nothing()
        });
        self.closed.run_until_cancelled(catching_up).await;
    }

    /// Has a plugin that joins before it is even count as silent until it is.
    pub(crate) fn falls_behind(self: &Arc<Self>) {
        if self.services.makes(Mistake::BacklogWaitedFor) {
            return;
        }
        self.update(|standing| ((), standing.health.falls_behind()), "");
    }

    /// Waits until something is so that may change with the state or the backlog.
    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so() {
                return;
            }
            changed.await;
        }
    }

    /// Waits before a request that the plugin did not take is delivered again. False if the plugin
    /// is closed meanwhile.
    pub(crate) async fn pause(&self) -> bool {
        let pause = tokio::time::sleep(self.terms().policy().request_timeout);
        self.closed.run_until_cancelled(pause).await.is_some()
    }
}
