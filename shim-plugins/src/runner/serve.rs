//! The server of a shim: loads the plugins, serves until the end, and ends in order.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::abandoned::abandoned;
use super::builtin::{self, builtin_plugins};
use super::debug_socket::{self, DebugSocket};
use super::environment::ControlSignal;
use super::handshake::{Assignment, HandshakeServer};
use super::shim::Shim;
use super::shim_server::ShimServer;
use super::socket::SocketFile;
use crate::graph::Uri;
use crate::load::{LoadError, Loaded};
use crate::plugin::{ErrorChain, LoadOutcome, ShimContext};
use crate::process::Shutdown;
use crate::server::task::{self, TASK};

/// How long to wait for the assignment from `start`.
const ASSIGNMENT_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait until `start` has given containerd the address.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why a shim does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process was not started by `start`.
    #[error("the action serve is reserved for `start`: standard input is not a listening socket")]
    NotStarted,

    /// The assignment could not be read.
    #[error("could not read the assignment")]
    Assignment(#[source] io::Error),

    /// The plugins could not be loaded.
    #[error("could not load the plugins")]
    Load(#[from] LoadError),

    /// No plugin contributes a service.
    #[error("no plugin contributes a service")]
    NoService,

    /// No plugin contributes the Task service, and the shim does not say that it has none.
    #[error("no plugin contributes the Task service: {reason}")]
    NoTask {
        /// Which plugin is missing, and why.
        reason: String,
    },

    /// The socket could not be used.
    #[error("could not listen")]
    Listen(#[source] io::Error),

    /// The ttrpc server could not be started.
    #[error("could not start the server")]
    Server(#[source] ttrpc::Error),

    /// `start` did not give containerd the address.
    #[error("containerd did not receive the address of the shim")]
    NotAnnounced(#[source] io::Error),

    /// The thread or its Tokio runtime could not be started.
    #[error("could not start the server thread")]
    Thread(#[source] io::Error),

    /// The shim was told to end before it served.
    #[error("told to end before the shim served")]
    ToldToEnd,
}

/// Serves until the end. In every case, the socket is removed, the plugins are ended, and the
/// events are sent.
pub(super) async fn serve(
    shim: &Shim,
    handshake: UnixStream,
    listener: UnixListener,
    mut signals: mpsc::Receiver<ControlSignal>,
) -> Result<(), ServeError> {
    let file = SocketFile::of(&listener);
    let mut handshake = HandshakeServer::new(handshake).map_err(ServeError::Assignment)?;
    let shutdown = Shutdown::default();
    let (context, loaded, server) = match begin(shim, &mut handshake, listener, &shutdown, &mut signals).await {
        Ok(begun) => begun,
        Err(error) => {
            drop(file);
            handshake.failed(&ErrorChain(&error).to_string()).await;
            return Err(error);
        }
    };
    let announced = tokio::select! {
        announced = handshake.ready(ANSWER_LIMIT) => announced.map_err(ServeError::NotAnnounced),
        // Containerd may already have the address, so the shim ends like one that has served.
        () = told_to_end(&mut signals) => {
            shutdown.request();
            Ok(())
        }
    };
    if announced.is_ok() {
        info!(plugins = loaded.uris().count(), "serving");
        let mut debug = DebugSocket::open(&context, file.as_ref().map(SocketFile::path));
        tokio::select! {
            () = until_end(&shutdown, &mut signals, &mut debug, || diagnostics(&loaded, &server)) => {}
            () = abandoned(&context.bundle, server.containers(), server.attendance()) => {
                warn!("the bundle is gone and nobody is connected: ending");
            }
        }
    }
    end(file, &shutdown, server, loaded).await;
    announced
}

/// Loads the plugins and starts to listen. Fails if the shim is told to end, or if `start` is gone.
async fn begin(
    shim: &Shim,
    handshake: &mut HandshakeServer,
    listener: UnixListener,
    shutdown: &Shutdown,
    signals: &mut mpsc::Receiver<ControlSignal>,
) -> Result<(ShimContext, Loaded, ShimServer), ServeError> {
    let assignment = tokio::select! {
        assignment = handshake.assignment(ASSIGNMENT_LIMIT) => assignment.map_err(ServeError::Assignment)?,
        () = told_to_end(signals) => return Err(ServeError::ToldToEnd),
    };
    let mut preparing = pin!(prepare(shim, &assignment, listener, shutdown));
    tokio::select! {
        prepared = &mut preparing => {
            return prepared.map(|(loaded, server)| (assignment.context.clone(), loaded, server));
        }
        () = told_to_end(signals) => debug!("told to end while loading plugins"),
        () = handshake.gone() => debug!("start is gone"),
    }
    shutdown.request();
    let (loaded, server) = preparing.await?;
    end(None, shutdown, server, loaded).await;
    Err(ServeError::ToldToEnd)
}

/// Loads the plugins, and serves what they contribute.
async fn prepare(
    shim: &Shim,
    assignment: &Assignment,
    listener: UnixListener,
    shutdown: &Shutdown,
) -> Result<(Loaded, ShimServer), ServeError> {
    let mut registry = builtin_plugins(shutdown, &shim.clock);
    registry.extend(shim.registry.plugins.iter().cloned());
    let configuration = shim.configuration.clone().overridden_by(assignment.configuration.clone());
    let context = Arc::new(assignment.context.clone());
    let mut loaded = registry.load_until(&configuration, context, &shutdown.token()).await?;
    let server = match missing_task(shim, &loaded) {
        Some(reason) => Err(ServeError::NoTask { reason }),
        None => ShimServer::start(&mut loaded, listener, shutdown).await,
    };
    if server.is_err() {
        loaded.end().await;
    }
    Ok((loaded, server?))
}

/// Returns why a shim that needs a Task service has none.
fn missing_task(shim: &Shim, loaded: &Loaded) -> Option<String> {
    if !shim.needs_task || [task::V2, task::V3].iter().any(|name| loaded.serves(name)) {
        return None;
    }
    let task = TASK.uri();
    let reasons = match loaded.outcome(&task) {
        Some(outcome) => vec![absence(&task, outcome)],
        // Another plugin may be meant to contribute the service.
        None => loaded.absent().map(|(uri, outcome)| absence(uri, outcome)).collect(),
    };
    if reasons.is_empty() {
        return Some(format!("{task} is not registered (a shim that has no Task calls Shim::without_task)"));
    }
    Some(reasons.join(", "))
}

/// Returns why a plugin is absent, as a clause.
fn absence(uri: &Uri, outcome: &LoadOutcome) -> String {
    match outcome {
        LoadOutcome::Disabled => format!("{uri} was disabled by the configuration"),
        LoadOutcome::Loaded => format!("{uri} was loaded, but contributes no such service"),
        LoadOutcome::Skipped { reason } => format!("{uri} was skipped: {reason}"),
        LoadOutcome::Failed { cause } => format!("{uri} failed: {}", ErrorChain(&**cause)),
    }
}

/// Waits for a signal to end. Used while no plugin is loaded that could be diagnosed.
async fn told_to_end(signals: &mut mpsc::Receiver<ControlSignal>) {
    loop {
        match signals.recv().await {
            Some(ControlSignal::End) => return,
            Some(ControlSignal::Diagnose) => info!("diagnostics: the plugins are being loaded"),
            None => std::future::pending().await,
        }
    }
}

/// Waits until a plugin or a signal ends the shim. Answers requests for diagnostics meanwhile.
async fn until_end(
    shutdown: &Shutdown,
    signals: &mut mpsc::Receiver<ControlSignal>,
    debug: &mut DebugSocket,
    diagnostics: impl Fn() -> String,
) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            stream = debug.accepted() => debug_socket::send(stream, &diagnostics()).await,
            signal = signals.recv() => match signal {
                Some(ControlSignal::End) => return,
                Some(ControlSignal::Diagnose) => {
                    for line in diagnostics().lines() {
                        info!("diagnostics: {line}");
                    }
                }
                // The sender is gone, so no signal will come.
                None => return shutdown.requested().await,
            },
        }
    }
}

fn diagnostics(loaded: &Loaded, server: &ShimServer) -> String {
    format!("{}{} calls are being answered\n", loaded.diagnostics(), server.n_calls())
}

/// Ends the shim in order: callers are answered while the plugins can answer, and containerd sees
/// the connection close only after everything was sent.
async fn end(file: Option<SocketFile>, shutdown: &Shutdown, server: ShimServer, mut loaded: Loaded) {
    // The socket goes first: a new container of the group needs a new shim.
    drop(file);
    shutdown.request();
    server.stop_accepting();
    server.settle().await;
    loaded.end_down_to(&builtin::uris()).await;
    server.give_up().await;
    loaded.end().await;
    server.close().await;
}
