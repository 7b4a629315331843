//! The history of connections, and what it means for the next one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use super::session::SessionEnd;
use super::{Backoff, RunError};
use crate::service::SessionPhase;

/// The facts about past connections that decide when to reconnect, and with which subscription.
#[derive(Debug, Default)]
pub(super) struct ConnectionHistory {
    /// Whether a runtime has ever synchronized the plugin.
    was_synchronized: bool,
    /// The number of failed attempts since the plugin was last synchronized. Short-lived
    /// connections count as well.
    failures: u32,
    /// The number of consecutive short-lived connections.
    n_short_lived: u32,
    /// Whether the last runtime disconnected after Configure, possibly since it does not know an
    /// event.
    was_subscription_refused: bool,
    /// Whether the next attempt is due at once, with fewer events.
    is_retry_pending: bool,
}

impl ConnectionHistory {
    /// Records the end of a connection.
    pub(super) fn record(&mut self, phase: &SessionPhase, outcome: &Result<SessionEnd, RunError>, has_lasted: bool) {
        match (phase, outcome) {
            (SessionPhase::Synchronized | SessionPhase::ShutDown, _) => {
                // Without this, a runtime that disconnects right after the snapshot would get the
                // plugin back ten times a second.
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

    /// Returns whether the last runtime may have rejected the subscription.
    pub(super) fn was_subscription_refused(&self) -> bool {
        self.was_subscription_refused
    }

    /// Returns how long to wait before the next attempt, or none if there is no further attempt.
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
