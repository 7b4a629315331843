//! Waits for a condition that a [`Notify`] announces.

use tokio::sync::Notify;

/// Waits until a condition holds. The condition is checked now, and after each call of
/// [`Notify::notify_waiters`]. A single [`Notify::notify_one`] may be missed.
pub(crate) async fn wait_until(changed: &Notify, is_so: impl Fn() -> bool) {
    loop {
        // Created before the check, so a change after the check ends this wait.
        let notified = changed.notified();
        if is_so() {
            return;
        }
        notified.await;
    }
}
