//! The interface of the runtime that the adaptation needs.

use std::collections::HashMap;

use async_trait::async_trait;
use nri_proto::{Eviction, PluginId, Update};
use thiserror::Error;

use crate::api::snapshot::Snapshot;

/// Why the runtime does not admit a plugin that was synchronized.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Updates that a plugin asked for outside a request, and that the runtime failed to apply.
///
/// The plugin gets an error and the list of failed updates. A plugin on Go's stub sees only the
/// error.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{reason}")]
pub struct UpdatesFailed {
    /// The error that the plugin gets: which updates failed, and why. The text is cut after 4096
    /// bytes.
    pub reason: String,
    /// The updates that failed.
    pub failed: Vec<Update>,
}

/// The runtime: provides snapshots for joining plugins, and applies what plugins ask for outside
/// requests.
///
/// The methods must not wait for a lock that the runtime holds while it asks plugins, because a
/// plugin may call back during a request. A call that takes longer than
/// [`source_timeout`](crate::Config::source_timeout) fails, and its future is dropped.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Returns the pods and containers that exist. Stopped ones may be left out: plugins are
    /// notified of their removal all the same.
    ///
    /// The snapshot contains the results of operations that were
    /// [committed](crate::Operation::commit), and nothing of an operation whose first request has
    /// not been made. The intermediate state of other operations may be visible or not.
    async fn snapshot(&self) -> Snapshot;

    /// Returns the Kubernetes namespaces of containers: the namespaces of their pods. Called when a
    /// plugin that may not see all pods wants to change containers. The default implementation
    /// takes a [snapshot](Source::snapshot). A runtime with many containers should look them up
    /// instead.
    ///
    /// If several containers share an id, the namespaces of all containers that an update or
    /// eviction by this id might reach are returned. If one of these namespaces is unknown, the id
    /// is left out, and the plugin may not change the container.
    async fn namespaces_of(&self, containers: &[String]) -> HashMap<String, Vec<String>> {
        self.snapshot().await.namespaces_of(containers)
    }

    /// Completes the synchronization of a plugin, with the updates that the plugin asks for.
    /// Returns the updates that failed. By default, the updates are [applied](Source::apply), and
    /// failed updates do not keep the plugin from joining.
    ///
    /// # Errors
    ///
    /// An error refuses the plugin.
    async fn synchronized(&self, plugin: &PluginId, updates: Vec<Update>) -> Result<Vec<Update>, SourceError> {
        if updates.is_empty() {
            return Ok(updates);
        }
        Ok(self.apply(plugin, updates, Vec::new()).await.unwrap_or_else(|UpdatesFailed { reason: _, failed }| failed))
    }

    /// Returns whether the runtime itself [records](crate::Adaptation::record) in the ledger why
    /// updates that a plugin asked for have failed. By default it does not, and the ledger records
    /// only that they failed.
    fn records_failures(&self) -> bool {
        false
    }

    /// Applies updates and evictions that a plugin asks for. Returns the updates that failed.
    ///
    /// The plugin gets the list of failed updates in either case. If this method returns `Ok`, the
    /// plugin's call succeeds, and a plugin on Go's stub has to check the list. If it returns an
    /// error, the plugin's call fails.
    ///
    /// # Errors
    ///
    /// Updates failed, and the plugin's call has to fail.
    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed>;
}
