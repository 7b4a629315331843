//! The fixtures of most tests: a runtime, and a plugin that records its events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use nri_api::proto::event::WireEvents;
use nri_api::proto::{CreateReply, EventMask, FailurePolicy, StopReply, UpdateReply};
use nri_api::request::Request;
use nri_api::snapshot::Snapshot;
use nri_api::testing::FakeDomain;
use nri_api::{Config, Container, ContainerState, Event, Handle, Nri, Pod, Update};
use tokio::time::sleep;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A plugin that records its events, and answers as the test determines.
#[derive(Default)]
pub(crate) struct Recorder {
    heard: Mutex<Vec<String>>,
    requests: Mutex<Vec<Arc<Request>>>,
    replies: Mutex<BTreeMap<Event, Reply>>,
    refuses: Mutex<Vec<Event>>,
    takes: Mutex<Duration>,
    joins_in: Mutex<Duration>,
    shown: Mutex<Vec<Snapshot>>,
    wants: Mutex<Vec<Update>>,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the events that the plugin got, as `StopContainer c`.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Returns the events since the last call of this method.
    pub(crate) fn news(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// Returns the container in the last request of this event.
    pub(crate) fn container(&self, event: Event) -> Container {
        let requests = self.requests.lock().unwrap();
        let request = requests.iter().rev().find(|request| request.event() == event).expect("it has not heard of it");
        request.container().expect("it is about a container").clone()
    }

    /// Returns the pod in the last request.
    pub(crate) fn pod(&self) -> Pod {
        self.requests.lock().unwrap().last().expect("it has heard of nothing").pod().clone()
    }

    pub(crate) fn reply(&self, event: Event, reply: Reply) {
        self.replies.lock().unwrap().insert(event, reply);
    }

    pub(crate) fn refuse(&self, event: Event) {
        self.refuses.lock().unwrap().push(event);
    }

    /// Sets how long the plugin takes to answer.
    pub(crate) fn take(&self, time: Duration) {
        *self.takes.lock().unwrap() = time;
    }

    /// Sets how long the plugin takes to process its snapshot.
    pub(crate) fn join_in(&self, time: Duration) {
        *self.joins_in.lock().unwrap() = time;
    }

    /// Returns the snapshots of the plugin, one for each join.
    pub(crate) fn shown(&self) -> Vec<Snapshot> {
        self.shown.lock().unwrap().clone()
    }

    /// Sets the updates that the plugin asks for when it is synchronized.
    pub(crate) fn want(&self, updates: Vec<Update>) {
        *self.wants.lock().unwrap() = updates;
    }
}

#[async_trait]
impl Plugin for Recorder {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        let mut known = EventMask::ALL;
        known.remove(Event::ValidateContainerAdjustment);
        Ok(Subscription { events: WireEvents { known, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        self.shown.lock().unwrap().push(snapshot);
        let joins_in = *self.joins_in.lock().unwrap();
        if !joins_in.is_zero() {
            sleep(joins_in).await;
        }
        Ok(self.wants.lock().unwrap().clone())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let event = request.event();
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        self.heard.lock().unwrap().push(format!("{} {about}", event.rpc()));
        self.requests.lock().unwrap().push(Arc::clone(&request));
        let takes = *self.takes.lock().unwrap();
        if !takes.is_zero() {
            sleep(takes).await;
        }
        if self.refuses.lock().unwrap().contains(&event) {
            return Err(PluginError::refused("not today"));
        }
        let said = self.replies.lock().unwrap().get(&event).cloned();
        Ok(said.unwrap_or_else(|| silence(event)))
    }
}

/// Returns the answer of a plugin that asks for no changes.
fn silence(event: Event) -> Reply {
    if event == Event::CreateContainer {
        Reply::Create(Box::default())
    } else if event == Event::UpdateContainer {
        Reply::Update(UpdateReply::default())
    } else if event == Event::StopContainer {
        Reply::Stop(StopReply::default())
    } else {
        Reply::Heard
    }
}

/// Returns the answer to a create that asks for these changes of other containers.
pub(crate) fn create_reply(updates: Vec<Update>, evictions: Vec<nri_api::Eviction>) -> Reply {
    Reply::Create(Box::new(CreateReply { updates, evictions, ..CreateReply::default() }))
}

/// Returns settings under which no plugin is launched or can connect.
pub(crate) fn config() -> Config {
    Config { socket: None, plugin_path: None, ..Config::default() }
}

/// Returns the settings of [`config`] that also require this plugin.
pub(crate) fn requiring(plugin: &str) -> Config {
    let policy = Config::from_toml(&format!("[plugins.{plugin}]\nrequired = true")).unwrap();
    Config { policies: policy.policies, ..config() }
}

/// NRI with one namespace and one plugin.
pub(crate) struct Rig {
    pub(crate) nri: Nri,
    pub(crate) domain: Arc<FakeDomain>,
    pub(crate) handle: Handle,
    pub(crate) plugin: Arc<Recorder>,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(config(), FakeDomain::new()).await
    }

    /// Creates a rig with these settings, and with what the domain has.
    pub(crate) async fn with(config: Config, domain: Arc<FakeDomain>) -> Self {
        let nri = Nri::new(config);
        let handle = nri.register("k8s.io", domain.clone()).unwrap();
        nri.start().await.unwrap();
        let plugin = Recorder::new();
        nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
        Self { nri, domain, handle, plugin }
    }

    /// Admits another plugin.
    pub(crate) async fn join(&self, id: &str) -> Arc<Recorder> {
        let plugin = Recorder::new();
        self.nri.admit(id.parse().unwrap(), plugin.clone()).await.unwrap();
        plugin
    }

    pub(crate) async fn run_pod(&self, id: &str) {
        let run = self.handle.run_pod(pod(id)).await.unwrap();
        self.domain.put_pod(pod(id));
        run.commit();
    }

    pub(crate) async fn create(&self, pod_id: &str, id: &str) {
        let creation = self.handle.create_container(pod(pod_id), container(pod_id, id)).await.unwrap();
        let created = Container { state: ContainerState::Created, ..container(pod_id, id) };
        self.domain.put(created.clone());
        creation.created(created).await.unwrap();
    }

    pub(crate) async fn start(&self, pod_id: &str, id: &str) {
        let start = self.handle.start_container(pod(pod_id), container(pod_id, id)).await.unwrap();
        let running = running(pod_id, id);
        self.domain.put(running.clone());
        start.started(running).await.unwrap();
    }

    /// Runs a pod with one container, and forgets the events of that.
    pub(crate) async fn running(&self, pod_id: &str, id: &str) {
        self.run_pod(pod_id).await;
        self.create(pod_id, id).await;
        self.start(pod_id, id).await;
        self.plugin.news();
    }

    pub(crate) async fn stop(&self, pod_id: &str, id: &str) {
        self.handle.stop_container(pod(pod_id), container(pod_id, id)).await.unwrap();
    }

    pub(crate) async fn remove(&self, pod_id: &str, id: &str) {
        self.handle.remove_container(pod(pod_id), container(pod_id, id)).await.unwrap();
    }
}

pub(crate) fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), name: id.to_owned(), ..Pod::default() }
}

pub(crate) fn container(pod: &str, id: &str) -> Container {
    Container { id: id.to_owned(), pod_id: pod.to_owned(), name: id.to_owned(), ..Container::default() }
}

pub(crate) fn running(pod: &str, id: &str) -> Container {
    Container { state: ContainerState::Running, started_at: 1, ..container(pod, id) }
}

/// Returns a container that has exited with this code and a reason.
pub(crate) fn exited(pod: &str, id: &str, code: i32) -> Container {
    Container {
        state: ContainerState::Stopped,
        exit_code: code,
        finished_at: 99,
        status_reason: "Error".to_owned(),
        status_message: "it is broken".to_owned(),
        ..container(pod, id)
    }
}

/// Lets all tasks run until they wait.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(1)).await;
}
