//! What a node for tests has, and what was done to it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use nri_adaptation::ledger::{Entry, Occasion};
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Update};
use parking_lot::{Mutex, MutexGuard};

#[derive(Debug)]
pub(super) struct Inventory {
    there_is: Snapshot,
    done: Mutex<Done>,
}

#[derive(Debug, Default)]
struct Done {
    updates: Vec<(PluginId, Update)>,
    evictions: Vec<(PluginId, Eviction)>,
    failing: BTreeSet<String>,
}

impl Inventory {
    pub(super) fn new(there_is: Snapshot) -> Self {
        Self { there_is, done: Mutex::default() }
    }

    pub(super) fn updates(&self) -> Vec<(PluginId, Update)> {
        self.done().updates.clone()
    }

    pub(super) fn evictions(&self) -> Vec<(PluginId, Eviction)> {
        self.done().evictions.clone()
    }

    pub(super) fn fail_updates_of(&self, container: &str) {
        self.done().failing.insert(container.to_owned());
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock()
    }
}

#[async_trait]
impl Source for Inventory {
    async fn snapshot(&self) -> Snapshot {
        self.there_is.clone()
    }

    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        let mut done = self.done();
        let (failed, made): (Vec<_>, Vec<_>) =
            updates.into_iter().partition(|update| done.failing.contains(&update.container_id));
        done.updates.extend(made.into_iter().map(|update| (plugin.clone(), update)));
        done.evictions.extend(evictions.into_iter().map(|eviction| (plugin.clone(), eviction)));
        Ok(failed)
    }
}

/// What an entry of the ledger says, without how long it took.
pub(super) fn sentence(entry: &Entry) -> String {
    let occasion = Occasion { took: None, ..Occasion::clone(&entry.occasion) };
    Entry { occasion: occasion.into(), ..entry.clone() }.to_string()
}
