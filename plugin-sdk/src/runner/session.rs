//! A session: one connection, from the registration to the end.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::call::{Client, ServeLimits, serve};
use nri_proto::mux::Mux;
use nri_proto::{PluginId, api, version};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::RunError;
use crate::connection::OpenConnection;
use crate::runtime::{Runtime, register};
use crate::service::{Service, SessionPhase};

/// The limits on concurrent requests of a runtime. A runtime sends more than one only after a late
/// reply.
const FROM_A_RUNTIME: ServeLimits = ServeLimits { requests: 64, bytes: 8 << 20 };

/// The timeouts of the steps of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// The timeout of registering, and that of being configured.
    pub(crate) registration: Duration,
    /// The timeout of being synchronized, or none if the runtime may never synchronize the plugin.
    pub(crate) sync: Option<Duration>,
    /// How long running handlers may take to finish.
    pub(crate) grace: Duration,
}

/// The reason why a session ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The plugin was stopped.
    Stopped,
    /// The runtime announced that it is shutting down, and disconnected.
    ShutDown,
}

/// Runs a session until the connection ends, or until `shutdown` is cancelled.
///
/// All tasks of the session have ended afterwards, except handlers that outlast the grace period.
pub(crate) async fn run(
    (mux, [served, requests]): OpenConnection,
    id: &PluginId,
    service: &Arc<Service>,
    runtime: &Runtime,
    timeouts: Timeouts,
    shutdown: &CancellationToken,
) -> Result<SessionEnd, RunError> {
    // The limits before admission are for unknown peers. The plugin chose to connect to this one.
    mux.admit();
    let stopping = CancellationToken::new();
    let serving = tokio::spawn(serve(served, Arc::new(service.methods()), FROM_A_RUNTIME, stopping.clone()));
    let _stop_on_drop = stopping.clone().drop_guard();
    let client = Client::new(requests);
    let connected = runtime.connect(client.clone());
    let outcome = tokio::select! {
        outcome = register_and_wait(&mux, &client, id, service.phases(), timeouts) => outcome,
        () = shutdown.cancelled() => Ok(SessionEnd::Stopped),
    };
    stopping.cancel();
    // Running handlers can still reply, and call the runtime.
    if tokio::time::timeout(timeouts.grace, serving).await.is_err() {
        debug!("handlers are still running after the grace period");
    }
    drop(connected);
    mux.finish(timeouts.grace).await;
    outcome
}

/// Registers the plugin, waits until it is configured and synchronized, and then for the end of the
/// connection.
async fn register_and_wait(
    mux: &Mux,
    client: &Client,
    id: &PluginId,
    mut phases: watch::Receiver<SessionPhase>,
    timeouts: Timeouts,
) -> Result<SessionEnd, RunError> {
    let request = api::RegisterPluginRequest {
        plugin_name: id.name().to_owned(),
        plugin_idx: id.index().to_owned(),
        NRI_version: version::NRI.to_owned(),
        ..Default::default()
    };
    // A runtime may configure the plugin before it replies to the registration. The service already
    // runs.
    let registered = register(client, request, timeouts.registration).await;
    if let SessionPhase::Refused(reason) = &*phases.borrow() {
        return Err(RunError::Configure(reason.clone()));
    }
    registered.map_err(RunError::Register)?;
    debug!(plugin = %id, "registered");

    let is_configured = |phase: &SessionPhase| *phase != SessionPhase::New;
    match wait_for_phase(mux, &mut phases, is_configured, timeouts.registration, "configured").await? {
        Some(SessionPhase::Refused(reason)) => return Err(RunError::Configure(reason)),
        Some(_) => {}
        None => return Err(RunError::NotConfigured),
    }
    if let Some(timeout) = timeouts.sync {
        let is_synchronized =
            |phase: &SessionPhase| matches!(phase, SessionPhase::Synchronized | SessionPhase::ShutDown);
        if wait_for_phase(mux, &mut phases, is_synchronized, timeout, "synchronized").await?.is_none() {
            return Err(RunError::NotSynchronized);
        }
    }
    let reason = mux.closed().await;
    let has_shut_down = *phases.borrow() == SessionPhase::ShutDown;
    if has_shut_down { Ok(SessionEnd::ShutDown) } else { Err(RunError::Lost(reason)) }
}

/// Waits for a phase of the session. Returns none after the timeout.
async fn wait_for_phase(
    mux: &Mux,
    phases: &mut watch::Receiver<SessionPhase>,
    is_reached: impl FnMut(&SessionPhase) -> bool,
    timeout: Duration,
    step: &'static str,
) -> Result<Option<SessionPhase>, RunError> {
    tokio::select! {
        // A phase that was reached before the end of the connection counts.
        biased;
        // The service has the sender, and outlives this function.
        Ok(reached) = phases.wait_for(is_reached) => Ok(Some(reached.clone())),
        source = mux.closed() => Err(RunError::LeftEarly { step, source }),
        () = tokio::time::sleep(timeout) => Ok(None),
    }
}
