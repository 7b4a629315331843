//! What a runtime calls: the one place where the plugin's side speaks the wire.

mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::call::Services;
use nri_proto::{Container, Event, EventMask, Pod, Proposal, Resources, api};
use parking_lot::{Mutex, MutexGuard};
use protobuf::Message;
use tokio::sync::watch;
use tracing::{debug, warn};
use ttrpc::Code;
use ttrpc::r#async::{MethodHandler, Service as Methods, TtrpcContext};

use self::snapshot::{SnapshotError, SnapshotParts};
use crate::plugin::refusal::status;
use crate::plugin::{Context, Introduction, Plugin, Refusal, chain};
use crate::runtime::{Runtime, encode};

/// The service that plugins serve.
const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";
/// How many entries a request may have: one pod, one container, and what plugins want of it.
const MAX_ENTRIES: usize = 64 << 10;
/// How many entries an introduction may have. It needs four.
const MAX_CONFIGURE_ENTRIES: usize = 64;

/// How far the runtime has let the plugin in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionPhase {
    /// It is not configured yet.
    New,
    /// The plugin does not like its configuration.
    Refused(String),
    /// It waits to be told what there is.
    Configured {
        /// Whether a runtime that leaves now may have left because it does not know an event.
        can_be_refused: bool,
    },
    /// It hears of what happens.
    Synchronized,
    /// It was told that the runtime goes away.
    ShutDown,
}

/// What does not change while a plugin runs.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSettings {
    pub(crate) config: Option<String>,
    pub(crate) max_sync: usize,
    /// A subscription without a handler is an error, not a warning.
    pub(crate) is_strict: bool,
    /// Whether a runtime that refuses a subscription can be tried with less.
    pub(crate) can_reconnect: bool,
}

/// A plugin as a runtime sees it, for one connection.
pub(crate) struct Service {
    plugin: Arc<dyn Plugin>,
    runtime: Runtime,
    settings: ServiceSettings,
    /// A runtime that does not say what it knows is not asked for more than any knows.
    is_conservative: bool,
    state: Mutex<ServiceState>,
    phase: watch::Sender<SessionPhase>,
}

#[derive(Default)]
struct ServiceState {
    subscribed: Option<Subscription>,
    registration_timeout: Duration,
    parts: SnapshotParts,
    /// Events without a handler that were complained about.
    reported: EventMask,
}

#[derive(Clone)]
struct Subscription {
    events: EventMask,
    answer: api::ConfigureResponse,
}

impl Service {
    pub(crate) fn new(
        plugin: Arc<dyn Plugin>,
        runtime: Runtime,
        settings: ServiceSettings,
        is_conservative: bool,
    ) -> Self {
        let (state, phase) = (Mutex::default(), watch::Sender::new(SessionPhase::New));
        Self { plugin, runtime, settings, is_conservative, state, phase }
    }

    /// How far the runtime has let the plugin in.
    pub(crate) fn phases(&self) -> watch::Receiver<SessionPhase> {
        self.phase.subscribe()
    }

    /// How long the runtime lets plugins register, if it has said so.
    pub(crate) fn registration_timeout(&self) -> Duration {
        self.state().registration_timeout
    }

    /// All that can be called. Leaving one RPC out would make runtimes take the plugin for an old one.
    pub(crate) fn methods(self: &Arc<Self>) -> Services {
        let rpcs = [Rpc::Configure, Rpc::Synchronize, Rpc::Shutdown, Rpc::StateChange].into_iter();
        let methods = rpcs.chain(Event::ALL.into_iter().map(Rpc::Event)).map(|rpc| {
            let handler: Box<dyn MethodHandler + Send + Sync> = Box::new(RpcHandler { rpc, service: Arc::clone(self) });
            (rpc.name().to_owned(), handler)
        });
        let methods = Methods { methods: methods.collect(), streams: Default::default() };
        Services::from([(PLUGIN.to_owned(), methods)])
    }

