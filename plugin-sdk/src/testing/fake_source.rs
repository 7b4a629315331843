//! The pods and containers of a node for tests, and a record of what plugins asked for.

use std::collections::BTreeSet;

use async_trait::async_trait;
use nri_adaptation::ledger::{Entry, Occasion};
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Update};
use parking_lot::{Mutex, MutexGuard};

/// The source of the snapshot. It records updates and evictions instead of applying them.
#[derive(Debug)]
pub(super) struct FakeSource {
    snapshot: Snapshot,
    state: Mutex<FakeSourceState>,
}

/// The recorded updates and evictions, and which updates fail.
#[derive(Debug, Default)]
struct FakeSourceState {
    updates: Vec<(PluginId, Update)>,
    evictions: Vec<(PluginId, Eviction)>,
    /// The ids of the containers whose updates fail.
    failing: BTreeSet<String>,
}

impl FakeSource {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self { snapshot, state: Mutex::default() }
    }

    pub(super) fn updates(&self) -> Vec<(PluginId, Update)> {
        self.state().updates.clone()
    }

    pub(super) fn evictions(&self) -> Vec<(PluginId, Eviction)> {
        self.state().evictions.clone()
    }

    pub(super) fn fail_updates_of(&self, container: &str) {
        self.state().failing.insert(container.to_owned());
    }

    fn state(&self) -> MutexGuard<'_, FakeSourceState> {
        self.state.lock()
    }
}

#[async_trait]
impl Source for FakeSource {
    async fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        let mut state = self.state();
        let (failed, made): (Vec<_>, Vec<_>) =
            updates.into_iter().partition(|update| state.failing.contains(&update.container_id));
        state.updates.extend(made.into_iter().map(|update| (plugin.clone(), update)));
        state.evictions.extend(evictions.into_iter().map(|eviction| (plugin.clone(), eviction)));
        Ok(failed)
    }
}

/// Formats an entry of the ledger, without the time that the plugin took.
pub(super) fn sentence(entry: &Entry) -> String {
    let occasion = Occasion { took: None, ..Occasion::clone(&entry.occasion) };
    Entry { occasion: occasion.into(), ..entry.clone() }.to_string()
}
