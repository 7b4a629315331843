//! How a plugin leaves whose time is over, while the runtime goes on.

use std::sync::Arc;

use tokio::time::timeout;

use crate::entry::Entry;

/// Lets a plugin go: it answers what it was asked, hears that it is to go, and is closed. Each of them has its limit, and
/// all of it ends when the adaptation stops.
pub(crate) async fn leave(entry: Arc<Entry>, reason: &str) {
    let parting = async {
        // Whoever waits to ask it is told when it is closed. Its lanes are not given back before.
        let lanes = timeout(entry.terms().policy().request_timeout, entry.all_lanes()).await;
        if lanes.is_ok() {
            // It is closed all the same.
            let _ = timeout(entry.shared.config.shutdown_grace, entry.plugin.shutdown()).await;
        }
    };
    entry.shared.stopping.run_until_cancelled(parting).await;
    entry.close(reason);
}