    async fn configure(&self, request: &Bytes) -> ttrpc::Result<Bytes> {
        if let Some(subscribed) = self.state().subscribed.clone() {
            debug!("configured once more, which changes nothing");
            return Ok(encode(&subscribed.answer));
        }
        let request = parse::<api::ConfigureRequest>(request, MAX_CONFIGURE_ENTRIES)?;
        let introduction = Introduction::read(request, self.settings.config.as_deref());
        self.state().registration_timeout = introduction.registration_timeout;
        let subscribed = match self.subscribe(introduction).await {
            Ok(subscribed) => subscribed,
            Err(refusal) => {
                self.phase.send_replace(SessionPhase::Refused(refusal.to_string()));
                return Err(refusal.into_status());
            }
        };
        let answer = encode(&subscribed.answer);
        self.state().subscribed = Some(subscribed);
        Ok(answer)
    }

    async fn subscribe(&self, introduction: Introduction) -> Result<Subscription, Refusal> {
        let supported = introduction.supported_events();
        let (runtime, version) = (introduction.runtime_name.clone(), introduction.runtime_version.clone());
        let nri = introduction.nri_version.clone().unwrap_or_else(|| "unknown".to_owned());
        let wanted = self.plugin.configure(introduction).await?;
        if wanted.is_empty() {
            return Err(Refusal::new("it subscribes to no event, which to the protocol means all of them"));
        }
        let events = supported.restrict(wanted, self.is_conservative);
        let missing: EventMask = wanted.iter().filter(|event| !events.contains(*event)).collect();
        if !missing.is_empty() {
            warn!(runtime, version, nri, events = %missing, "the runtime is too old for some events");
        }
        let Some(mask) = events.to_wire() else {
            return Err(Refusal::new(format_args!("the runtime is too old for all of {wanted}")));
        };
        let can_be_refused = supported.may_reject(events);
        // Nothing means all that the runtime knows, which it cannot refuse. What was not wanted is then answered for the plugin.
        let mask = if can_be_refused && !self.settings.can_reconnect { 0 } else { mask };
        tracing::info!(runtime, version, nri, %events, "configured");
        self.phase.send_replace(SessionPhase::Configured { can_be_refused });
        let failure_policy = Some(self.plugin.failure_policy().into()).into();
        let answer = api::ConfigureResponse { events: mask, failure_policy, ..Default::default() };
        Ok(Subscription { events, answer })
    }

    async fn synchronize(&self, part: &Bytes, timeout: Option<Duration>) -> ttrpc::Result<Bytes> {
        let taken = self.state().parts.take(part, self.settings.max_sync);
        let Some(SnapshotParts { pods, containers, .. }) = taken.map_err(|error| snapshot_error_status(&error))? else {
            return Ok(encode(&api::SynchronizeResponse { more: true, ..Default::default() }));
        };
        let (n_pods, n_containers) = (pods.len(), containers.len());
        let updates = self.plugin.synchronize(&self.context(timeout), pods, containers).await;
        let updates = updates.map_err(Refusal::into_status)?;
        tracing::info!(pods = n_pods, containers = n_containers, "synchronized");
        self.phase.send_replace(SessionPhase::Synchronized);
        let update = updates.into_iter().map(Into::into).collect();
        Ok(encode(&api::SynchronizeResponse { update, ..Default::default() }))
    }

    async fn shutdown(&self) -> ttrpc::Result<Bytes> {
        debug!("the runtime goes away");
        self.plugin.shutdown().await;
        self.phase.send_replace(SessionPhase::ShutDown);
        Ok(Bytes::new())
    }

