//! The runtime, as the adaptation needs it.

use async_trait::async_trait;
use nri_proto::{Eviction, PluginId, Update};
use thiserror::Error;

use crate::snapshot::Snapshot;

/// Why the runtime does not let a plugin in that it has synchronized.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Where a joining plugin's snapshot comes from, and where what plugins want by themselves goes to.
///
/// Neither may wait for a lock under which plugins are asked: a plugin may call back while it is. What takes longer than
/// [`source_timeout`](crate::Config::source_timeout) is given up, and its future dropped.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The pods and containers that there are. Those that have stopped need not be among them: plugins are told all the same when they are
    /// removed.
    ///
    /// It shows what was [committed](crate::Operation::commit), and nothing of an operation in which nothing was asked yet. Of others it may show
    /// what is already so, or not.
    async fn snapshot(&self) -> Snapshot;

    /// A plugin was told what there is, and asks for these updates, if for any. Returns the updates that failed. By default
    /// they are [applied](Source::apply).
    ///
    /// # Errors
    ///
    /// The plugin is not let in.
    async fn synchronized(&self, plugin: &PluginId, updates: Vec<Update>) -> Result<Vec<Update>, SourceError> {
        if updates.is_empty() { Ok(updates) } else { Ok(self.apply(plugin, updates, Vec::new()).await) }
    }

    /// Whether it [writes down](crate::Adaptation::record) itself why updates failed that a plugin asked for by itself. By default it does not,
    /// and the ledger says only that they did.
    fn records_failures(&self) -> bool {
        false
    }

    /// Updates and evicts containers because a plugin asks for it. Returns the updates that failed.
    async fn apply(&self, plugin: &PluginId, updates: Vec<Update>, evictions: Vec<Eviction>) -> Vec<Update>;
}
