//! What a runtime calls: the one place where the plugin's side speaks the wire.

mod events;
mod phase;
mod rpc;
mod snapshot;
mod status;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nri_proto::{EventMask, api};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tracing::{debug, info, warn};

pub(crate) use self::phase::SessionPhase;
use self::snapshot::SnapshotParts;
use self::status::{parse, refusal_status, snapshot_error_status};
use crate::plugin::{Context, Introduction, Plugin, Refusal};
use crate::runtime::{Runtime, encode};

/// How many entries an introduction may have. It needs four.
const MAX_CONFIGURE_ENTRIES: usize = 64;

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
                return Err(refusal_status(refusal));
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
        info!(runtime, version, nri, %events, "configured");
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
        let updates = updates.map_err(refusal_status)?;
        info!(pods = n_pods, containers = n_containers, "synchronized");
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
