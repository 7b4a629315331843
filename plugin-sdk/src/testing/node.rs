//! The runtime for tests: plugins join it, and a test reports events to it.

use std::path::PathBuf;
use std::sync::Arc;

use nri_adaptation::merge::{MergedCreate, MergedStop, MergedUpdate};
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::socket::BindError;
use nri_adaptation::{Adaptation, Config, Notice, Operation, RelayError, StopError};
use nri_proto::{Container, Eviction, PluginId, Pod, Resources, Update};
use parking_lot::{Mutex, MutexGuard};

use super::fake_source::{self, FakeSource};
use super::join::{self, JoinError, RunningPlugin};
use crate::plugin::Plugin;
use crate::runner::Options;
use crate::runtime::Runtime;

/// The capacity of the pipe between a plugin and the node, in bytes. Like that of a socket.
const PIPE: usize = 64 << 10;

/// A runtime for tests: it has plugins, but no real containers.
///
/// All methods must be called within a Tokio runtime.
pub struct Node {
    nri: Adaptation,
    source: Arc<FakeSource>,
    plugins: Mutex<Vec<RunningPlugin>>,
}

impl Node {
    /// Creates a node that has no pods and containers when a plugin joins.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Config::default(), Snapshot::default())
    }

    /// Creates a node with this configuration. Plugins that join get the snapshot.
    ///
    /// The socket in the configuration is ignored.
    #[must_use]
    pub fn with(config: Config, snapshot: Snapshot) -> Self {
        Self::new_with(Config { socket: None, ..config }, snapshot)
    }

    /// Creates a node that listens on this socket, to test a plugin as a program. Plugins that join
    /// get the snapshot.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be created.
    pub fn listening(socket: impl Into<PathBuf>, snapshot: Snapshot) -> Result<Self, BindError> {
        let config = Config { socket: Some(socket.into()), ..Config::default() };
        let node = Self::new_with(config, snapshot);
        node.nri.listen()?;
        Ok(node)
    }

    fn new_with(config: Config, snapshot: Snapshot) -> Self {
        let source = Arc::new(FakeSource::new(snapshot));
        Self { nri: Adaptation::new(config, Arc::clone(&source) as _), source, plugins: Mutex::default() }
    }

    /// Waits until a plugin with this id has joined, such as a program that connects to the socket.
    pub async fn joined(&self, id: &str) {
        let mut happenings = self.nri.watch_plugins();
        while !self.nri.plugins().iter().any(|plugin| plugin.id.as_str() == id) {
            // A missed event does no harm, since the loop checks the plugins again.
            let _ = happenings.recv().await;
        }
    }

    /// Runs a plugin on this node, and returns the plugin's handle for calling the runtime.
    ///
    /// `id` is the index and the name of the plugin, as in `10-logger`.
    ///
    /// # Errors
    ///
    /// Returns an error if the id is invalid, or if the plugin does not join.
    pub async fn join(&self, id: &str, plugin: impl Plugin) -> Result<Runtime, JoinError> {
        self.join_with(id, Arc::new(plugin), Options::default()).await
    }

    /// Runs a plugin with options, like [`Node::join`]. The test can keep a reference to the
    /// plugin.
    ///
    /// The name, the index and the connection in `options` are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the id is invalid, or if the plugin does not join.
    pub async fn join_with(&self, id: &str, plugin: Arc<dyn Plugin>, options: Options) -> Result<Runtime, JoinError> {
        let id: PluginId = id.parse().map_err(|source| JoinError::Id { id: id.to_owned(), source })?;
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let runner = join::runner(&id, plugin, options, theirs)?;
        let runtime = runner.runtime();
        let mut happenings = self.nri.watch_plugins();
        let (reader, writer) = tokio::io::split(ours);
        self.nri.attach(reader, writer);
        let mut plugin = RunningPlugin::spawn(runner);
        plugin.joined(&id, &mut happenings).await?;
        self.plugins().push(plugin);
        Ok(runtime)
    }

    /// Reports that a pod was created.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event.
    pub async fn run_pod(&self, pod: &Pod) -> Result<(), RelayError> {
        self.notify(pod, Notice::RunPod).await
    }

    /// Reports that a pod is being stopped.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event.
    pub async fn stop_pod(&self, pod: &Pod) -> Result<(), RelayError> {
        self.notify(pod, Notice::StopPod).await
    }

    /// Reports that a pod is being removed.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event.
    pub async fn remove_pod(&self, pod: &Pod) -> Result<(), RelayError> {
        self.notify(pod, Notice::RemovePod).await
    }

    /// Creates a container, and returns the merged changes of all plugins.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event, if two plugins are in conflict, or if a
    /// validator rejects the result.
    pub async fn create(&self, pod: &Pod, container: &Container) -> Result<MergedCreate, RelayError> {
        let operation = self.begin(pod);
        let created = operation.create_container(container.clone()).await?;
        operation.notify(Notice::PostCreate(container.clone())).await?;
        operation.commit();
        Ok(created)
    }

    /// Reports that a container is about to start, and then that it has started.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event.
    pub async fn start(&self, pod: &Pod, container: &Container) -> Result<(), RelayError> {
        self.notify(pod, Notice::Start(container.clone())).await?;
        self.notify(pod, Notice::PostStart(container.clone())).await
    }

    /// Updates the resources of a container, and returns the merged changes of all plugins.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event, or if two plugins are in conflict.
    pub async fn update(
        &self,
        pod: &Pod,
        container: &Container,
        resources: Resources,
    ) -> Result<MergedUpdate, RelayError> {
        let operation = self.begin(pod);
        let updated = operation.update_container(container.clone(), Some(resources)).await?;
        operation.notify(Notice::PostUpdate(container.clone())).await?;
        operation.commit();
        Ok(updated)
    }

    /// Reports that a container has stopped, and returns the updates of other containers.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event. All plugins are notified in any case.
    pub async fn stop_container(&self, pod: &Pod, container: &Container) -> Result<MergedStop, StopError> {
        self.begin(pod).stop_container(container.clone()).await
    }

    /// Reports that a container is being removed.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event.
    pub async fn remove(&self, pod: &Pod, container: &Container) -> Result<(), RelayError> {
        self.notify(pod, Notice::Remove(container.clone())).await
    }

    /// Notifies the plugins of an event that has no reply.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses the event.
    pub async fn notify(&self, pod: &Pod, notice: Notice) -> Result<(), RelayError> {
        self.begin(pod).notify(notice).await
    }

    /// Runs through the whole life of a pod with one container, with all fourteen events. Returns
    /// the merged changes from the creation of the container.
    ///
    /// # Errors
    ///
    /// Returns an error if a plugin refuses an event, if two plugins are in conflict, or if a
    /// validator rejects the container.
    pub async fn live(&self, pod: &Pod, container: &Container) -> Result<MergedCreate, RelayError> {
        self.run_pod(pod).await?;
        let created = self.create(pod, container).await?;
        self.start(pod, container).await?;
        self.update(pod, container, Resources::default()).await?;
        self.notify(pod, Notice::UpdatePod { overhead: None, resources: None }).await?;
        self.notify(pod, Notice::PostUpdatePod).await?;
        self.stop_container(pod, container).await.map_err(|error| error.cause)?;
        self.remove(pod, container).await?;
        self.stop_pod(pod).await?;
        self.remove_pod(pod).await?;
        Ok(created)
    }

    /// Returns the changes of all plugins to a container, in order, each as a line of text.
    ///
    /// A line reads, for example, `10-a set Env LEVEL: debug`.
    pub fn changes(&self, container: &str) -> Vec<String> {
        let entries = self.nri.ledger(|ledger| ledger.of(container));
        entries.iter().map(|entry| fake_source::sentence(entry)).collect()
    }

    /// Returns the updates that plugins asked for on their own or when they were synchronized, each
    /// with the id of the plugin.
    pub fn updates(&self) -> Vec<(PluginId, Update)> {
        self.source.updates()
    }

    /// Returns the evictions that plugins asked for on their own, each with the id of the plugin.
    pub fn evictions(&self) -> Vec<(PluginId, Eviction)> {
        self.source.evictions()
    }

    /// Makes all further updates of this container fail, if plugins ask for them on their own.
    pub fn fail_updates_of(&self, container: &str) {
        self.source.fail_updates_of(container);
    }

    /// Returns the adaptation of this node, for anything that the node has no method for.
    pub fn adaptation(&self) -> &Adaptation {
        &self.nri
    }

    /// Announces a shutdown to the plugins, and waits until they have ended.
    pub async fn stop(self) {
        self.nri.stop().await;
        let plugins = std::mem::take(&mut *self.plugins());
        for plugin in plugins {
            plugin.stop().await;
        }
    }

    fn begin(&self, pod: &Pod) -> Operation {
        self.nri.begin(pod.clone())
    }

    fn plugins(&self) -> MutexGuard<'_, Vec<RunningPlugin>> {
        self.plugins.lock()
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for plugin in self.plugins().iter() {
            plugin.cancel();
        }
    }
}
