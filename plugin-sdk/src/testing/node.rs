//! A runtime for tests, and how plugins join it.

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

/// How much a pipe between plugin and runtime holds: as a socket does.
const PIPE: usize = 64 << 10;

/// A runtime for tests.
pub struct Node {
    nri: Adaptation,
    source: Arc<FakeSource>,
    plugins: Mutex<Vec<RunningPlugin>>,
}

impl Node {
    /// A node without pods and containers.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, as all of these.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Config::default(), Snapshot::default())
    }

    /// A node with these settings, on which these pods and containers are when a plugin joins.
    #[must_use]
    pub fn with(config: Config, snapshot: Snapshot) -> Self {
        Self::new_with(Config { socket: None, ..config }, snapshot)
    }

    /// A node that programs can connect to, at a socket that is made there: to test the program that a plugin becomes.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
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

    /// Waits until a plugin of this id has joined, as a program that connects does in its own time.
    pub async fn joined(&self, id: &str) {
        let mut happenings = self.nri.watch_plugins();
        while !self.nri.plugins().iter().any(|plugin| plugin.id.as_str() == id) {
            // The adaptation lives as long as we do, and what was missed is looked up.
            let _ = happenings.recv().await;
        }
    }

    /// Lets a plugin in, and returns what it has to ask the runtime for something. `id` is its index and name, as in `10-logger`.
    ///
    /// # Errors
    ///
    /// It does not get in.
    pub async fn join(&self, id: &str, plugin: impl Plugin) -> Result<Runtime, JoinError> {
        self.join_with(id, Arc::new(plugin), Options::default()).await
    }

    /// The same with options, of which those for name and connection are not used, and with a plugin that can still be looked at.
    ///
    /// # Errors
    ///
    /// It does not get in.
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

    /// A pod runs.
    ///
    /// # Errors
    ///
    /// A plugin refuses it, as with all of these.
    pub async fn run_pod(&self, pod: &Pod) -> Result<(), RelayError> {
        self.notify(pod, Notice::RunPod).await
    }

    /// A pod stops.
    ///
    /// # Errors
    ///
    /// As [`Node::run_pod`].
    pub async fn stop_pod(&self, pod: &Pod) -> Result<(), RelayError> {
        self.notify(pod, Notice::StopPod).await
    }

    /// A pod is removed.
    ///
    /// # Errors
    ///
    /// As [`Node::run_pod`].
    pub async fn remove_pod(&self, pod: &Pod) -> Result<(), RelayError> {
        self.notify(pod, Notice::RemovePod).await
    }

    /// A container is created. Returns what plugins want of it, together.
    ///
    /// # Errors
    ///
    /// A plugin refuses it, two want contrary things, or a validator rejects it.
    pub async fn create(&self, pod: &Pod, container: &Container) -> Result<MergedCreate, RelayError> {
        let operation = self.begin(pod);
        let created = operation.create_container(container.clone()).await?;
        operation.notify(Notice::PostCreate(container.clone())).await?;
        operation.commit();
        Ok(created)
    }

    /// A container starts, and has started.
    ///
    /// # Errors
    ///
    /// As [`Node::run_pod`].
    pub async fn start(&self, pod: &Pod, container: &Container) -> Result<(), RelayError> {
        self.notify(pod, Notice::Start(container.clone())).await?;
        self.notify(pod, Notice::PostStart(container.clone())).await
    }

    /// A container gets new limits, and has them. Returns what plugins make of them.
    ///
    /// # Errors
    ///
    /// As [`Node::create`].
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

    /// A container has stopped. Returns what plugins want of others.
    ///
    /// # Errors
    ///
    /// A plugin refuses it. All plugins hear of it in any case.
    pub async fn stop_container(&self, pod: &Pod, container: &Container) -> Result<MergedStop, StopError> {
        self.begin(pod).stop_container(container.clone()).await
    }

    /// A container is removed.
    ///
    /// # Errors
    ///
    /// As [`Node::run_pod`].
    pub async fn remove(&self, pod: &Pod, container: &Container) -> Result<(), RelayError> {
        self.notify(pod, Notice::Remove(container.clone())).await
    }

    /// Tells plugins anything.
    ///
    /// # Errors
    ///
    /// As [`Node::run_pod`].
    pub async fn notify(&self, pod: &Pod, notice: Notice) -> Result<(), RelayError> {
        self.begin(pod).notify(notice).await
    }

    /// The whole life of a pod with one container: all fourteen events, the validation with the create. Returns what
    /// plugins wanted of the container when it was created.
    ///
    /// # Errors
    ///
    /// As each part of it.
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

    /// Who changed what in a container, in order, as sentences: `10-a set Env LEVEL: debug`.
    pub fn changes(&self, container: &str) -> Vec<String> {
        let entries = self.nri.ledger(|ledger| ledger.of(container));
        entries.iter().map(|entry| fake_source::sentence(entry)).collect()
    }

    /// What plugins asked for by themselves, or when they were synchronized: who, and which update.
    pub fn updates(&self) -> Vec<(PluginId, Update)> {
        self.source.updates()
    }

    /// What plugins asked by themselves to be stopped: who, and which eviction.
    pub fn evictions(&self) -> Vec<(PluginId, Eviction)> {
        self.source.evictions()
    }

    /// From now on no update of this container succeeds.
    pub fn fail_updates_of(&self, container: &str) {
        self.source.fail_updates_of(container);
    }

    /// The runtime side itself, for everything else.
    pub fn adaptation(&self) -> &Adaptation {
        &self.nri
    }

    /// Tells plugins to go, and waits until they have.
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
