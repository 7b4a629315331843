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
use crate::connection::Opened;
use crate::runtime::{Runtime, register};
use crate::service::{Service, Step};

/// What a runtime may have us work on at a time. It waits for each answer before it asks the next, but for late ones.
const FROM_A_RUNTIME: ServeLimits = ServeLimits { requests: 64, bytes: 8 << 20 };

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) registration: Duration,
    /// None: it may not happen at all.
    pub(crate) sync: Option<Duration>,
    pub(crate) grace: Duration,
}

/// How a connection ended that was not broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// We were told to stop.
    Stopped,
    /// The runtime said that it goes away, and went.
    ShutDown,
}

/// Serves the plugin on a connection until that ends, or until `shutdown`. Nothing of it is left then.
pub(crate) async fn run(
    (mux, [served, requests]): Opened,
    id: &PluginId,
    service: &Arc<Service>,
    runtime: &Runtime,
    times: Times,
    shutdown: &CancellationToken,
) -> Result<End, RunError> {
    // We came to it: there is nothing that it has to say before.
    mux.admit();
    let leaving = CancellationToken::new();
    let serving = tokio::spawn(serve(served, Arc::new(service.methods()), FROM_A_RUNTIME, leaving.clone()));
    let _leave = leaving.clone().drop_guard();
    let client = Client::new(requests);
    let connected = runtime.connect(client.clone());
    let outcome = tokio::select! {
        outcome = live(&mux, &client, id, service.steps(), times) => outcome,
        () = shutdown.cancelled() => Ok(End::Stopped),
    };
    leaving.cancel();
    // The handlers that run may still answer, and ask for something.
    if tokio::time::timeout(times.grace, serving).await.is_err() {
        debug!("a handler takes longer than the plugin may take to stop");
    }
    drop(connected);
    mux.finish(times.grace).await;
    outcome
}

/// Gets the plugin in, and waits for the end of the connection.
async fn live(
    mux: &Mux,
    client: &Client,
    id: &PluginId,
    mut steps: watch::Receiver<Step>,
    times: Times,
) -> Result<End, RunError> {
    let request = api::RegisterPluginRequest {
        plugin_name: id.name().to_owned(),
        plugin_idx: id.index().to_owned(),
        NRI_version: version::NRI.to_owned(),
        ..Default::default()
    };
    // The runtime may configure the plugin before it has answered this, and that is fine: the service waits for it already.
    let registered = register(client, request, times.registration).await;
    if let Step::Refused(reason) = &*steps.borrow() {
        return Err(RunError::Configure(reason.clone()));
    }
    registered.map_err(RunError::Register)?;
    debug!(plugin = %id, "registered");

    let is_configured = |step: &Step| *step != Step::New;
    match reach(mux, &mut steps, is_configured, times.registration, "configured").await? {
        Some(Step::Refused(reason)) => return Err(RunError::Configure(reason)),
        Some(_) => {}
        None => return Err(RunError::NotConfigured),
    }
    if let Some(timeout) = times.sync {
        let is_synchronized = |step: &Step| matches!(step, Step::Synchronized | Step::ShutDown);
        if reach(mux, &mut steps, is_synchronized, timeout, "synchronized").await?.is_none() {
            return Err(RunError::NotSynchronized);
        }
    }
    let reason = mux.closed().await;
    let was_told = *steps.borrow() == Step::ShutDown;
    if was_told { Ok(End::ShutDown) } else { Err(RunError::Lost(reason)) }
}

/// Waits until the runtime has come so far. None if it takes too long.
async fn reach(
    mux: &Mux,
    steps: &mut watch::Receiver<Step>,
    is_there: impl FnMut(&Step) -> bool,
    timeout: Duration,
    step: &'static str,
) -> Result<Option<Step>, RunError> {
    tokio::select! {
        // What was done before the end counts.
        biased;
        // The service has the sender, and is kept for as long as this runs.
        Ok(reached) = steps.wait_for(is_there) => Ok(Some(reached.clone())),
        source = mux.closed() => Err(RunError::LeftEarly { step, source }),
        () = tokio::time::sleep(timeout) => Ok(None),
    }
}
