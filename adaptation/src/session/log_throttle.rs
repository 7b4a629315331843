//! Limits the rate of log messages.

use std::collections::HashMap;
use std::time::Duration;

use nri_proto::PluginId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The interval in which at most one message is logged.
const INTERVAL: Duration = Duration::from_secs(10);

/// Allows one message per interval, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<ThrottleState>);

/// Limits the rate of log messages about plugins. For each plugin and each kind of message, one
/// message per ten seconds is allowed, and the others are counted.
///
/// ```
/// use nri_adaptation::PluginLogThrottle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> anyhow::Result<()> {
/// let throttle = PluginLogThrottle::default();
/// let plugin = "10-a".parse()?;
/// assert_eq!(throttle.hear(&plugin, "update failed"), Some(0));
/// assert_eq!(throttle.hear(&plugin, "update failed"), None);
/// assert_eq!(throttle.hear(&plugin, "eviction failed"), Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct PluginLogThrottle(Mutex<HashMap<(PluginId, &'static str), ThrottleState>>);

#[derive(Debug, Default)]
struct ThrottleState {
    logged: Option<Instant>,
    suppressed: u64,
}

impl LogThrottle {
    /// Counts a message. If the message is to be logged, returns how many were suppressed since the
    /// last logged one.
    pub(crate) fn hear(&self) -> Option<u64> {
        self.0.lock().hear(Instant::now())
    }
}

impl PluginLogThrottle {
    /// How many plugins and kinds are remembered. Plugins choose their names, so there may be any
    /// number of them over time.
    const MOST: usize = 1024;

    /// Counts a message of a kind about a plugin. If the message is to be logged, returns how many
    /// of the kind were suppressed since the last logged one.
    pub fn hear(&self, plugin: &PluginId, kind: &'static str) -> Option<u64> {
        let now = Instant::now();
        let mut states = self.0.lock();
        if states.len() >= Self::MOST {
            states.retain(|_, state| state.is_recent(now));
        }
        if states.len() >= Self::MOST {
            states.clear();
        }
        states.entry((plugin.clone(), kind)).or_default().hear(now)
    }
}

impl ThrottleState {
    fn is_recent(&self, now: Instant) -> bool {
        self.logged.is_some_and(|logged| now.duration_since(logged) < INTERVAL)
    }

    fn hear(&mut self, now: Instant) -> Option<u64> {
        if self.is_recent(now) {
            self.suppressed += 1;
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_message_in_an_interval_is_logged_and_the_others_are_counted() {
        let throttle = LogThrottle::default();
        assert_eq!(throttle.hear(), Some(0));
        assert_eq!(throttle.hear(), None);
        tokio::time::advance(INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(throttle.hear(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(throttle.hear(), Some(2));
        tokio::time::advance(INTERVAL).await;
        assert_eq!(throttle.hear(), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_uses_up_no_message_of_another_nor_of_another_kind_and_names_are_not_kept_for_ever() {
        let throttle = PluginLogThrottle::default();
        let plugin = |n: usize| format!("10-p{n}").parse().unwrap();
        assert_eq!(throttle.hear(&plugin(0), "a"), Some(0));
        assert_eq!(throttle.hear(&plugin(0), "b"), Some(0));
        assert_eq!(throttle.hear(&plugin(1), "a"), Some(0));
        assert_eq!(throttle.hear(&plugin(0), "a"), None);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(throttle.hear(&plugin(0), "a"), Some(1));
        for n in 0..3 * PluginLogThrottle::MOST {
            throttle.hear(&plugin(n), "a");
        }
        assert!(throttle.0.lock().len() <= PluginLogThrottle::MOST);
    }
}
