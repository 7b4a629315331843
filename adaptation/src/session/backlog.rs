//! A check that the backlog of a plugin becomes shorter.
//!
//! For a plugin that catches up, the whole backlog counts. An active plugin may be behind on single
//! pods: the backlog of each of these pods has to become shorter.
//!
//! A plugin catches up until it is even. An answer that is overdue in between does not end that, so
//! a plugin that is late now and then has to make progress like any other. Nothing is delivered to
//! a suspended plugin, so neither the time of a suspension nor the requests that the plugin misses
//! in that time count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::PluginSession;
use super::SessionStage;
use super::Standing;
use super::delivery::Deliveries;
use crate::api::health::State;
use crate::api::wait::wait_until;
use crate::mistake::Mistake;

/// The least number of request timeouts in which a backlog has to become shorter. A single slow
/// answer must not close the plugin.
const REQUEST_TIMEOUTS: u32 = 2;

/// The state of the check that a backlog becomes shorter.
#[derive(Debug, Default)]
pub(super) struct BacklogWatch {
    /// Whether a task does the check.
    is_on: bool,
    /// Whether the plugin has begun to catch up and was not [even](Standing::is_even) since.
    pub(super) is_catching_up: bool,
    /// How many times the plugin has begun to catch up.
    n_begun: u64,
    /// When the suspension in progress began, and how many requests could be delivered then.
    suspended_at: Option<(Instant, usize)>,
    /// How long the plugin was suspended in the time that is checked.
    suspended_for: Duration,
    /// How many requests the plugin missed while it was suspended.
    n_missed: usize,
}

impl Standing {
    /// Records whether the plugin catches up, after any change. A joining plugin counts as silent.
    pub(super) fn note_catching_up(&mut self) {
        let is_asked = self.health.state() == State::Active && self.stage != SessionStage::Joining;
        if is_asked || self.is_even() {
            self.deliveries.watch.is_catching_up = false;
        } else if self.health.owes_nothing() && !self.deliveries.watch.is_catching_up {
            self.deliveries.watch.is_catching_up = true;
            self.deliveries.watch.n_begun += 1;
        }
    }

    /// Records the beginning or the end of a suspension, after any change.
    pub(super) fn note_suspension(&mut self, now: Instant) {
        let watch = &mut self.deliveries.watch;
        match (self.health.state(), watch.suspended_at) {
            (State::Suspended, None) => watch.suspended_at = Some((now, self.journal.n_ready())),
            (State::Active | State::Silent, Some((begun, n_ready))) => {
                watch.suspended_at = None;
                watch.suspended_for += now - begun;
                watch.n_missed += self.journal.n_ready().saturating_sub(n_ready);
            }
            (State::Active | State::Silent, None) | (State::Suspended, Some(_)) | (State::Closed, _) => {}
        }
    }

    /// Returns whether a backlog is being delivered that has to become shorter. The delivery may
    /// wait for an overdue answer.
    fn is_to_be_watched(&self) -> bool {
        self.deliveries.watch.is_catching_up || !self.deliveries.streaks.is_empty()
    }

    /// Removes the streaks of pods for which no request of the backlog is left to deliver.
    fn end_streaks(&mut self) {
        let Self { deliveries, journal, .. } = self;
        let Deliveries { streaks, pods, .. } = deliveries;
        streaks.retain(|pod, _| pods.contains(pod) || journal.has_ready_about(pod));
    }
}

impl PluginSession {
    /// Spawns a task, if there is a backlog to check and no task does that yet. The task closes the
    /// plugin if the backlog does not become shorter. A joining plugin is not closed: its join
    /// begins again.
    pub(super) fn watch_backlog(self: &Arc<Self>, standing: &mut Standing) {
        if !standing.health.owes_nothing() && Mistake::LateAnswerEndsCatchUp.is_injected() {
            standing.deliveries.watch.is_catching_up = false;
        }
        let is_delivered = standing.is_to_be_watched() && standing.health.state() != State::Suspended;
        let watch = &mut standing.deliveries.watch;
        if is_delivered && !watch.is_on {
            (watch.is_on, watch.suspended_for, watch.n_missed) = (true, Duration::ZERO, 0);
            let (entry, mark) = (Arc::clone(self), BacklogMark::of(standing));
            self.services.spawn(async move { entry.watch_backlog_from(mark).await });
        }
    }

