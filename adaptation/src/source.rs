//! The runtime, as the adaptation needs it.

use async_trait::async_trait;
use nri_proto::{Eviction, PluginId, Update};

use crate::snapshot::Snapshot;

/// Where a joining plugin's snapshot comes from, and where what plugins want by themselves goes to.
///
/// Neither may wait for a lock under which plugins are asked: a plugin may call back while it is.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The pods and containers that there are.
    async fn snapshot(&self) -> Snapshot;

    /// Updates and evicts containers because a plugin asks for it. Returns the updates that failed.
    async fn apply(&self, plugin: &PluginId, updates: Vec<Update>, evictions: Vec<Eviction>) -> Vec<Update>;
}
