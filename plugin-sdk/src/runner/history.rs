//! What was learnt from the connections so far.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use super::session::SessionEnd;
use super::{Backoff, RunError};
use crate::service::SessionPhase;

/// What was learnt from the connections so far.
#[derive(Debug, Default)]
pub(super) struct ConnectionHistory {
    /// A runtime has let the plugin in before.
    was_synchronized: bool,
    /// Attempts that failed since. Connections that did not last count, too.
    failures: u32,
    /// Connections in a row that did not last.
    n_short_lived: u32,
    /// The last runtime left when it was told what the plugin wants to hear of: it may not know all of that.
    was_subscription_refused: bool,
    /// And nobody has tried with less since.
    is_retry_pending: bool,
}

impl ConnectionHistory {
    pub(super) fn record(&mut self, phase: &SessionPhase, outcome: &Result<SessionEnd, RunError>, has_lasted: bool) {
        match (phase, outcome) {
            (SessionPhase::Synchronized | SessionPhase::ShutDown, _) => {
                // One that lets the plugin in and at once out again is not to be synchronized with ten times a second.
                let n_short_lived = if has_lasted { 0 } else { self.n_short_lived.saturating_add(1) };
                let failures = n_short_lived.saturating_sub(1);
                *self = Self { was_synchronized: true, failures, n_short_lived, ..Self::default() };
            }
            (
                SessionPhase::Configured { can_be_refused: true },
                Err(RunError::LeftEarly { .. } | RunError::Register(_)),
            ) if !self.was_subscription_refused => {
                self.was_subscription_refused = true;
                self.is_retry_pending = true;
            }
            _ => {}
        }
    }

    pub(super) fn was_subscription_refused(&self) -> bool {
        self.was_subscription_refused
    }

    /// How long to wait before the next attempt, if there is one.
    pub(super) fn next_delay(&mut self, backoff: Option<Backoff>) -> Option<Duration> {
        if std::mem::take(&mut self.is_retry_pending) {
            return Some(Duration::ZERO);
        }
        let backoff = backoff.filter(|_| self.was_synchronized)?;
        let delay = backoff.delay(self.failures, RandomState::new().build_hasher().finish());
        self.failures = self.failures.saturating_add(1);
        Some(delay)
    }
}
