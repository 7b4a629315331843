//! The join of a plugin: its snapshot, and what happens until it has joined.

use std::sync::Arc;

use nri_proto::PluginId;
use tokio::time::timeout;

use crate::api::snapshot::Snapshot;
use crate::api::source::SourceError;
use crate::config::policy::Identity;
use crate::mistake::Mistake;
use crate::operation::shared::Shared;
use crate::registry::admission::AdmitError;
use crate::session::PluginSession;

/// How many times a join is attempted. A join starts again if more happened than the journal holds,
/// or if the backlog did not become shorter.
pub(crate) const ATTEMPTS: usize = 4;

/// A plugin that has registered and is not admitted yet. Its place is reserved, and requests that
/// require the plugin may wait for it.
pub(crate) struct Arrival {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: PluginId,
    pub(crate) identity: Identity,
}

impl Arrival {
    /// Checks that a plugin is permitted, and reserves its place. If it is refused, subscribers are
    /// notified.
    pub(crate) fn begin(shared: &Arc<Shared>, id: PluginId, identity: Identity) -> Result<Self, AdmitError> {
        if let Err(error) = shared.arrives(&id, identity) {
            shared.is_refused(id, error.with_cause());
            return Err(error);
        }
        Ok(Self { shared: Arc::clone(shared), id, identity })
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.shared.has_arrived(&self.id, self.identity);
    }
}

/// The session of a plugin that is to join. If it is dropped before the plugin has joined, the
/// session is closed, so that nothing waits for its answers any more.
pub(crate) struct Newcomer(pub(crate) Arc<PluginSession>);

impl Drop for Newcomer {
    fn drop(&mut self) {
        if !self.0.has_joined() {
            self.0.close("it did not join");
        }
    }
}

/// The join of a plugin. Events are journaled for the plugin from the beginning of the join.
pub(crate) struct Join<'a> {
    shared: &'a Shared,
    entry: &'a Arc<PluginSession>,
}

impl<'a> Join<'a> {
    /// Begins a join, or starts it again.
    pub(crate) fn begin(shared: &'a Shared, entry: &'a Arc<PluginSession>) -> Result<Self, AdmitError> {
        if shared.begin_join(entry) { Ok(Self { shared, entry }) } else { Err(AdmitError::Stopped) }
    }

    /// Returns the pods and containers as they were when the join began. Everything that happens
    /// later is in the journal.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, AdmitError> {
        let Self { shared, entry } = self;
        if entry.terms().hears_nothing() {
            shared.end_snapshot(entry);
            return Ok(Snapshot::default());
        }
        let Ok(snapshot) = timeout(shared.services.config.source_timeout, shared.services.source.snapshot()).await
        else {
            let source = SourceError("the snapshot was not ready in time".to_owned());
            return Err(AdmitError::Source { plugin: entry.id.clone(), source });
        };
        let touched = shared.end_snapshot(entry);
        let touched = match Mistake::SnapshotAfterTheFact.is_injected() {
            true => Default::default(),
            false => touched,
        };
        let (snapshot, hidden) = touched.put_back(snapshot);
        Ok(snapshot.seen_by(&entry.terms().policy().namespaces, &hidden))
    }

    /// Tells the plugin what has happened since its snapshot. Returns false if that was more than
    /// the journal holds, or if the backlog does not become shorter. If the plugin does not finish
    /// within its `sync_timeout`, the plugin joins all the same, and counts as silent until it has
    /// finished.
    pub(crate) async fn catch_up(&self) -> Result<bool, AdmitError> {
        let Self { shared: _, entry } = self;
        let terms = entry.terms();
        let caught_up = timeout(terms.policy().sync_timeout, entry.catches_up()).await;
        if entry.closed.is_cancelled() {
            return Err(AdmitError::Closed { plugin: entry.id.clone(), reason: entry.reason().to_owned() });
        }
        if entry.is_deaf() {
            // The join starts again only after the plugin has answered the requests that it was
            // sent.
            let idle = timeout(terms.policy().request_timeout, entry.is_idle()).await;
            return match idle {
                Ok(()) => Ok(false),
                Err(_elapsed) => Err(AdmitError::Overtaken { plugin: entry.id.clone() }),
            };
        }
        if caught_up.is_err() {
            entry.falls_behind();
        }
        Ok(true)
    }
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        self.shared.end_join(self.entry);
    }
}
