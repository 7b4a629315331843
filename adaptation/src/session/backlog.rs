//! A check that the backlog of a plugin becomes shorter.
//!
//! For a plugin that catches up, the whole backlog counts. An active plugin may be behind on single
//! pods: the backlog of each of these pods has to become shorter.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::sleep;

use super::PluginSession;
use super::SessionStage;
use super::Standing;
use super::delivery::Deliveries;
use crate::api::health::State;

/// The least number of request timeouts in which a backlog has to become shorter. A single slow
/// answer must not close the plugin.
const REQUEST_TIMEOUTS: u32 = 2;

impl Standing {
    /// Returns whether a backlog is being delivered that has to become shorter.
    pub(super) fn is_to_be_watched(&self) -> bool {
        self.is_catching_up() || self.is_behind_on_some()
    }

    /// Removes the streaks of pods for which no request of the backlog is left to deliver.
    fn end_streaks(&mut self) {
        let Self { deliveries, journal, .. } = self;
        let Deliveries { streaks, pods, .. } = deliveries;
        streaks.retain(|pod, _| pods.contains(pod) || journal.has_ready_about(pod));
    }

    /// Returns whether the plugin is active and behind on some pods.
    fn is_behind_on_some(&self) -> bool {
        self.health.state() == State::Active && !self.deliveries.streaks.is_empty()
    }
}

impl PluginSession {
    /// Spawns a task, unless it runs already, that closes the plugin if the backlog does not become
    /// shorter. A joining plugin is not closed: its join begins again.
    pub(super) fn watch_backlog(self: &Arc<Self>, standing: &mut Standing) {
        if !std::mem::replace(&mut standing.deliveries.is_watched, true) {
            let (entry, mark) = (Arc::clone(self), BacklogMark::of(standing));
            self.services.spawn(async move { entry.watch_backlog_from(mark).await });
        }
    }

    async fn watch_backlog_from(self: Arc<Self>, mut mark: BacklogMark) {
        loop {
            let terms = self.terms();
            let limit = terms.policy().catch_up_timeout.max(terms.policy().request_timeout * REQUEST_TIMEOUTS);
            if self.closed.run_until_cancelled(sleep(limit)).await.is_none() {
                return;
            }
            let is_joining = {
                let mut standing = self.standing();
                let last = std::mem::replace(&mut mark, BacklogMark::of(&standing));
                standing.end_streaks();
                if !standing.is_to_be_watched() {
                    standing.deliveries.is_watched = false;
                    return;
                }
                if !mark.is_no_shorter_than(&last) {
                    continue;
                }
                standing.deliveries.is_watched = false;
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
        if standing.is_catching_up() {
            let length = journal.n_ready() + deliveries.pods.len();
            return Self::Whole { n_begun: deliveries.n_begun, length };
        }
        let length = |pod: &str| journal.n_ready_about(pod) + usize::from(deliveries.pods.contains(pod));
        let pods = deliveries.streaks.iter().map(|(pod, streak)| (Arc::clone(pod), (*streak, length(pod))));
        Self::ByPod(pods.filter(|(_, (_, length))| *length > 0).collect())
    }

    /// Returns whether the backlog, or the backlog of one pod, is the same as at `last` and has not
    /// become shorter since.
    fn is_no_shorter_than(&self, last: &Self) -> bool {
        match (self, last) {
            (Self::Whole { n_begun, length }, Self::Whole { n_begun: begun_last, length: length_last }) => {
                n_begun == begun_last && length >= length_last
            }
            (Self::ByPod(pods), Self::ByPod(pods_last)) => pods.iter().any(|(pod, (streak, length))| {
                pods_last.get(pod).is_some_and(|(last, length_last)| streak == last && length >= length_last)
            }),
            (Self::Whole { .. }, Self::ByPod(_)) | (Self::ByPod(_), Self::Whole { .. }) => false,
        }
    }
}
