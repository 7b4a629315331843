//! The runtime, as the adaptation needs it.

use std::collections::HashMap;

use async_trait::async_trait;
use nri_proto::{Eviction, PluginId, Update};
use thiserror::Error;

use crate::api::snapshot::Snapshot;

/// Why the runtime does not let a plugin in that it has synchronized.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Updates that a plugin asked for by itself, and that the runtime failed to apply.
///
/// A plugin that is told this gets an error and the list. A plugin on Go's stub sees the error
/// alone.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{reason}")]
pub struct UpdatesFailed {
    /// What the plugin is told: which updates failed, and why. More than 4096 bytes are cut off.
    pub reason: String,
    /// The updates that failed.
    pub failed: Vec<Update>,
}

/// Where a joining plugin's snapshot comes from, and where what plugins want by themselves goes to.
///
/// Neither may wait for a lock under which plugins are asked: a plugin may call back while it is.
/// What takes longer than [`source_timeout`](crate::Config::source_timeout) is given up, and its
/// future dropped.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The pods and containers that there are. Those that have stopped need not be among them:
    /// plugins are told all the same when they are removed.
    ///
    /// It shows what was [committed](crate::Operation::commit), and nothing of an operation in
    /// which nothing was asked yet. Of others it may show what is already so, or not.
    async fn snapshot(&self) -> Snapshot;

    /// Looks up in which namespaces of Kubernetes containers are: in those of their pods. Asked for
    /// what a plugin wants to change that does not see all pods. By default it is looked up in a
    /// [snapshot](Source::snapshot); a runtime with many containers had better look these up.
    ///
    /// Of several containers that have one id the namespaces of all are returned, of all that an
    /// update or eviction by this id might reach. A container whose namespace is not known, or that
    /// of another one of its id, is left out: the plugin may not change it.
    async fn namespaces_of(&self, containers: &[String]) -> HashMap<String, Vec<String>> {
        self.snapshot().await.namespaces_of(containers)
    }

    /// A plugin was told what there is, and asks for these updates, if for any. Returns the updates
    /// that failed. By default they are [applied](Source::apply), and a plugin whose updates fail
    /// is let in all the same.
    ///
    /// # Errors
    ///
    /// The plugin is not let in.
    async fn synchronized(&self, plugin: &PluginId, updates: Vec<Update>) -> Result<Vec<Update>, SourceError> {
        if updates.is_empty() {
            return Ok(updates);
        }
        Ok(self.apply(plugin, updates, Vec::new()).await.unwrap_or_else(|UpdatesFailed { reason: _, failed }| failed))
    }

    /// Whether it [writes down](crate::Adaptation::record) itself why updates failed that a plugin
    /// asked for by itself. By default it does not, and the ledger says only that they did.
    fn records_failures(&self) -> bool {
        false
    }

    /// Updates and evicts containers because a plugin asks for it. Returns the updates that failed.
    ///
    /// The plugin gets the list of failed updates in either case. If this returns `Ok`, the
    /// plugin's call succeeds: a plugin on Go's stub has to look at the list. If this returns an
    /// error, the plugin's call fails.
    ///
    /// # Errors
    ///
    /// Updates failed, and the plugin's call is to fail.
    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed>;
}
