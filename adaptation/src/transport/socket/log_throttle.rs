//! Limits the rate of a log message.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The interval in which at most one message is logged.
const INTERVAL: Duration = Duration::from_secs(10);

/// Allows one message per interval, and counts the others.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<ThrottleState>);

#[derive(Debug, Default)]
struct ThrottleState {
    said: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    /// Counts a message. If the message is to be logged, returns how many were suppressed since the
    /// last logged one.
    pub(super) fn hear(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.said.is_some_and(|said| now.duration_since(said) < INTERVAL) {
            state.unsaid += 1;
            return None;
        }
        state.said = Some(now);
        Some(std::mem::take(&mut state.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_complaint_in_an_interval_is_said_and_the_others_are_counted() {
        let complaints = Complaints::default();
        assert_eq!(complaints.hear(), Some(0));
        assert_eq!(complaints.hear(), None);
        tokio::time::advance(INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(complaints.hear(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(complaints.hear(), Some(2));
        tokio::time::advance(INTERVAL).await;
        assert_eq!(complaints.hear(), Some(0));
    }
}
