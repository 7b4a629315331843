//! The calls of the runtime: the service of a plugin on one connection.
//!
//! - `service.rs` handles Configure, Synchronize and Shutdown, and has the state of the service.
//! - `events.rs` handles the requests about events, and passes them to the handlers of the plugin.
//! - `rpc.rs` is the list of RPCs. It connects the service to the ttRPC server.
//! - `phase.rs` is how far registration has come; `snapshot.rs` collects the parts of a snapshot.
//! - `status.rs` decodes requests, and turns refusals and errors into ttRPC statuses.

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

/// The maximum number of entries in a Configure request. The messages of today have at most four.
const MAX_CONFIGURE_ENTRIES: usize = 64;

/// The settings of the service that stay the same over reconnections.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSettings {
    /// The configuration for runtimes that have none for this plugin.
    pub(crate) config: Option<String>,
    /// The maximum size of a snapshot in encoded bytes.
    pub(crate) max_sync: usize,
    /// Whether an event without a handler is an error instead of a warning.
    pub(crate) is_strict: bool,
    /// Whether the plugin can connect again, with fewer events, after the runtime rejects a
    /// subscription.
    pub(crate) can_reconnect: bool,
}

/// The service that a plugin provides to the runtime on one connection.
pub(crate) struct Service {
    plugin: Arc<dyn Plugin>,
    runtime: Runtime,
    settings: ServiceSettings,
    /// Whether to subscribe only to events that every runtime has, if the support is unknown.
    is_conservative: bool,
    state: Mutex<ServiceState>,
    phase: watch::Sender<SessionPhase>,
}

/// The state of the service on this connection.
#[derive(Default)]
struct ServiceState {
    /// The subscription, once the plugin is configured.
    subscription: Option<Subscription>,
    /// The registration timeout of the runtime, or zero if the runtime has not reported it.
    registration_timeout: Duration,
    parts: SnapshotParts,
    /// The events without a handler that a warning was logged for.
    reported: EventMask,
}

/// The subscription of the plugin on this connection.
#[derive(Clone)]
struct Subscription {
    events: EventMask,
    /// The reply to Configure, repeated if the runtime configures the plugin again.
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

    /// Returns a receiver for the phase of the session.
    pub(crate) fn phases(&self) -> watch::Receiver<SessionPhase> {
        self.phase.subscribe()
    }

    /// Returns the registration timeout of the runtime, or zero if the runtime has not reported it.
    pub(crate) fn registration_timeout(&self) -> Duration {
        self.state().registration_timeout
    }

    /// Handles a Configure request.
    async fn configure(&self, request: &Bytes) -> ttrpc::Result<Bytes> {
        if let Some(subscription) = self.state().subscription.clone() {
            debug!("ignored a repeated Configure request");
            return Ok(encode(&subscription.answer));
        }
        let request = parse::<api::ConfigureRequest>(request, MAX_CONFIGURE_ENTRIES)?;
        let introduction = Introduction::read(request, self.settings.config.as_deref());
        self.state().registration_timeout = introduction.registration_timeout;
        let subscription = match self.subscribe(introduction).await {
            Ok(subscription) => subscription,
            Err(refusal) => {
                self.phase.send_replace(SessionPhase::Refused(refusal.to_string()));
                return Err(refusal_status(refusal));
            }
        };
        let answer = encode(&subscription.answer);
        self.state().subscription = Some(subscription);
        Ok(answer)
    }

    /// Asks the plugin for its events, and limits them to those that the runtime supports.
    async fn subscribe(&self, introduction: Introduction) -> Result<Subscription, Refusal> {
        let supported = introduction.supported_events();
        let (runtime, version) = (introduction.runtime_name.clone(), introduction.runtime_version.clone());
        let nri = introduction.nri_version.clone().unwrap_or_else(|| "unknown".to_owned());
        let wanted = self.plugin.configure(introduction).await?;
        if wanted.is_empty() {
            return Err(Refusal::new("the plugin subscribes to no events, which the protocol takes for all events"));
        }
        let events = supported.restrict(wanted, self.is_conservative);
        let missing: EventMask = wanted.iter().filter(|event| !events.contains(*event)).collect();
        if !missing.is_empty() {
            warn!(runtime, version, nri, events = %missing, "the runtime does not support some of the plugin's events; continuing without them");
        }
        let Some(mask) = events.to_wire() else {
            return Err(Refusal::new(format_args!("the runtime supports none of the plugin's events ({wanted})")));
        };
        let can_be_refused = supported.may_reject(events);
        // An empty mask means all events of the runtime, so a runtime cannot reject it. The service
        // then answers the events that the plugin does not want.
        let mask = if can_be_refused && !self.settings.can_reconnect { 0 } else { mask };
        info!(runtime, version, nri, %events, "configured");
        self.phase.send_replace(SessionPhase::Configured { can_be_refused });
        let failure_policy = Some(self.plugin.failure_policy().into()).into();
        let answer = api::ConfigureResponse { events: mask, failure_policy, ..Default::default() };
        Ok(Subscription { events, answer })
    }

    /// Handles a part of the snapshot. The last part is passed on to the plugin.
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

    /// Handles the announcement that the runtime is shutting down.
    async fn shutdown(&self) -> ttrpc::Result<Bytes> {
        debug!("the runtime is shutting down");
        self.plugin.shutdown().await;
        self.phase.send_replace(SessionPhase::ShutDown);
        Ok(Bytes::new())
    }

    /// Returns the subscribed events, or none before the plugin is configured.
    fn events(&self) -> Option<EventMask> {
        self.state().subscription.as_ref().map(|subscription| subscription.events)
    }

    /// Creates the context of a request with this timeout.
    fn context(&self, timeout: Option<Duration>) -> Context {
        // Before Configure, the subscription is empty.
        Context::new(self.runtime.clone(), self.events().unwrap_or(EventMask::EMPTY), timeout)
    }

    fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock()
    }
}
