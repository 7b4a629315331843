//! A CRI server that has only the parts that NRI needs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cri_domain::generator::Host;
use cri_domain::model::{
    ContainerConfig, ContainerRecord, ContainerStatus, PodConfig, PodRecord, PodState, PodStatus, ServerSettings,
};
use cri_domain::runtime::{ContainerLimits, RUNC_UPDATES, RuntimeError};
use cri_domain::store::MemoryStore;
use cri_domain::{CriDomain, CriHandle, Runtime, Store as _};
use nri_api::plugin::{Introduction, PluginError, Reply, Subscription};
use nri_api::request::Request;
use nri_api::{Config, Nri, Plugin};
use nri_proto::{Adjustment, ContainerState, CreateReply, Event, EventMask, FailurePolicy, Field, UpdateReply};
use serde_json::{Value, json};

/// The server, with NRI.
pub(crate) struct Server {
    pub(crate) nri: Nri,
    pub(crate) handle: CriHandle,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) runtime: Arc<FakeRuntime>,
}

impl Server {
    /// Creates a server. NRI is not started yet.
    pub(crate) fn new() -> Self {
        Self::with(Host::default(), ServerSettings::default())
    }

    /// Creates a server with NRI disabled.
    pub(crate) fn disabled() -> Self {
        Self::of(Config { disable: true, ..Config::default() }, Host::default(), ServerSettings::default())
    }

    pub(crate) fn with(host: Host, settings: ServerSettings) -> Self {
        // There is no socket: the test admits plugins itself.
        Self::of(Config { socket: None, plugin_path: None, ..Config::default() }, host, settings)
    }

    fn of(config: Config, host: Host, settings: ServerSettings) -> Self {
        let store = Arc::new(MemoryStore::default());
        let runtime = Arc::new(FakeRuntime { store: Arc::clone(&store), ..FakeRuntime::new() });
        let domain = CriDomain::new(Arc::clone(&store) as Arc<_>, Arc::clone(&runtime) as Arc<_>, host, settings);
        let nri = Nri::new(config);
        let handle = CriHandle::register(&nri, "k8s.io", Arc::new(domain)).unwrap();
        Self { nri, handle, store, runtime }
    }

    /// Creates a server with NRI started, a running pod `p`, and a container `c` that was created
    /// and started without plugins.
    pub(crate) async fn running() -> Self {
        let server = Self::new();
        server.store.put_pod(pod("p"));
        server.store.put_container(container("c", json!({"linux": {"resources": {"cpu": {"shares": 2}}}})));
        server.nri.start().await.unwrap();
        server
    }

    /// Admits a plugin.
    pub(crate) async fn admit(&self, id: &str, plugin: FakePlugin) -> Arc<FakePlugin> {
        let plugin = Arc::new(plugin);
        self.nri.admit(id.parse().unwrap(), Arc::clone(&plugin) as Arc<_>).await.unwrap();
        plugin
    }

    /// Returns the spec of a container in the store.
    pub(crate) fn spec(&self, id: &str) -> Value {
        self.store.container(id).unwrap().spec.as_deref().cloned().unwrap_or_default()
    }
}

/// Returns the record of a pod that is ready.
pub(crate) fn pod(id: &str) -> PodRecord {
    PodRecord {
        id: id.to_owned(),
        config: PodConfig { name: id.to_owned(), cgroup_parent: format!("/kubepods/{id}"), ..PodConfig::default() },
        status: PodStatus { state: PodState::Ready, ips: vec!["10.0.0.1".to_owned()], ..PodStatus::default() },
        ..PodRecord::default()
    }
}

/// Returns the record of a running container of the pod `p`.
pub(crate) fn container(id: &str, spec: Value) -> ContainerRecord {
    ContainerRecord {
        id: id.to_owned(),
        pod_id: "p".to_owned(),
        config: ContainerConfig { name: id.to_owned(), ..ContainerConfig::default() },
        spec: Some(Arc::new(spec)),
        status: ContainerStatus { state: ContainerState::Running, ..ContainerStatus::default() },
        ..ContainerRecord::default()
    }
}

