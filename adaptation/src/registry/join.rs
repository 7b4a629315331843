//! A plugin on its way in: what it is shown, and what happens meanwhile.

use std::sync::Arc;

use nri_proto::PluginId;
use tokio::time::timeout;

use crate::api::snapshot::Snapshot;
use crate::api::source::SourceError;
use crate::config::policy::Identity;
use crate::operation::shared::Shared;
use crate::registry::admission::AdmitError;
use crate::session::PluginSession;
use crate::session::faults::Mistake;

/// How often a plugin is synchronized because more happened than is kept for it, or its backlog did
/// not become shorter.
pub(crate) const ATTEMPTS: usize = 4;

/// A plugin that has registered and is not let in yet. It has its place among the plugins from now
/// on, and who needs it may wait for it.
pub(crate) struct Arrival {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: PluginId,
    pub(crate) identity: Identity,
}

impl Arrival {
    /// Checks that a plugin may come, and reserves its place. Whoever watches is told if it may
    /// not.
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

/// A plugin that is to join. Unless it does, whatever still waits for its answers ends with this.
pub(crate) struct Newcomer(pub(crate) Arc<PluginSession>);

impl Drop for Newcomer {
    fn drop(&mut self) {
        if !self.0.has_joined() {
            self.0.close("it did not join");
        }
    }
}

/// A plugin that joins. From its beginning on, all that happens is kept for it.
pub(crate) struct Join<'a> {
    shared: &'a Shared,
    entry: &'a Arc<PluginSession>,
}

impl<'a> Join<'a> {
    /// Begins, or begins anew.
    pub(crate) fn begin(shared: &'a Shared, entry: &'a Arc<PluginSession>) -> Result<Self, AdmitError> {
        if shared.begin_join(entry) { Ok(Self { shared, entry }) } else { Err(AdmitError::Stopped) }
    }

    /// What there was when it began: all that has happened since will be told.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, AdmitError> {
        let Self { shared, entry } = self;
        if entry.terms().hears_nothing() {
            shared.end_snapshot(entry);
            return Ok(Snapshot::default());
        }
        let Ok(snapshot) = timeout(shared.services.config.source_timeout, shared.services.source.snapshot()).await
        else {
            let source = SourceError("it did not say in time what there is".to_owned());
            return Err(AdmitError::Source { plugin: entry.id.clone(), source });
        };
        let touched = shared.end_snapshot(entry);
        let touched = match shared.services.makes(Mistake::SnapshotAfterTheFact) {
            true => Default::default(),
            false => touched,
        };
        let (snapshot, hidden) = touched.put_back(snapshot);
        Ok(snapshot.seen_by(&entry.terms().policy().namespaces, &hidden))
    }

    /// Tells the plugin what has happened since. False if that is more than was kept, or if the
    /// backlog does not become shorter. A plugin that is not done within its `sync_timeout` joins,
    /// and counts as silent until it is.
    pub(crate) async fn catch_up(&self) -> Result<bool, AdmitError> {
        let Self { shared: _, entry } = self;
        let terms = entry.terms();
        let caught_up = timeout(terms.policy().sync_timeout, entry.catches_up()).await;
        if entry.closed.is_cancelled() {
            return Err(AdmitError::Closed { plugin: entry.id.clone(), reason: entry.reason().to_owned() });
        }
        if entry.is_deaf() {
            // A plugin begins anew when it has answered what it was told.
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