    async fn state_change(&self, request: &Bytes, timeout: Option<Duration>) -> ttrpc::Result<Bytes> {
        let api::StateChangeEvent { event, pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
        let Some(event) = Event::from_number(event.value()).filter(|event| event.is_state_change()) else {
            let text = format!("event {} is none that a state change can tell of", event.value());
            return Err(status(Code::INVALID_ARGUMENT, text));
        };
        self.handle(event, timeout, async |context| {
            self.notice(event, context, pod_of(pod.into_option()), container_of(container.into_option())).await
        })
        .await
    }

    async fn event(&self, event: Event, request: &Bytes, timeout: Option<Duration>) -> ttrpc::Result<Bytes> {
        match event {
            Event::CreateContainer => {
                let api::CreateContainerRequest { pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
                let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                let create = async |context: &Context| {
                    let reply = self.plugin.create_container(context, pod, container).await?;
                    Ok(encode(&api::CreateContainerResponse::from(reply)))
                };
                self.handle(event, timeout, create).await
            }
            Event::UpdateContainer => {
                let api::UpdateContainerRequest { pod, container, linux_resources, special_fields: _ } =
                    parse(request, MAX_ENTRIES)?;
                let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                let resources = linux_resources.into_option().map(Resources::from);
                let update = async |context: &Context| {
                    let reply = self.plugin.update_container(context, pod, container, resources).await?;
                    Ok(encode(&api::UpdateContainerResponse::from(reply)))
                };
                self.handle(event, timeout, update).await
            }
            Event::StopContainer => {
                let api::StopContainerRequest { pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
                let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                let stop = async |context: &Context| {
                    let reply = self.plugin.stop_container(context, pod, container).await?;
                    Ok(encode(&api::StopContainerResponse::from(reply)))
                };
                self.handle(event, timeout, stop).await
            }
            Event::ValidateContainerAdjustment => {
                let request = parse::<api::ValidateContainerAdjustmentRequest>(request, MAX_ENTRIES)?;
                let proposal = Proposal::from(request);
                let validate = async |context: &Context| {
                    let verdict = self.plugin.validate_container_adjustment(context, proposal).await?;
                    Ok(encode(&api::ValidateContainerAdjustmentResponse::from(verdict)))
                };
                self.handle(event, timeout, validate).await
            }
            Event::UpdatePodSandbox => {
                let api::UpdatePodSandboxRequest { pod, overhead_linux_resources, linux_resources, special_fields: _ } =
                    parse(request, MAX_ENTRIES)?;
                let overhead = overhead_linux_resources.into_option().map(Resources::from);
                let resources = linux_resources.into_option().map(Resources::from);
                let update = async |context: &Context| {
                    let pod = pod_of(pod.into_option());
                    self.plugin.update_pod_sandbox(context, pod, overhead, resources).await?;
                    Ok(Bytes::new())
                };
                self.handle(event, timeout, update).await
            }
            Event::RunPodSandbox
            | Event::PostUpdatePodSandbox
            | Event::StopPodSandbox
            | Event::RemovePodSandbox
            | Event::PostCreateContainer
            | Event::StartContainer
            | Event::PostStartContainer
            | Event::PostUpdateContainer
            | Event::RemoveContainer => {
                // All of these have the same fields, and those about pods no container.
                let api::StartContainerRequest { pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
                self.handle(event, timeout, async |context| {
                    let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                    self.notice(event, context, pod, container).await
                })
                .await
            }
        }
    }

    async fn notice(&self, event: Event, context: &Context, pod: Pod, container: Container) -> Result<Bytes, Refusal> {
        let plugin = &self.plugin;
        match event {
            Event::RunPodSandbox => plugin.run_pod_sandbox(context, pod).await,
            Event::PostUpdatePodSandbox => plugin.post_update_pod_sandbox(context, pod).await,
            Event::StopPodSandbox => plugin.stop_pod_sandbox(context, pod).await,
            Event::RemovePodSandbox => plugin.remove_pod_sandbox(context, pod).await,
            Event::PostCreateContainer => plugin.post_create_container(context, pod, container).await,
            Event::StartContainer => plugin.start_container(context, pod, container).await,
            Event::PostStartContainer => plugin.post_start_container(context, pod, container).await,
            Event::PostUpdateContainer => plugin.post_update_container(context, pod, container).await,
            Event::RemoveContainer => plugin.remove_container(context, pod, container).await,
            Event::CreateContainer
            | Event::UpdateContainer
            | Event::StopContainer
            | Event::UpdatePodSandbox
            | Event::ValidateContainerAdjustment => Err(Refusal::new(format_args!("{event} is not a notice"))),
        }
        .map(|()| Bytes::new())
    }

    /// Has a handler answer, if the plugin subscribed to the event.
    async fn handle(
        &self,
        event: Event,
        timeout: Option<Duration>,
        handler: impl AsyncFnOnce(&Context) -> Result<Bytes, Refusal>,
    ) -> ttrpc::Result<Bytes> {
        let Some(subscribed) = self.events() else {
            return Err(status(Code::FAILED_PRECONDITION, "the plugin is not configured yet"));
        };
        if !subscribed.contains(event) {
            return Ok(Bytes::new());
        }
        debug!(%event, "asked");
        let context = self.context(timeout);
        let answer = handler(&context).await.map_err(Refusal::into_status)?;
        if context.deadline().is_some_and(|deadline| deadline < tokio::time::Instant::now()) {
            warn!(%event, "the runtime no longer waits for this answer");
        }
        if context.has_no_handler() {
            self.report_missing_handler(event)?;
        }
        Ok(answer)
    }

    fn report_missing_handler(&self, event: Event) -> ttrpc::Result<()> {
        if self.settings.is_strict {
            let text = format!("the plugin subscribes to {event} and has no handler for it");
            return Err(status(Code::UNIMPLEMENTED, text));
        }
        let mut state = self.state();
        if !state.reported.contains(event) {
            state.reported.insert(event);
            drop(state);
            warn!(%event, "subscribed to, and without a handler");
        }
        Ok(())
    }

    fn events(&self) -> Option<EventMask> {
        self.state().subscribed.as_ref().map(|subscribed| subscribed.events)
    }

    fn context(&self, timeout: Option<Duration>) -> Context {
        // Whoever is not configured is asked nothing.
        Context::new(self.runtime.clone(), self.events().unwrap_or(EventMask::EMPTY), timeout)
    }

    fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock()
    }
}

/// What a runtime can call.
#[derive(Clone, Copy)]
enum Rpc {
    Configure,
    Synchronize,
    Shutdown,
    StateChange,
    Event(Event),
}

impl Rpc {
    fn name(self) -> &'static str {
        match self {
            Self::Configure => "Configure",
            Self::Synchronize => "Synchronize",
            Self::Shutdown => "Shutdown",
            Self::StateChange => "StateChange",
            Self::Event(event) => event.rpc(),
        }
    }
}

// Not the generated service: it reads messages of any number of entries.
struct RpcHandler {
    rpc: Rpc,
    service: Arc<Service>,
}

#[async_trait]
impl MethodHandler for RpcHandler {
    async fn handler(&self, context: TtrpcContext, request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let timeout = u64::try_from(context.timeout_nano).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
        let request = Bytes::from(request.payload);
        let answer = match self.rpc {
            Rpc::Configure => self.service.configure(&request).await,
            Rpc::Synchronize => self.service.synchronize(&request, timeout).await,
            Rpc::Shutdown => self.service.shutdown().await,
            Rpc::StateChange => self.service.state_change(&request, timeout).await,
            Rpc::Event(event) => self.service.event(event, &request, timeout).await,
        }?;
        let mut response = ttrpc::Response::new();
        response.payload = answer.into();
        Ok(response)
    }
}

fn pod_of(message: Option<api::PodSandbox>) -> Pod {
    message.map(Pod::from).unwrap_or_default()
}

fn container_of(message: Option<api::Container>) -> Container {
    message.map(Container::from).unwrap_or_default()
}

fn parse<M: Message>(request: &Bytes, entries: usize) -> ttrpc::Result<M> {
    bounded::parse(request, entries).map_err(|error| bounded_error_status(&error))
}

fn snapshot_error_status(error: &SnapshotError) -> ttrpc::Error {
    match error {
        SnapshotError::TooLarge(_) => status(Code::RESOURCE_EXHAUSTED, error),
        SnapshotError::Unread(cause) => bounded_error_status(cause),
    }
}

fn bounded_error_status(error: &BoundedError) -> ttrpc::Error {
    let code = match error {
        BoundedError::TooMany(_) => Code::RESOURCE_EXHAUSTED,
        BoundedError::Malformed(_) | BoundedError::Twice => Code::INVALID_ARGUMENT,
    };
    status(code, chain(error))
}
