//! A runtime and a plugin whose behaviour a test controls.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::call::{CallError, Client, Method, ServeLimits, serve};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{Container, Event, EventMask, Pod, api, service};
use protobuf::Message;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::TtrpcContext;

use crate::{
    Connection, Context, CreateReply, Introduction, Options, Plugin, Refusal, RunError, Runner, Runtime, Stream, Update,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";

/// The behaviour of a runtime when a plugin registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Accepts,
    Refuses,
    Hangs,
    /// The runtime configures the plugin before it replies to the registration.
    ConfiguresFirst,
}

/// A runtime: the other end of a plugin's connection.
pub(super) struct FakeRuntime {
    pub(super) mux: Mux,
    pub(super) client: Client,
    pub(super) heard: Heard,
}

/// The requests that a runtime received from the plugin.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Said>>, watch::Sender<bool>);

#[derive(Default)]
struct Said {
    registered: Vec<api::RegisterPluginRequest>,
    updates: Vec<api::UpdateContainersRequest>,
    configured: Option<api::ConfigureResponse>,
}

impl Heard {
    pub(super) fn registered(&self) -> Vec<api::RegisterPluginRequest> {
        self.0.lock().unwrap().registered.clone()
    }

    pub(super) fn updates(&self) -> Vec<api::UpdateContainersRequest> {
        self.0.lock().unwrap().updates.clone()
    }

    pub(super) fn configured(&self) -> Option<api::ConfigureResponse> {
        self.0.lock().unwrap().configured.clone()
    }
}

impl FakeRuntime {
    /// Creates a runtime, and the stream for connecting to it.
    pub(super) fn new(manner: Manner) -> (Self, Stream) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(ours);
        let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
        let (mux, [requests, served]) = Mux::over(reader, writer, ids, Limits::default());
        mux.admit();
        let (client, heard) = (Client::new(requests), Heard::default());
        let front = Front { manner, heard: heard.clone(), client: OnceLock::from(client.clone()) };
        let services = Arc::new(service::create_runtime(Arc::new(front)));
        tokio::spawn(serve(served, services, ServeLimits::default(), CancellationToken::new()));
        let (reader, writer) = tokio::io::split(theirs);
        (Self { mux, client, heard }, Stream::over(reader, writer))
    }

    pub(super) async fn call<M: Message>(&self, name: &'static str, request: &impl Message) -> Result<M, CallError> {
        let payload = request.write_to_bytes().unwrap().into();
        let answer = self.raw(name, payload).await?;
        Ok(M::parse_from_bytes(&answer).unwrap())
    }

    pub(super) async fn raw(&self, name: &'static str, payload: Bytes) -> Result<Bytes, CallError> {
        self.client.call(Method { service: PLUGIN, name }, payload, 2 * SECOND).await
    }

    /// Waits until the plugin has registered.
    pub(super) async fn registered(&self) {
        self.heard.1.subscribe().wait_for(|is_registered| *is_registered).await.unwrap();
    }

    /// Configures and synchronizes the plugin once it has registered.
    pub(super) async fn admit(&self) -> EventMask {
        self.registered().await;
        let answer: api::ConfigureResponse = self.call("Configure", &introduction()).await.unwrap();
        let _: api::SynchronizeResponse = self.call("Synchronize", &api::SynchronizeRequest::new()).await.unwrap();
        EventMask::from_wire(answer.events).known
    }

    pub(super) async fn start(&self, container: &str) -> Result<api::StartContainerResponse, CallError> {
        let request = api::StartContainerRequest {
            container: Some(api::Container { id: container.to_owned(), ..Default::default() }).into(),
            ..Default::default()
        };
        self.call("StartContainer", &request).await
    }
}

/// Returns the Configure request of a current runtime.
pub(super) fn introduction() -> api::ConfigureRequest {
    api::ConfigureRequest {
        runtime_name: "fake".to_owned(),
        runtime_version: "v1".to_owned(),
        request_timeout: 2000,
        registration_timeout: 5000,
        NRI_version: "v0.12.5".to_owned(),
        ..Default::default()
    }
}

struct Front {
    manner: Manner,
    heard: Heard,
    client: OnceLock<Client>,
}

#[async_trait]
impl service::Runtime for Front {
    async fn register_plugin(&self, _: &TtrpcContext, plugin: api::RegisterPluginRequest) -> ttrpc::Result<api::Empty> {
        self.heard.0.lock().unwrap().registered.push(plugin);
        self.heard.1.send_replace(true);
        match self.manner {
            Manner::Accepts => {}
            Manner::Refuses => {
                let text = "there is one of that name";
                return Err(ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::ALREADY_EXISTS, text)));
            }
            Manner::Hangs => std::future::pending().await,
            Manner::ConfiguresFirst => {
                let payload = introduction().write_to_bytes().unwrap().into();
                let method = Method { service: PLUGIN, name: "Configure" };
                let answer = self.client.get().unwrap().call(method, payload, 2 * SECOND).await.unwrap();
                self.heard.0.lock().unwrap().configured = Some(Message::parse_from_bytes(&answer).unwrap());
            }
        }
        Ok(api::Empty::new())
    }

    async fn update_containers(
        &self,
        _: &TtrpcContext,
        request: api::UpdateContainersRequest,
    ) -> ttrpc::Result<api::UpdateContainersResponse> {
        let failed = request.update.iter().filter(|update| update.container_id == "broken").cloned().collect();
        let hangs = request.update.iter().any(|update| update.container_id == "stuck");
        self.heard.0.lock().unwrap().updates.push(request);
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(api::UpdateContainersResponse { failed, ..Default::default() })
    }
}

