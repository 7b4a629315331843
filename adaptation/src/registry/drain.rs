//! Lets a plugin finish its open requests before it is closed, while the adaptation keeps running.

use std::sync::Arc;

use tokio::time::timeout;

use crate::operation::shared::Shared;
use crate::registry::membership::Leaver;
use crate::session::PluginSession;

/// Closes a plugin that was removed from the roster, after its open requests.
///
/// Operations that are open still ask the plugin until they end. The plugin is then notified of
/// operations that were rolled back, answers the requests that it was sent, is told to shut down,
/// and is closed. Each step has a time limit. All steps end early if the adaptation stops or if the
/// plugin is closed.
pub(crate) async fn leave(shared: &Shared, entry: Arc<PluginSession>, reason: &str) {
    let _leaver = Leaver::begin(shared, &entry);
    // Open operations fail without a required plugin, so such a plugin gets more time.
    let terms = entry.terms();
    let policy = terms.policy();
    let limit = if policy.required { policy.join_timeout } else { policy.request_timeout };
    let parting = async {
        // Operations that are still open after this limit continue without the plugin.
        let _ = timeout(limit, shared.takes_no_part(&entry)).await;
        // The plugin saw these operations begin, so it is told of their rollback.
        let _ = timeout(policy.request_timeout, shared.is_owed_no_undo(&entry)).await;
        // Holding all lanes keeps new requests from the plugin. The lanes are released only after
        // the plugin is closed, so that waiting requests learn of the closing.
        let lanes = timeout(policy.request_timeout, entry.all_lanes()).await;
        if lanes.is_ok() {
            // The plugin is closed whether or not it answers.
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
