//! A runtime whose state is set by a test, and plugins that join it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::{Eviction, PluginId, Update};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, at_once, container, pod};
use crate::Adaptation;
use crate::AdmitError;
use crate::Config;
use crate::Notice;
use crate::Plugin;
use crate::Source;
use crate::UpdatesFailed;
use crate::api::snapshot::Snapshot;
use crate::config::policy::Identity;
use crate::registry::admission::{Candidate, admit};
use crate::registry::join::Arrival;

/// A runtime whose state is set by a test.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) store: Mutex<Snapshot>,
    pub(super) updated: Mutex<Vec<String>>,
    /// The updates that the runtime was asked for.
    pub(super) updates: Mutex<Vec<Update>>,
    pub(super) evicted: Mutex<Vec<String>>,
    /// How long a snapshot takes.
    pub(super) takes: Mutex<Duration>,
}

#[async_trait]
impl Source for Shelf {
    async fn snapshot(&self) -> Snapshot {
        let takes = *self.takes.lock().unwrap();
        sleep(takes).await;
        self.store.lock().unwrap().clone()
    }

    async fn apply(
        &self,
        _: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        self.updates.lock().unwrap().extend(updates.iter().cloned());
        self.evicted.lock().unwrap().extend(evictions.into_iter().map(|eviction| eviction.container_id));
        self.updated.lock().unwrap().extend(updates.into_iter().map(|update| update.container_id));
        Ok(Vec::new())
    }
}

pub(super) struct Setting {
    pub(super) nri: Arc<Adaptation>,
    pub(super) shelf: Arc<Shelf>,
    pub(super) diary: Diary,
}

pub(super) fn setting(policy: &str) -> Setting {
    setting_of(Config::from_toml(policy).unwrap())
}

pub(super) fn setting_of(config: Config) -> Setting {
    let shelf = Arc::new(Shelf::default());
    let config = Config { socket: None, ..config };
    let nri = Arc::new(Adaptation::new(config, Arc::clone(&shelf) as Arc<dyn Source>));
    Setting { nri, shelf, diary: Diary::default() }
}

impl Setting {
    pub(super) fn plugin(&self, name: &str) -> Arc<FakePlugin> {
        FakePlugin::new(name, LIFE, at_once(), &self.diary)
    }

    /// Admits a built-in plugin in another task.
    pub(super) fn admit(&self, name: &str, plugin: &Arc<FakePlugin>) -> JoinHandle<Result<(), AdmitError>> {
        let (nri, id, plugin) = (Arc::clone(&self.nri), name.parse().unwrap(), Arc::clone(plugin));
        tokio::spawn(async move { nri.admit(id, plugin).await })
    }

    /// Admits a plugin with a given identity.
    pub(super) async fn admit_as(
        &self,
        name: &str,
        identity: Identity,
        plugin: &Arc<FakePlugin>,
    ) -> Result<(), AdmitError> {
        let arrival = Arrival::begin(&self.nri.shared, name.parse().unwrap(), identity)?;
        let plugin = Arc::clone(plugin) as Arc<dyn Plugin>;
        admit(arrival, Candidate { plugin, config: String::new(), early: Arc::default() }).await
    }

    /// Starts to admit a plugin whose synchronization takes `time`.
    pub(super) async fn joining(
        &self,
        name: &str,
        time: Duration,
    ) -> (Arc<FakePlugin>, JoinHandle<Result<(), AdmitError>>) {
        let plugin = self.plugin(name);
        plugin.synchronizes_for(time);
        let joining = self.admit(name, &plugin);
        while plugin.shown().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        (plugin, joining)
    }

    pub(super) async fn create(&self, pod_id: &str, id: &str) -> Duration {
        let begun = Instant::now();
        let operation = self.nri.begin(pod(pod_id));
        operation.create_container(container(id)).await.unwrap();
        self.shelf.store.lock().unwrap().containers.push(container(id));
        operation.commit();
        begun.elapsed()
    }

    pub(super) async fn tell(&self, pod_id: &str, notice: Notice) -> Duration {
        let begun = Instant::now();
        let operation = self.nri.begin(pod(pod_id));
        operation.notify(notice).await.unwrap();
        operation.commit();
        begun.elapsed()
    }
}
