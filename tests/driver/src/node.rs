//! The runtime behind the adaptation: it has the pods and containers that the controller reports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Source, SourceError, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Update, api};
use tokio::task;

use crate::clock::monotonic_ns;
use crate::lines::Lines;
use crate::protocol::{Encoded, Event, Objects, Request, Sync};

/// The state with which plugins are synchronized.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) snapshot: Snapshot,
    /// Why the plugin is nevertheless refused.
    pub(crate) failure: Option<String>,
}

impl State {
    /// Decodes the state with which the controller wants plugins to be synchronized.
    pub(crate) fn decode(objects: &Objects) -> Result<Self> {
        let pods = objects.pods_b64.iter().map(|pod| Ok(pod.decode::<api::PodSandbox>()?.into()));
        let containers =
            objects.containers_b64.iter().map(|container| Ok(container.decode::<api::Container>()?.into()));
        let snapshot = Snapshot {
            pods: pods.collect::<Result<_>>().context("pods")?,
            containers: containers.collect::<Result<_>>().context("containers")?,
        };
        let failure = objects.fail_sync.then(|| "synchronization failed on request (fail_sync)".to_owned());
        Ok(Self { snapshot, failure })
    }
}

/// The completed synchronizations, and those in progress. One task makes each of them from its
/// beginning to its end.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<Course>);

#[derive(Default)]
struct Course {
    ended: Vec<Sync>,
    begun: HashMap<Option<task::Id>, i64>,
}

impl Syncs {
    fn begin(&self) {
        self.course().begun.insert(task::try_id(), monotonic_ns());
    }

    /// Records that the plugin has answered or failed.
    pub(crate) fn end(&self, error: &str) {
        let mut course = self.course();
        if let Some(t0_ns) = course.begun.remove(&task::try_id()) {
            course.ended.push(Sync { t0_ns, t1_ns: monotonic_ns(), error: error.to_owned() });
        }
    }

    /// Takes the synchronizations that ended since the last call.
    pub(crate) fn take(&self) -> Vec<Sync> {
        std::mem::take(&mut self.course().ended)
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node, with the state that the controller reported last.
pub(crate) struct Node {
    lines: Lines,
    callbacks: bool,
    sync_events: bool,
    state: Arc<Mutex<State>>,
    syncs: Arc<Syncs>,
    /// The snapshot for the plugins that exist when the runtime starts.
    at_start: Mutex<Option<Snapshot>>,
    /// The reasons for which plugins are refused, by the task that synchronizes them.
    failures: Mutex<HashMap<Option<task::Id>, String>>,
}

impl Node {
    pub(crate) fn new(lines: Lines, request: &Request, state: Arc<Mutex<State>>, syncs: Arc<Syncs>) -> Self {
        Self {
            lines,
            callbacks: request.callbacks,
            sync_events: request.sync_events,
            state,
            syncs,
            at_start: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Begins the synchronization of all plugins that exist when the runtime starts, even if there
    /// are none. Returns why it is to fail, if it is.
    pub(crate) async fn begin_start(&self) -> Option<String> {
        let State { snapshot, failure } = self.current().await;
        self.syncs.begin();
        *lock(&self.at_start) = Some(snapshot);
        failure
    }

    /// Ends that synchronization.
    pub(crate) fn end_start(&self) {
        *lock(&self.at_start) = None;
        self.syncs.end("");
    }

    /// Returns the snapshot for a plugin, and whether the controller reported it for this plugin
    /// alone.
    pub(crate) async fn shown(&self) -> (Snapshot, bool) {
        let at_start = lock(&self.at_start).clone();
        if let Some(snapshot) = at_start {
            return (snapshot, false);
        }
        let State { snapshot, failure } = self.current().await;
        let mut failures = lock(&self.failures);
        failures.remove(&task::try_id());
        failures.extend(failure.map(|failure| (task::try_id(), failure)));
        self.syncs.begin();
        (snapshot, self.sync_events)
    }

    /// Returns whether the plugin that this task synchronizes is to be refused.
    pub(crate) fn is_refused(&self) -> bool {
        lock(&self.failures).remove(&task::try_id()).is_some()
    }

    /// Asks the controller to update and evict containers. Returns the updates that failed. As in
    /// Go, an error of the controller is an error here.
    pub(crate) async fn ask_to_apply(
        &self,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        if !self.callbacks {
            return Ok(Vec::new());
        }
        let updates_b64 = encode_all::<_, api::ContainerUpdate>(updates.clone());
        let evict_b64 = encode_all::<_, api::ContainerEviction>(evictions);
        let reply = self.lines.ask(|seq| Event::Update { seq, updates_b64, evict_b64 }).await.unwrap_or_default();
        if !reply.error.is_empty() {
            return Err(UpdatesFailed { reason: reply.error, failed: updates });
        }
        let failed = reply.failed_b64.iter().filter_map(|failed| failed.decode::<api::ContainerUpdate>().ok());
        Ok(failed.map(Update::from).collect())
    }

    /// Reports to the controller that a plugin was synchronized and asked for these updates.
    pub(crate) fn tell_synced(&self, plugin: &PluginId, updates: Vec<Update>) {
        if self.callbacks {
            let (plugin, updates_b64) = (plugin.to_string(), encode_all::<_, api::ContainerUpdate>(updates));
            self.lines.write(&Event::Synced { plugin, updates_b64 });
        }
    }

    /// Returns the current state, which the controller reports now or has reported before.
    async fn current(&self) -> State {
        if !self.sync_events {
            return lock(&self.state).clone();
        }
        let reply = self.lines.ask(|seq| Event::Sync { seq }).await.unwrap_or_default();
        State::decode(&reply.objects)
            .unwrap_or_else(|error| State { failure: Some(format!("{error:#}")), ..State::default() })
    }
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        self.shown().await.0
    }

    async fn synchronized(&self, plugin: &PluginId, updates: Vec<Update>) -> Result<Vec<Update>, SourceError> {
        self.tell_synced(plugin, updates);
        match lock(&self.failures).remove(&task::try_id()) {
            None => Ok(Vec::new()),
            Some(failure) => Err(SourceError(failure)),
        }
    }

    async fn apply(
        &self,
        _: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        self.ask_to_apply(updates, evictions).await
    }
}

fn encode_all<T, M: From<T> + protobuf::Message>(words: Vec<T>) -> Vec<Encoded> {
    words.into_iter().map(|word| Encoded::of(&M::from(word))).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
