//! The server of a shim: loads the plugins, serves what they contribute, and ends in order.

use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use futures_util::stream;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};
use ttrpc::r#async::{Server, Service};
use ttrpc::asynchronous::transport::Listener;

use super::Shim;
use super::assignment::{Assignment, Started};
use super::environment::Signal;
use super::socket::SocketFile;
use crate::call::Guard;
use crate::load::{LoadError, Loaded};
use crate::plugin::Plugin;
use crate::provided::Provided;
use crate::publisher::{PUBLISHER, Publisher};
use crate::reaper::{REAPER, Reaper};
use crate::registry::Registry;
use crate::shutdown::{SHUTDOWN, Shutdown};
use crate::task::ASKED_FOR;

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
    Unknown(#[source] io::Error),
}

/// Serves until the end. Whatever happens, the socket goes, the plugins are ended and the events are sent.
pub(super) async fn serve(
    shim: &Shim,
    mut started: Started,
    listener: UnixListener,
    mut signals: mpsc::Receiver<Signal>,
) -> Result<(), ServeError> {
    let file = SocketFile::of(&listener);
    let assignment = started.assignment().map_err(ServeError::Assignment)?;
    let shutdown = Shutdown::default();
    let (mut loaded, serving) = match prepare(shim, &assignment, listener, &shutdown).await {
        Ok(ready) => ready,
        Err(error) => {
            drop(file);
            started.failed(&crate::outcome::Chain(&error).to_string());
            return Err(error);
        }
    };
    let answered = started.ready(ANSWER_LIMIT).await.map_err(ServeError::Unknown);
    if answered.is_ok() {
        info!(plugins = loaded.uris().count(), "serving");
        until_end(&shutdown, &mut signals, &loaded, &serving.guard).await;
    }
    shutdown.request();
    // First of all nobody may find this shim any more: a new container of its group needs a new one.
    drop(file);
    serving.end().await;
    loaded.end().await;
    answered
}

/// Waits for the end: a plugin, a signal.
async fn until_end(shutdown: &Shutdown, signals: &mut mpsc::Receiver<Signal>, loaded: &Loaded, guard: &Guard) {
    loop {
        let signal = tokio::select! {
            () = shutdown.requested() => return,
            signal = signals.recv() => signal,
        };
        match signal {
            Some(Signal::End) => return,
            Some(Signal::Diagnose) => diagnose(loaded, guard),
            // Nobody sends signals any more.
            None => return shutdown.requested().await,
        }
    }
}

fn diagnose(loaded: &Loaded, guard: &Guard) {
    let calls = guard.n_calls();
    for line in loaded.diagnostics().lines().chain([format!("{calls} calls are being answered").as_str()]) {
        info!("diagnostics: {line}");
    }
}

/// What listens and answers.
struct Serving {
    server: Server,
    guard: Guard,
}

async fn prepare(
    shim: &Shim,
    assignment: &Assignment,
    listener: UnixListener,
    shutdown: &Shutdown,
) -> Result<(Loaded, Serving), ServeError> {
    let mut registry = own_plugins(shutdown);
    registry.extend(shim.registry.plugins.iter().cloned());
    let configuration = shim.configuration.clone().overridden_by(assignment.configuration.clone());
    let mut loaded = registry.load(&configuration, Arc::new(assignment.site.clone())).await?;
    let serving = listen(&mut loaded, listener).await;
    if serving.is_err() {
        loaded.end().await;
    }
    Ok((loaded, serving?))
}

/// The plugins that every shim has. They are loaded first, and so they end last.
pub(super) fn own_plugins(shutdown: &Shutdown) -> Registry {
    let shutdown = shutdown.clone();
    let shutdown = Plugin::at(SHUTDOWN).init(move |_, ()| {
        let shutdown = shutdown.clone();
        async move { Ok(Provided::new(Arc::new(shutdown))) }
    });
    let publisher = Plugin::at(PUBLISHER).init(|init, ()| async move {
        let (publisher, sender) = Publisher::start(&init.site.ttrpc_address, &init.site.namespace);
        let publisher = Arc::new(publisher);
        let counted = Arc::clone(&publisher);
        let limit = FLUSH_LIMIT + Duration::from_millis(100);
        let provided = Provided::new(publisher).debug("events", move || {
            let (n_waiting, n_lost) = counted.counts();
            format!("{n_waiting} wait, {n_lost} were lost")
        });
        Ok(provided.on_shutdown_within(limit, move || async move {
            let left = sender.flush(FLUSH_LIMIT).await;
            if left > 0 {
                warn!(left, "events were not sent");
            }
        }))
    });
    let reaper = Plugin::at(REAPER).init(|_, ()| async {
        let reaper = Arc::new(Reaper::new());
        let (collector, counted) = (Arc::clone(&reaper), Arc::clone(&reaper));
        let orphans = tokio::spawn(async move { collector.collect_orphans().await });
        let provided = Provided::new(reaper).debug("processes", move || counted.n_processes().to_string());
        Ok(provided.on_shutdown(move || async move { orphans.abort() }))
    });
    Registry::new().with(shutdown).with(publisher).with(reaper)
}

async fn listen(loaded: &mut Loaded, listener: UnixListener) -> Result<Serving, ServeError> {
    if loaded.services.is_empty() {
        return Err(ServeError::NoService);
    }
    let guard = Guard::new(loaded.interceptors());
    let offered = mem::take(&mut loaded.services).into_iter();
    let mut services: HashMap<_, _> = offered.map(|(name, offered)| (name, guard.wrap(offered.service))).collect();
    for name in ASKED_FOR {
        services.entry(name.to_owned()).or_insert_with(|| Service { methods: HashMap::new(), streams: HashMap::new() });
    }
    listener.set_nonblocking(true).map_err(ServeError::Listen)?;
    let listener = tokio::net::UnixListener::from_std(listener).map_err(ServeError::Listen)?;
    let mut server = Server::new().add_listener(accepting(listener)).register_service(services);
    server.start().await.map_err(ServeError::Server)?;
    Ok(Serving { server, guard })
}

/// Accepts connections of our own user, for ever.
fn accepting(listener: tokio::net::UnixListener) -> Listener {
    Listener::new(stream::unfold(listener, |listener| async {
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
    }))
}

fn is_ours(stream: &tokio::net::UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| {
        peer.uid() == rustix::process::geteuid().as_raw() && peer.gid() == rustix::process::getegid().as_raw()
    })
}

impl Serving {
    /// Accepts nothing more, and lets the calls come to their end.
    async fn end(mut self) {
        self.server.stop_listen().await;
        if tokio::time::timeout(CALL_LIMIT, self.guard.idle()).await.is_err() {
            debug!(calls = self.guard.n_calls(), "not waiting for calls any longer");
        }
        self.guard.give_up();
        if self.server.shutdown().await.is_err() {
            debug!("the server did not end well");
        }
    }
}