/// A plugin that records the requests it receives.
#[derive(Default)]
pub(super) struct FakePlugin {
    pub(super) events: EventMask,
    pub(super) diary: Mutex<Vec<String>>,
    pub(super) introduction: Mutex<Option<Introduction>>,
    /// The time that the handler of StartContainer takes.
    pub(super) takes: Duration,
    /// Whether the plugin refuses its configuration.
    pub(super) refuses: bool,
    /// The container that the handler of StartContainer asks the runtime to update.
    pub(super) updates: Option<&'static str>,
    /// The handle that the last handler of StartContainer has kept.
    pub(super) kept: Mutex<Option<Runtime>>,
    /// The subscribed events in the context of Synchronize.
    pub(super) hears: Mutex<Option<EventMask>>,
}

impl FakePlugin {
    pub(super) fn on(events: EventMask) -> Self {
        Self { events, ..Self::default() }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.diary.lock().unwrap().clone()
    }

    fn write(&self, line: String) {
        self.diary.lock().unwrap().push(line);
    }
}

#[async_trait]
impl Plugin for FakePlugin {
    fn events(&self) -> EventMask {
        self.events
    }

    async fn configure(&self, introduction: Introduction) -> Result<EventMask, Refusal> {
        *self.introduction.lock().unwrap() = Some(introduction);
        if self.refuses { Err(Refusal::new("the configuration is in Latin")) } else { Ok(self.events) }
    }

    async fn synchronize(
        &self,
        context: &Context,
        pods: Vec<Pod>,
        containers: Vec<Container>,
    ) -> Result<Vec<Update>, Refusal> {
        *self.hears.lock().unwrap() = Some(context.events());
        self.write(format!("Synchronize {} {}", pods.len(), containers.len()));
        Ok(containers.into_iter().map(|container| Update::of(container.id)).collect())
    }

    async fn shutdown(&self) {
        self.write("Shutdown".to_owned());
    }

    async fn create_container(&self, _: &Context, _: Pod, container: Container) -> Result<CreateReply, Refusal> {
        self.write(format!("CreateContainer {}", container.id));
        match &*container.id {
            "panic" => panic!("on purpose"),
            "no" => Err(Refusal::new("not this one")),
            _ => Ok(CreateReply::default()),
        }
    }

    async fn start_container(&self, context: &Context, _: Pod, container: Container) -> Result<(), Refusal> {
        self.write(format!("StartContainer {}", container.id));
        *self.kept.lock().unwrap() = Some(context.runtime());
        if let Some(other) = self.updates {
            let failed = context.runtime().update(vec![Update::of(other)], Vec::new()).await?;
            self.write(format!("failed {}", failed.len()));
        }
        tokio::time::sleep(self.takes).await;
        self.write(format!("started {}", container.id));
        Ok(())
    }

    async fn run_pod_sandbox(&self, _: &Context, pod: Pod) -> Result<(), Refusal> {
        self.write(format!("RunPodSandbox {}", pod.id));
        Ok(())
    }
}

/// A plugin that runs in a task.
pub(super) struct Running {
    pub(super) plugin: Arc<FakePlugin>,
    pub(super) runtime: Runtime,
    pub(super) shutdown: CancellationToken,
    pub(super) task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub(super) fn new(plugin: FakePlugin, connection: Connection) -> Self {
        Self::with(plugin, Options { connection, ..Options::default() })
    }

    pub(super) fn with(plugin: FakePlugin, options: Options) -> Self {
        let plugin = Arc::new(plugin);
        let options = Options { name: Some("fake".to_owned()), index: Some("10".to_owned()), ..options };
        let runner = Runner::new(Arc::clone(&plugin) as _, options).unwrap();
        let (runtime, shutdown) = (runner.runtime(), CancellationToken::new());
        let task = tokio::spawn(runner.run(shutdown.clone()));
        Self { plugin, runtime, shutdown, task }
    }

    /// Waits for the end of the plugin, and returns the error as text.
    pub(super) async fn ended(self) -> String {
        match self.task.await.unwrap() {
            Ok(()) => "well".to_owned(),
            Err(error) => crate::chain(&error),
        }
    }
}

/// Runs a plugin that is connected to a fake runtime.
pub(super) fn pair(manner: Manner, plugin: FakePlugin) -> (FakeRuntime, Running) {
    let (runtime, stream) = FakeRuntime::new(manner);
    (runtime, Running::new(plugin, Connection::Stream(stream)))
}

/// Creates a plugin that subscribes to StartContainer.
pub(super) fn starts() -> FakePlugin {
    FakePlugin::on(Event::StartContainer.into())
}
