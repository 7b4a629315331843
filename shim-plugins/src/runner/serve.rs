//! The server of a shim: loads the plugins, serves what they contribute, and ends in order.

use std::collections::HashMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use ttrpc::r#async::{Server, Service};
use ttrpc::asynchronous::transport::Listener;

use super::Shim;
use super::debug_socket::{self, DebugSocket};
use super::environment::ControlSignal;
use super::handshake::{Assignment, HandshakeServer};
use super::socket::SocketFile;
use crate::events::{EventSender, PUBLISHER, Publisher};
use crate::graph::Uri;
use crate::load::{LoadError, Loaded, Registry};
use crate::plugin::{ErrorChain, Plugin, Provided, ShimContext};
use crate::process::{Clock, REAPER, Reaper, SHUTDOWN, Shutdown};
use crate::server::call::{CallGuard, GuardedMethod};
use crate::server::task::KNOWN_SERVICES;

/// How long to wait for what to serve.
const ASSIGNMENT_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait until containerd knows the address.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long calls may go on when the shim ends.
const CALL_LIMIT: Duration = Duration::from_secs(2);

/// How long events are sent when the shim ends.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a shim does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What it was started with is not what it needs.
    #[error("this action is for `start`: standard input is no socket that listens")]
    NotStarted,

    /// It was not told what to serve.
    #[error("could not learn what to serve")]
    Assignment(#[source] io::Error),

    /// The plugins are not there.
    #[error("could not load the plugins")]
    Load(#[from] LoadError),

    /// No plugin serves anything.
    #[error("no plugin contributes a service")]
    NoService,

    /// The socket cannot be used.
    #[error("could not listen")]
    Listen(#[source] io::Error),

    /// The server could not be started.
    #[error("could not start the server")]
    Server(#[source] ttrpc::Error),

    /// Whoever started it did not tell containerd about it.
    #[error("containerd was not told the address")]
    NotAnnounced(#[source] io::Error),

    /// There is nothing to run on.
    #[error("could not start the thread that serves")]
    Thread(#[source] io::Error),

    /// It had to end before it began.
    #[error("told to end before it served")]
    ToldToEnd,
}

/// Serves until the end. Whatever happens, the socket goes, the plugins are ended and the events are sent.
pub(super) async fn serve(
    shim: &Shim,
    started: UnixStream,
    listener: UnixListener,
    mut signals: mpsc::Receiver<ControlSignal>,
) -> Result<(), ServeError> {
    let file = SocketFile::of(&listener);
    let mut started = HandshakeServer::new(started).map_err(ServeError::Assignment)?;
    let shutdown = Shutdown::default();
    let (context, loaded, serving) = match begin(shim, &mut started, listener, &shutdown, &mut signals).await {
        Ok(begun) => begun,
        Err(error) => {
            drop(file);
            started.failed(&ErrorChain(&error).to_string()).await;
            return Err(error);
        }
    };
    let answered = tokio::select! {
        answered = started.ready(ANSWER_LIMIT) => answered.map_err(ServeError::NotAnnounced),
        // Containerd may know of it already: it ends like one that has served.
        () = told_to_end(&mut signals) => {
            shutdown.request();
            Ok(())
        }
    };
    if answered.is_ok() {
        info!(plugins = loaded.uris().count(), "serving");
        let mut debug = DebugSocket::open(&context, file.as_ref().map(SocketFile::path));
        until_end(&shutdown, &mut signals, &mut debug, || diagnostics(&loaded, &serving.guard)).await;
    }
    end(file, &shutdown, serving, loaded).await;
    answered
}

/// Loads the plugins and begins to listen, unless it is told to end before, or nobody waits for it any more.
async fn begin(
    shim: &Shim,
    started: &mut HandshakeServer,
    listener: UnixListener,
    shutdown: &Shutdown,
    signals: &mut mpsc::Receiver<ControlSignal>,
) -> Result<(ShimContext, Loaded, ShimServer), ServeError> {
    let assignment = tokio::select! {
        assignment = started.assignment(ASSIGNMENT_LIMIT) => assignment.map_err(ServeError::Assignment)?,
        () = told_to_end(signals) => return Err(ServeError::ToldToEnd),
    };
    let mut preparing = pin!(prepare(shim, &assignment, listener, shutdown));
    tokio::select! {
        prepared = &mut preparing => return prepared.map(|(loaded, serving)| (assignment.context.clone(), loaded, serving)),
        () = told_to_end(signals) => debug!("told to end"),
        () = started.gone() => debug!("start is gone"),
    }
    shutdown.request();
    let (loaded, serving) = preparing.await?;
    end(None, shutdown, serving, loaded).await;
    Err(ServeError::ToldToEnd)
}

/// Waits for a signal to end, while there is nothing yet to diagnose.
async fn told_to_end(signals: &mut mpsc::Receiver<ControlSignal>) {
    loop {
        match signals.recv().await {
            Some(ControlSignal::End) => return,
            Some(ControlSignal::Diagnose) => info!("diagnostics: the plugins are being loaded"),
            None => std::future::pending().await,
        }
    }
}

/// Ends in order: callers are answered as long as there is somebody who can, and containerd sees the connection go when all
/// is said.
async fn end(file: Option<SocketFile>, shutdown: &Shutdown, serving: ShimServer, mut loaded: Loaded) {
    // First of all nobody may find this shim any more: a new container of its group needs a new one.
    drop(file);
    shutdown.request();
    serving.accepting.cancel();
    serving.settle().await;
    loaded.end_down_to(&OWN.map(|uri| uri())).await;
    serving.give_up().await;
    loaded.end().await;
    serving.close().await;
}

/// Waits for the end: a plugin, a signal. Meanwhile it says how it is.
async fn until_end(
    shutdown: &Shutdown,
    signals: &mut mpsc::Receiver<ControlSignal>,
    debug: &mut DebugSocket,
    diagnostics: impl Fn() -> String,
) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            stream = debug.asked() => debug_socket::tell(stream, &diagnostics()).await,
            signal = signals.recv() => match signal {
                Some(ControlSignal::End) => return,
                Some(ControlSignal::Diagnose) => {
                    for line in diagnostics().lines() {
                        info!("diagnostics: {line}");
                    }
                }
                // Nobody sends signals any more.
                None => return shutdown.requested().await,
            },
        }
    }
}

fn diagnostics(loaded: &Loaded, guard: &CallGuard) -> String {
    format!("{}{} calls are being answered\n", loaded.diagnostics(), guard.n_calls())
}

/// What listens and answers.
struct ShimServer {
    server: Server,
    guard: CallGuard,
    /// Cancelled when nothing is accepted any more.
    accepting: CancellationToken,
    #[cfg(feature = "grpc")]
    grpc: crate::server::grpc::Connections,
}

async fn prepare(
    shim: &Shim,
    assignment: &Assignment,
    listener: UnixListener,
    shutdown: &Shutdown,
) -> Result<(Loaded, ShimServer), ServeError> {
    let mut registry = own_plugins(shutdown, &shim.clock);
    registry.extend(shim.registry.plugins.iter().cloned());
    let configuration = shim.configuration.clone().overridden_by(assignment.configuration.clone());
    let context = Arc::new(assignment.context.clone());
    let mut loaded = registry.load_until(&configuration, context, &shutdown.token()).await?;
    let serving = listen(&mut loaded, listener, shutdown).await;
    if serving.is_err() {
        loaded.end().await;
    }
    Ok((loaded, serving?))
}

/// The names of the plugins that every shim has.
const OWN: [fn() -> Uri; 3] = [|| SHUTDOWN.uri(), || PUBLISHER.uri(), || REAPER.uri()];

/// The plugins that every shim has. They are loaded first, and so they end last.
pub(super) fn own_plugins(shutdown: &Shutdown, clock: &Clock) -> Registry {
    let (shutdown, to_publish, to_reap) = (shutdown.clone(), clock.clone(), clock.clone());
    let shutdown = Plugin::at(SHUTDOWN).init(move |_, ()| {
        let shutdown = shutdown.clone();
        async move { Ok(Provided::new(Arc::new(shutdown))) }
    });
    let publisher = Plugin::at(PUBLISHER).init(move |init, ()| {
        let started = Publisher::start(&init.context.ttrpc_address, &init.context.namespace, to_publish.clone());
        async move { Ok(publisher(started)) }
    });
    let reaper = Plugin::at(REAPER).init(move |_, ()| {
        let reaper = Arc::new(Reaper::with_clock(to_reap.clone()));
        async move { Ok(collecting(reaper)) }
    });
    Registry::new().with(shutdown).with(publisher).with(reaper)
}

/// The publisher, which sends what it has when the shim ends.
fn publisher((publisher, sender): (Publisher, EventSender)) -> Provided<Publisher> {
    let publisher = Arc::new(publisher);
    let counted = Arc::clone(&publisher);
    let limit = FLUSH_LIMIT + Duration::from_millis(100);
    let provided = Provided::new(publisher).debug("events", move || {
        let (n_waiting, n_lost) = counted.counts();
        format!("{n_waiting} wait, {n_lost} were lost")
    });
    provided.on_shutdown_within(limit, move || async move {
        let left = sender.flush(FLUSH_LIMIT).await;
        if left > 0 {
            warn!(left, "events were not sent");
        }
    })
}

/// The reaper, which collects orphans until the shim ends.
fn collecting(reaper: Arc<Reaper>) -> Provided<Reaper> {
    let (collector, counted) = (Arc::clone(&reaper), Arc::clone(&reaper));
    let orphans = tokio::spawn(async move { collector.collect_orphans().await });
    let provided = Provided::new(reaper).debug("processes", move || counted.n_processes().to_string());
    provided.on_shutdown(move || async move { orphans.abort() })
}

async fn listen(loaded: &mut Loaded, listener: UnixListener, shutdown: &Shutdown) -> Result<ShimServer, ServeError> {
    if loaded.serves_nothing() {
        return Err(ServeError::NoService);
    }
    let guard = CallGuard::new(loaded.interceptors(), shutdown.token());
    let mut services = HashMap::new();
    #[cfg(feature = "grpc")]
    let mut methods_over_grpc = crate::server::grpc::Methods::new();
    for (name, offered) in mem::take(&mut loaded.services) {
        #[cfg(not(feature = "grpc"))]
        let show = |_: &str, _: &GuardedMethod| {};
        #[cfg(feature = "grpc")]
        let methods = methods_over_grpc.entry(name.clone()).or_default();
        #[cfg(feature = "grpc")]
        let show = |method: &str, guarded: &GuardedMethod| drop(methods.insert(method.to_owned(), guarded.clone()));
        let service = guard.wrap(&name, offered.service, show);
        services.insert(name, service);
    }
    for name in KNOWN_SERVICES {
        services.entry(name.to_owned()).or_insert_with(|| Service { methods: HashMap::new(), streams: HashMap::new() });
    }
    listener.set_nonblocking(true).map_err(ServeError::Listen)?;
    let listener = tokio::net::UnixListener::from_std(listener).map_err(ServeError::Listen)?;
    let over = CancellationToken::new();
    let accepted = accepting(listener, over.clone());
    // Who accepts over TCP does so from here on, and must not go on if something fails.
    #[cfg(feature = "grpc")]
    let unless_served = over.clone().drop_guard();
    #[cfg(feature = "grpc")]
    let (accepted, grpc) = {
        let begun = mem::take(&mut loaded.grpc).serve(&guard, methods_over_grpc, &over);
        let (connections, router) = begun.map_err(ServeError::Listen)?;
        (crate::server::grpc::divert_grpc(accepted, connections.clone(), router, over.clone()), connections)
    };
    let mut server = Server::new().add_listener(Listener::new(accepted)).register_service(services);
    server.start().await.map_err(ServeError::Server)?;
    #[cfg(feature = "grpc")]
    unless_served.disarm();
    Ok(ShimServer {
        server,
        guard,
        accepting: over,
        #[cfg(feature = "grpc")]
        grpc,
    })
}

/// Accepts connections of our own user until it is over.
fn accepting(
    listener: tokio::net::UnixListener,
    over: CancellationToken,
) -> impl Stream<Item = io::Result<tokio::net::UnixStream>> + Send + 'static {
    let accepted = stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => return Some((Ok(stream), listener)),
                Ok(_) => warn!("refused a connection of another user"),
                Err(error) => {
                    debug!(%error, "could not accept a connection");
                    // Out of file descriptors, most likely: let some close.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    accepted.take_until(over.cancelled_owned())
}

pub(super) fn is_ours(stream: &tokio::net::UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| {
        peer.uid() == rustix::process::geteuid().as_raw() && peer.gid() == rustix::process::getegid().as_raw()
    })
}

impl ShimServer {
    /// Lets the calls come to their end that do not wait for an end themselves.
    async fn settle(&self) {
        if tokio::time::timeout(CALL_LIMIT, self.guard.settled()).await.is_err() {
            debug!(calls = self.guard.n_calls(), "not waiting for calls any longer");
        }
    }

    /// Lets the others come to their end too, and answers nothing more.
    async fn give_up(&self) {
        if tokio::time::timeout(CALL_LIMIT, self.guard.idle()).await.is_err() {
            debug!(calls = self.guard.n_calls(), "not waiting for calls any longer");
        }
        self.guard.give_up();
    }

    /// Closes the connections, when what was said on them has left.
    async fn close(mut self) {
        #[cfg(feature = "grpc")]
        self.grpc.close().await;
        self.server.disconnect().await;
    }
}
