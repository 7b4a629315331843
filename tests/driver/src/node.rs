//! The runtime behind the adaptation: it has what the controller says it has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use nri_adaptation::Source;
use nri_adaptation::snapshot::Snapshot;
use nri_proto::{Eviction, PluginId, Update, api};

use crate::clock::monotonic_ns;
use crate::lines::Lines;
use crate::protocol::{Encoded, Event, Objects, Request, Sync};

/// What the controller said last.
pub(crate) struct Node {
    lines: Lines,
    callbacks: bool,
    sync_events: bool,
    state: Arc<Mutex<State>>,
}

/// What outlives one start of the runtime.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) snapshot: Snapshot,
    pub(crate) syncs: Vec<Sync>,
}

impl Node {
    pub(crate) fn new(lines: Lines, request: &Request, state: Arc<Mutex<State>>) -> Self {
        Self { lines, callbacks: request.callbacks, sync_events: request.sync_events, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a plugin is to be synchronized with.
pub(crate) fn decode(objects: &Objects) -> Result<Snapshot> {
    let pods = objects.pods_b64.iter().map(|pod| Ok(pod.decode::<api::PodSandbox>()?.into()));
    let containers = objects.containers_b64.iter().map(|container| Ok(container.decode::<api::Container>()?.into()));
    Ok(Snapshot { pods: pods.collect::<Result<_>>()?, containers: containers.collect::<Result<_>>()? })
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        let t0_ns = monotonic_ns();
        let snapshot = if self.sync_events {
            let reply = self.lines.ask(|seq| Event::Sync { seq }).await.unwrap_or_default();
            decode(&reply.objects).unwrap_or_default()
        } else {
            self.state().snapshot.clone()
        };
        self.state().syncs.push(Sync { t0_ns, t1_ns: monotonic_ns() });
        snapshot
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, evictions: Vec<Eviction>) -> Vec<Update> {
        if !self.callbacks {
            return Vec::new();
        }
        let updates_b64 = updates.into_iter().map(|update| Encoded::of(&api::ContainerUpdate::from(update))).collect();
        let evict_b64 = evictions.into_iter().map(|evict| Encoded::of(&api::ContainerEviction::from(evict))).collect();
        let reply = self.lines.ask(|seq| Event::Update { seq, updates_b64, evict_b64 }).await.unwrap_or_default();
        let failed = reply.failed_b64.iter().filter_map(|failed| failed.decode::<api::ContainerUpdate>().ok());
        failed.map(Update::from).collect()
    }
}
