//! How a plugin leaves whose time is over, while the runtime goes on.

use std::sync::Arc;

use tokio::time::timeout;

use crate::operation::shared::Shared;
use crate::registry::membership::Leaver;
use crate::session::PluginSession;

/// Lets a plugin go that is not asked any more in operations that begin now: those that it takes
/// part in ask it to their end, it hears what of them came to nothing, answers what it was asked,
/// hears that it is to go, and is closed. Each of them has its limit, and all of it ends when the
/// adaptation stops.
pub(crate) async fn leave(shared: &Shared, entry: Arc<PluginSession>, reason: &str) {
    let _leaver = Leaver::begin(shared, &entry);
    // Without one that is required, what is under way fails.
    let terms = entry.terms();
    let policy = terms.policy();
    let limit = if policy.required { policy.join_timeout } else { policy.request_timeout };
    let parting = async {
        // Whatever is still open then does without it.
        let _ = timeout(limit, shared.takes_no_part(&entry)).await;
        // It has seen begin what has come to nothing since.
        let _ = timeout(policy.request_timeout, shared.is_owed_no_undo(&entry)).await;
        // Whoever waits to ask it is told when it is closed. Its lanes are not given back before.
        let lanes = timeout(policy.request_timeout, entry.all_lanes()).await;
        if lanes.is_ok() {
            // It is closed all the same.
            let _ = timeout(shared.services.config.shutdown_grace, entry.plugin.shutdown()).await;
        }
    };
    tokio::select! {
        biased;
        () = shared.services.stopping.cancelled() => {}
        () = entry.closed.cancelled() => {}
        () = parting => {}
    }
    entry.close(reason);
}
