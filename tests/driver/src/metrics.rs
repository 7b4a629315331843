//! Metrics of the adaptation, for waiting for plugins, and for the controller if it wants the
//! records.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri_adaptation::plugin::Reply;
use nri_adaptation::{Cause, Metrics};
use nri_proto::{CreateReply, PluginId, StopReply, UpdateReply, api};
use tokio::sync::watch;

use crate::clock::monotonic_ns;
use crate::layer::Layer;
use crate::node::{Node, Syncs};
use crate::protocol::{Encoded, Metric};
use crate::relay::chain;
use crate::watch::active;

const SYNCHRONIZE: &str = "Synchronize";

/// The counts of one start of the runtime.
pub(crate) struct Counts {
    syncs: Arc<Syncs>,
    records: bool,
    /// The node to notify of the updates that plugins ask for when they are synchronized, unless
    /// another part notifies it.
    synced: Option<Arc<Node>>,
    /// Whether the plugins of the start have joined. The number of plugins is recorded from then
    /// on.
    started: AtomicBool,
    count: watch::Sender<usize>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    metrics: Vec<Metric>,
    /// The last time at which the number of plugins had each value.
    reached: HashMap<usize, i64>,
}

impl Counts {
    pub(crate) fn new(syncs: Arc<Syncs>, records: bool, synced: Option<Arc<Node>>) -> Self {
        let started = AtomicBool::new(false);
        Self { syncs, records, synced, started, count: watch::Sender::new(0), kept: Mutex::default() }
    }

    /// Records that the start is complete, and that plugins join by themselves from now on.
    pub(crate) fn started(&self, layer: &Layer) {
        self.started.store(true, Ordering::Relaxed);
        self.requested(layer);
    }

    /// Takes the records since the last call, if records are kept.
    pub(crate) fn take(&self) -> Option<Vec<Metric>> {
        self.records.then(|| std::mem::take(&mut self.kept().metrics))
    }

    /// Waits until there are `n` plugins.
    pub(crate) async fn reach(&self, n: usize) {
        // Cannot fail, because `self` owns the sender.
        let _ = self.count.subscribe().wait_for(|count| *count == n).await;
    }

    /// Waits until closed plugins are no longer counted: the adaptation reports a close right
    /// before it updates the count.
    pub(crate) async fn caught_up(&self, layer: &Layer) {
        let mut count = self.count.subscribe();
        let catching_up = async {
            while *count.borrow_and_update() != active(layer).count() {
                // Cannot fail, because `self` owns the sender.
                let _ = count.changed().await;
            }
        };
        // This takes no time, but the controller must not wait for ever if that is wrong.
        let _ = tokio::time::timeout(Duration::from_secs(1), catching_up).await;
    }

    /// Returns the number of plugins, and since when there are that many.
    pub(crate) fn now(&self) -> (usize, i64) {
        let count = *self.count.borrow();
        (count, self.kept().reached.get(&count).copied().unwrap_or(0))
    }

    /// Records the number of plugins, which Go also does after each request.
    pub(crate) fn requested(&self, layer: &Layer) {
        self.record(|| Metric::Count { count: active(layer).count() });
    }

    fn record(&self, metric: impl FnOnce() -> Metric) {
        if self.records {
            let metric = metric();
            self.kept().metrics.push(metric);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics for Counts {
    fn invocation(&self, plugin: &PluginId, operation: &str, failure: Option<&Cause>) {
        let error = failure.map(|cause| chain(cause)).unwrap_or_default();
        if operation == SYNCHRONIZE {
            self.syncs.end(&error);
        }
        self.record(|| Metric::Invocation { plugin: plugin.to_string(), op: operation.to_owned(), error });
    }

    fn latency(&self, plugin: &PluginId, operation: &str, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.record(|| Metric::Latency { plugin: plugin.to_string(), op: operation.to_owned(), ns });
    }

    fn adjustments(&self, plugin: &PluginId, operation: &str, reply: &Reply) {
        if let (SYNCHRONIZE, Reply::Stop(reply), Some(node)) = (operation, reply, &self.synced) {
            node.tell_synced(plugin, reply.updates.clone());
        }
        let (adjustment, updates, evicts) = match reply {
            Reply::Create(reply) => {
                let CreateReply { adjustment, updates, evictions, unknown: _ } = &**reply;
                (adjustment.as_ref(), updates.len(), evictions.len())
            }
            Reply::Update(UpdateReply { updates, evictions, unknown: _ }) => (None, updates.len(), evictions.len()),
            Reply::Stop(StopReply { updates, unknown: _ }) => (None, updates.len(), 0),
            Reply::Heard | Reply::Verdict(_) => return,
        };
        self.record(|| Metric::Adjustments {
            plugin: plugin.to_string(),
            op: operation.to_owned(),
            adjusts: adjustment.is_some(),
            adjust_b64: adjustment
                .map(|adjustment| Encoded::of(&api::ContainerAdjustment::from(adjustment.clone())))
                .unwrap_or_default(),
            updates,
            evicts,
        });
    }

    /// Called when a plugin joins and when a plugin is gone. Go records only the former.
    fn plugins(&self, count: usize) {
        self.kept().reached.insert(count, monotonic_ns());
        if count > self.count.send_replace(count) && self.started.load(Ordering::Relaxed) {
            self.record(|| Metric::Count { count });
        }
    }
}
