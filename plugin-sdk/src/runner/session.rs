//! One connection, from registering to its end.

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

/// What a runtime may have us work on at a time. It waits for each answer before it asks the next, but for late ones.
const FROM_A_RUNTIME: ServeLimits = ServeLimits { requests: 64, bytes: 8 << 20 };

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) registration: Duration,
    /// None: it may not happen at all.
    pub(crate) sync: Option<Duration>,
    pub(crate) grace: Duration,
}

/// How a connection ended that was not broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// We were told to stop.
    Stopped,
    /// The runtime said that it goes away, and went.
    ShutDown,
}

/// Serves the plugin on a connection until that ends, or until `shutdown`. Nothing of it is left then.
pub(crate) async fn run(
    (mux, [served, requests]): OpenConnection,
    id: &PluginId,
    service: &Arc<Service>,
    runtime: &Runtime,
    timeouts: Timeouts,
    shutdown: &CancellationToken,
) -> Result<SessionEnd, RunError> {
    // We came to it: there is nothing that it has to say before.
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
    // The handlers that run may still answer, and ask for something.
    if tokio::time::timeout(timeouts.grace, serving).await.is_err() {
        debug!("a handler takes longer than the plugin may take to stop");
    }
    drop(connected);
    mux.finish(timeouts.grace).await;
    outcome
}

/// Gets the plugin in, and waits for the end of the connection.
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
    // The runtime may configure the plugin before it has answered this, and that is fine: the service waits for it already.
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
    let was_told = *phases.borrow() == SessionPhase::ShutDown;
    if was_told { Ok(SessionEnd::ShutDown) } else { Err(RunError::Lost(reason)) }
}

/// Waits until the runtime has come so far. None if it takes too long.
async fn wait_for_phase(
    mux: &Mux,
    phases: &mut watch::Receiver<SessionPhase>,
    is_reached: impl FnMut(&SessionPhase) -> bool,
    timeout: Duration,
    step: &'static str,
) -> Result<Option<SessionPhase>, RunError> {
    tokio::select! {
        // What was done before the end counts.
        biased;
        // The service has the sender, and is kept for as long as this runs.
        Ok(reached) = phases.wait_for(is_reached) => Ok(Some(reached.clone())),
        source = mux.closed() => Err(RunError::LeftEarly { step, source }),
        () = tokio::time::sleep(timeout) => Ok(None),
    }
}