    async fn watch_backlog_from(self: Arc<Self>, mut mark: BacklogMark) {
        loop {
            let terms = self.terms();
            let limit = terms.policy().catch_up_timeout.max(terms.policy().request_timeout * REQUEST_TIMEOUTS);
            if self.closed.run_until_cancelled(self.sleep_unsuspended(limit)).await.is_none() {
                return;
            }
            let is_joining = {
                let mut standing = self.standing();
                standing.end_streaks();
                let n_missed = std::mem::take(&mut standing.deliveries.watch.n_missed);
                let last = std::mem::replace(&mut mark, BacklogMark::of(&standing));
                if !standing.is_to_be_watched() {
                    standing.deliveries.watch.is_on = false;
                    return;
                }
                if !mark.is_no_shorter_than(&last, n_missed) {
                    continue;
                }
                standing.deliveries.watch.is_on = false;
                let is_joining = standing.stage == SessionStage::Joining;
                if is_joining {
                    // The join sees this and begins again.
                    standing.deaf = true;
                    standing.journal.clear();
                }
                is_joining
            };
            if !is_joining {
                self.close("its backlog did not become shorter within catch_up_timeout");
            }
            self.changed.notify_waiters();
            return;
        }
    }

    /// Sleeps until this time has passed, not counting the time in which the plugin is suspended.
    async fn sleep_unsuspended(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let begun = Instant::now();
            sleep(left).await;
            wait_until(&self.changed, || self.state() != State::Suspended).await;
            let suspended = std::mem::take(&mut self.standing().deliveries.watch.suspended_for);
            left = unsuspended_left(left, begun.elapsed(), suspended);
        }
    }
}

/// Returns what is left of a time after another time has passed, of which the plugin was suspended
/// for a part.
fn unsuspended_left(left: Duration, passed: Duration, suspended: Duration) -> Duration {
    left.saturating_sub(passed.saturating_sub(suspended))
}

/// The length of a backlog at one moment.
enum BacklogMark {
    /// The whole backlog. `n_begun` tells one catching up from the next.
    Whole { n_begun: u64, length: usize },
    /// The backlog of each pod that an active plugin is behind on, with the number of its streak.
    ByPod(HashMap<Arc<str>, (u64, usize)>),
}

impl BacklogMark {
    fn of(standing: &Standing) -> Self {
        let (deliveries, journal) = (&standing.deliveries, &standing.journal);
        if deliveries.watch.is_catching_up {
            let length = journal.n_ready() + deliveries.pods.len();
            return Self::Whole { n_begun: deliveries.watch.n_begun, length };
        }
        let length = |pod: &str| journal.n_ready_about(pod) + usize::from(deliveries.pods.contains(pod));
        let pods = deliveries.streaks.iter().map(|(pod, streak)| (Arc::clone(pod), (*streak, length(pod))));
        Self::ByPod(pods.filter(|(_, (_, length))| *length > 0).collect())
    }

    /// Returns whether the backlog, or the backlog of one pod, is the same as at `last` and has not
    /// become shorter since. The plugin is not responsible for `n_missed` requests of it.
    fn is_no_shorter_than(&self, last: &Self, n_missed: usize) -> bool {
        match (self, last) {
            (Self::Whole { n_begun, length }, Self::Whole { n_begun: begun_last, length: length_last }) => {
                n_begun == begun_last && *length >= length_last + n_missed
            }
            (Self::ByPod(pods), Self::ByPod(pods_last)) => pods.iter().any(|(pod, (streak, length))| {
                let last = pods_last.get(pod);
                last.is_some_and(|(last, length_last)| streak == last && *length >= length_last + n_missed)
            }),
            (Self::Whole { .. }, Self::ByPod(_)) | (Self::ByPod(_), Self::Whole { .. }) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plugin is asked for `asked` seconds, then suspended for `suspended` seconds, again and
    /// again. Returns when the limit is over. The sleep also takes the rest of a suspension that
    /// is in progress when it ends.
    fn end_of(limit: u64, asked: u64, suspended: u64) -> u64 {
        let round = asked + suspended;
        let (mut now, mut left) = (0, limit);
        while left > 0 {
            let begun = now;
            now += left;
            if now % round >= asked {
                now += round - now % round;
            }
            let n_suspended = |at: u64| at / round * suspended + (at % round).saturating_sub(asked);
            let in_suspension = n_suspended(now) - n_suspended(begun);
            let secs = Duration::from_secs;
            left = unsuspended_left(secs(left), secs(now - begun), secs(in_suspension)).as_secs();
        }
        now
    }

    #[test]
    fn only_the_time_without_suspensions_counts_however_often_a_plugin_is_suspended() {
        assert_eq!(end_of(60, 100, 1), 60);
        // Ten rounds have sixty seconds in which the plugin is asked.
        assert!((294..=300).contains(&end_of(60, 6, 24)), "{}", end_of(60, 6, 24));
        assert!((154..=160).contains(&end_of(60, 6, 10)), "{}", end_of(60, 6, 10));
        assert_eq!(end_of(60, 59, 3600), 59 + 3600 + 1);
    }
}
