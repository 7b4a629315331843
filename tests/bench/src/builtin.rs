//! Our adaptation with built-in plugins whose replies are prepared.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use nri_adaptation::plugin::{Introduction, PluginError, Reply, Subscription};
use nri_adaptation::request::Request;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Plugin, Source, UpdatesFailed};
use nri_proto::{Container, CreateReply, Event, EventMask, Eviction, PluginId, Pod, Update};

/// A runtime without pods and containers, with these plugins.
pub(crate) struct BuiltIn {
    nri: Adaptation,
    plugins: Vec<Arc<Ready>>,
    pod: Arc<Pod>,
}

impl BuiltIn {
    pub(crate) async fn new(ids: impl Iterator<Item = PluginId>, pod: Pod) -> Result<Self> {
        let config = Config { socket: None, plugin_path: None, plugin_config_path: None, ..Config::default() };
        let nri = Adaptation::new(config, Arc::new(Nothing));
        let mut plugins = Vec::new();
        for id in ids {
            let plugin = Arc::new(Ready::default());
            nri.admit(id, Arc::clone(&plugin) as _).await?;
            plugins.push(plugin);
        }
        Ok(Self { nri, plugins, pod: Arc::new(pod) })
    }

    /// Gives each plugin one more reply.
    pub(crate) fn prepare(&self, replies: impl Iterator<Item = CreateReply>) {
        for (plugin, reply) in self.plugins.iter().zip(replies) {
            plugin.0.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
        }
    }

    /// Creates a container. Returns how long that took, and the number of variables in the result.
    pub(crate) async fn create(&self, container: Container) -> Result<(Duration, usize)> {
        let start = Instant::now();
        let operation = self.nri.begin(Arc::clone(&self.pod));
        let merged = operation.create_container(container).await?;
        operation.commit();
        Ok((start.elapsed(), merged.adjustment.env.len()))
    }

    pub(crate) async fn stop(&self) {
        self.nri.stop().await;
    }
}

/// A plugin with prepared replies.
#[derive(Default)]
struct Ready(Mutex<Vec<CreateReply>>);

#[async_trait]
impl Plugin for Ready {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        Ok([Event::CreateContainer].into_iter().collect::<EventMask>().into())
    }

    async fn ask(self: Arc<Self>, _: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        reply.map(Reply::from).ok_or_else(|| PluginError::refused("there is no reply left"))
    }
}

/// A runtime without containers.
struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}