/// A runtime that records its calls. A container that it stops has ended at once.
pub(crate) struct FakeRuntime {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) updates: Mutex<Vec<(String, ContainerLimits)>>,
    pub(crate) stopped: Mutex<Vec<(String, Duration)>>,
    /// The number of updates that fail next.
    pub(crate) failures: Mutex<u32>,
    /// The duration of an update.
    pub(crate) takes: Duration,
    pub(crate) can_update: Mutex<HashSet<Field>>,
}

impl FakeRuntime {
    fn new() -> Self {
        Self {
            store: Arc::default(),
            updates: Mutex::default(),
            stopped: Mutex::default(),
            failures: Mutex::new(0),
            takes: Duration::from_millis(5),
            can_update: Mutex::new(RUNC_UPDATES.into()),
        }
    }

    /// Returns the resources of the last update.
    pub(crate) fn last(&self) -> Value {
        self.updates.lock().unwrap().last().unwrap().1.resources.clone()
    }

    pub(crate) fn n_updates(&self) -> usize {
        self.updates.lock().unwrap().len()
    }
}

#[async_trait]
impl Runtime for FakeRuntime {
    fn can_update(&self, field: Field) -> bool {
        self.can_update.lock().unwrap().contains(&field)
    }

    async fn update(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError> {
        tokio::time::sleep(self.takes).await;
        self.updates.lock().unwrap().push((id.to_owned(), limits.clone()));
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(RuntimeError::failed("device or resource busy"));
        }
        Ok(())
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        self.stopped.lock().unwrap().push((id.to_owned(), grace));
        self.store.change_container(id, &mut |record| record.status.state = ContainerState::Stopped);
        Ok(())
    }
}

/// Builds the reply of a plugin.
type Answer<T> = Box<dyn Fn(&Request) -> T + Send + Sync>;

/// A plugin that records all events, and replies as the test says.
#[derive(Default)]
pub(crate) struct FakePlugin {
    pub(crate) create: Option<Answer<Result<CreateReply, PluginError>>>,
    pub(crate) update: Option<Answer<UpdateReply>>,
    pub(crate) heard: Mutex<Vec<Arc<Request>>>,
}

impl FakePlugin {
    /// Returns a plugin that adjusts containers that are created.
    pub(crate) fn adjusting(change: impl Fn(&mut Adjustment) + Send + Sync + 'static) -> Self {
        let create = move |_: &Request| {
            let mut adjustment = Adjustment::default();
            change(&mut adjustment);
            Ok(CreateReply { adjustment: Some(adjustment), ..CreateReply::default() })
        };
        Self { create: Some(Box::new(create)), ..Self::default() }
    }

    /// Returns the events that the plugin got, such as `StopContainer c`.
    pub(crate) fn heard(&self) -> Vec<String> {
        let subject = |request: &Request| request.container().map_or(request.pod().id.clone(), |it| it.id.clone());
        self.heard.lock().unwrap().iter().map(|request| format!("{} {}", request.event(), subject(request))).collect()
    }

    /// Returns the last request of an event.
    pub(crate) fn last(&self, event: Event) -> Arc<Request> {
        let heard = self.heard.lock().unwrap();
        Arc::clone(heard.iter().rev().find(|request| request.event() == event).unwrap())
    }
}

#[async_trait]
impl Plugin for FakePlugin {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        let events =
            Event::ALL.into_iter().filter(|it| *it != Event::ValidateContainerAdjustment).collect::<EventMask>();
        Ok(Subscription { events: EventMask::from_wire(events.to_wire().unwrap()), declared: FailurePolicy::default() })
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        self.heard.lock().unwrap().push(Arc::clone(&request));
        let event = request.event();
        if event == Event::CreateContainer {
            let reply = self.create.as_ref().map_or_else(|| Ok(CreateReply::default()), |create| create(&request))?;
            return Ok(Reply::Create(Box::new(reply)));
        }
        if event == Event::UpdateContainer {
            return Ok(Reply::Update(self.update.as_ref().map(|update| update(&request)).unwrap_or_default()));
        }
        let is_stop = event == Event::StopContainer;
        Ok(if is_stop { Reply::Stop(nri_proto::StopReply::default()) } else { Reply::Heard })
    }
}
