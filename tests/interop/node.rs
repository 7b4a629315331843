//! A runtime of ours, and plugins that are processes of their own.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Happening, Source, UpdatesFailed};
use nri_proto::{Container, Eviction, PluginId, Pod, Update};
use tokio::process::Command;
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use crate::peer::PATIENCE;
pub(crate) use crate::program::Program as Plugin;

/// A runtime with one pod, `p`, and plugins.
pub(crate) struct Node {
    pub(crate) nri: Adaptation,
    store: Arc<Store>,
    happenings: Receiver<Happening>,
    directory: tempfile::TempDir,
}

/// The id of a container that does not exist. An update of it is an error; updates of other missing
/// containers are listed as failed.
pub(crate) const REFUSED: &str = "refused";

/// The containers of the pod, `c0` and so on, each with this many bytes of environment, and the
/// changes that plugins asked for.
#[derive(Default)]
struct Store {
    containers: Vec<Container>,
    updated: Mutex<Vec<(PluginId, Update)>>,
    evicted: Mutex<Vec<(PluginId, Eviction)>>,
}

#[async_trait]
impl Source for Store {
    async fn snapshot(&self) -> Snapshot {
        Snapshot { pods: vec![pod()], containers: self.containers.clone() }
    }

    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        let is_there = |update: &Update| self.containers.iter().any(|container| container.id == update.container_id);
        let (made, failed): (Vec<_>, _) = updates.into_iter().partition(is_there);
        self.updated.lock().unwrap().extend(made.into_iter().map(|update| (plugin.clone(), update)));
        self.evicted.lock().unwrap().extend(evictions.into_iter().map(|eviction| (plugin.clone(), eviction)));
        if failed.iter().any(|update| update.container_id == REFUSED) {
            return Err(UpdatesFailed { reason: format!("{REFUSED}: it is not to be"), failed });
        }
        Ok(failed)
    }
}

/// Returns the pod of the node.
pub(crate) fn pod() -> Pod {
    Pod { id: "p".to_owned(), name: "p".to_owned(), ..Pod::default() }
}

/// Returns a container of the pod.
pub(crate) fn container(id: &str) -> Container {
    Container { id: id.to_owned(), pod_id: "p".to_owned(), ..Container::default() }
}

fn config(policy: &str, directory: &Path) -> Config {
    Config {
        runtime_name: "node".to_owned(),
        runtime_version: "v1.2.3".to_owned(),
        socket: Some(directory.join("nri.sock")),
        ..Config::from_toml(policy).unwrap()
    }
}

impl Node {
    /// Starts a runtime with this many containers.
    pub(crate) fn start(n_containers: usize, env_bytes: usize) -> Self {
        Self::with_policy("", n_containers, env_bytes)
    }

    /// Starts a runtime with this policy and this many containers.
    pub(crate) fn with_policy(policy: &str, n_containers: usize, env_bytes: usize) -> Self {
        let env = vec![format!("E={}", "x".repeat(env_bytes.saturating_sub("E=".len())))];
        let containers =
            (0..n_containers).map(|n| Container { env: env.clone(), ..container(&format!("c{n}")) }).collect();
        let store = Arc::new(Store { containers, ..Store::default() });
        let directory = tempfile::tempdir().unwrap();
        let nri = Adaptation::new(config(policy, directory.path()), Arc::clone(&store) as Arc<_>);
        let happenings = nri.watch();
        nri.listen().unwrap();
        Self { nri, store, happenings, directory }
    }

    /// Reloads the policy, which applies to plugins that have joined from now on. On a busy machine
    /// a plugin may take longer to join than a test wants to wait for its silence.
    pub(crate) fn reload(&self, policy: &str) {
        assert_eq!(self.nri.reload(&config(policy, self.directory.path())), [""; 0], "this needs a restart");
    }

    /// Starts a plugin that connects.
    pub(crate) fn plugin(&self, program: &Path, args: &[&str]) -> Plugin {
        let mut command = Command::new(program);
        command.arg("-socket").arg(self.directory.path().join("nri.sock")).args(args);
        Plugin::start(command)
    }

    /// Returns the next event.
    pub(crate) async fn next(&mut self) -> Happening {
        timeout(PATIENCE, self.happenings.recv()).await.expect("nothing happens").unwrap()
    }

    /// Waits until a plugin has joined, and returns its events and its policy. Skips events about
    /// requests to other plugins.
    pub(crate) async fn joined(&mut self) -> (nri_proto::EventMask, String) {
        loop {
            let happening = self.next().await;
            if let Happening::Joined { events, policy, .. } = happening {
                return (events, policy);
            }
            let is_before = matches!(happening, Happening::Asked { .. } | Happening::Launched { .. });
            assert!(is_before, "it did not join: {happening:?}");
        }
    }

    /// Waits until a plugin is closed, and returns the reason. Skips events about requests to it.
    pub(crate) async fn closed(&mut self) -> String {
        loop {
            if let Happening::Closed { reason, .. } = self.next().await {
                return reason;
            }
        }
    }

    /// Returns the updates that plugins asked for and that were applied: plugin, container and CPU
    /// shares.
    pub(crate) fn updated(&self) -> Vec<(String, String, Option<u64>)> {
        let shares = |update: &Update| update.resources()?.cpu.as_ref()?.shares;
        let updated = self.store.updated.lock().unwrap();
        updated
            .iter()
            .map(|(plugin, update)| (plugin.to_string(), update.container_id.clone(), shares(update)))
            .collect()
    }

    /// Returns the evictions that plugins asked for: plugin, container and reason.
    pub(crate) fn evicted(&self) -> Vec<(String, String, String)> {
        let evicted = self.store.evicted.lock().unwrap();
        let eviction = |(plugin, Eviction { container_id, reason, .. }): &(PluginId, Eviction)| {
            (plugin.to_string(), container_id.clone(), reason.clone())
        };
        evicted.iter().map(eviction).collect()
    }
}
