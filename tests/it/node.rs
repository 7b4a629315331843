//! A runtime over connections in memory, and fixtures for its tests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Happening, Source, UpdatesFailed};
use nri_proto::{Container, Eviction, PluginId, Pod, Update};
use tokio::sync::broadcast::Receiver;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A runtime that handles updates as the test determines.
pub(crate) struct Node {
    pub(crate) snapshot: Snapshot,
    pub(crate) apply: fn(Vec<Update>) -> Result<Vec<Update>, UpdatesFailed>,
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        (self.apply)(updates)
    }
}

pub(crate) const DONE: Node =
    Node { snapshot: Snapshot { pods: Vec::new(), containers: Vec::new() }, apply: |_| Ok(Vec::new()) };

pub(crate) fn start(config: &str, node: Node) -> Adaptation {
    Adaptation::new(Config { socket: None, ..Config::from_toml(config).unwrap() }, Arc::new(node))
}

pub(crate) fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), ..Pod::default() }
}

pub(crate) fn container(id: &str) -> Container {
    Container { id: id.to_owned(), ..Container::default() }
}

/// Waits until a plugin is closed, and returns the reason.
pub(crate) async fn closed(happenings: &mut Receiver<Happening>) -> String {
    loop {
        if let Happening::Closed { reason, .. } = happenings.recv().await.unwrap() {
            return reason;
        }
    }
}
