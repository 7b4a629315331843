//! Listens on the socket of a shim, and serves what the loaded plugins contribute.

use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::time::Duration;
use std::{io, mem};

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use ttrpc::r#async::{Server, Service};
use ttrpc::asynchronous::transport::Listener;

use super::serve::ServeError;
use super::socket::is_own_user;
use crate::load::Loaded;
use crate::process::Shutdown;
use crate::server::task::KNOWN_SERVICES;
use crate::server::{Attendance, CallGuard, Containers, CountedStream, GuardedMethod};

/// How long calls may take to finish when the shim ends.
const CALL_LIMIT: Duration = Duration::from_secs(2);

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The running server of a shim: its listeners, connections and calls.
pub(super) struct ShimServer {
    server: Server,
    guard: CallGuard,
    attendance: Attendance,
    /// Cancelled when no more connections are accepted.
    stopped: CancellationToken,
    #[cfg(feature = "grpc")]
    grpc: crate::server::grpc::Connections,
}

impl ShimServer {
    /// Starts to serve the contributions of the plugins, which are moved out of `loaded`.
    pub(super) async fn start(
        loaded: &mut Loaded,
        listener: UnixListener,
        shutdown: &Shutdown,
    ) -> Result<Self, ServeError> {
        if loaded.serves_nothing() {
            return Err(ServeError::NoService);
        }
        let guard = CallGuard::new(loaded.interceptors(), shutdown.request_token());
        let mut services = HashMap::new();
        #[cfg(feature = "grpc")]
        let mut methods_over_grpc = crate::server::grpc::Methods::new();
        for (name, owned) in mem::take(&mut loaded.services) {
            #[cfg(not(feature = "grpc"))]
            let inspect = |_: &str, _: &GuardedMethod| {};
            #[cfg(feature = "grpc")]
            let methods = methods_over_grpc.entry(name.clone()).or_default();
            #[cfg(feature = "grpc")]
            let inspect =
                |method: &str, guarded: &GuardedMethod| drop(methods.insert(method.to_owned(), guarded.clone()));
            let service = guard.wrap(&name, owned.service, inspect);
            services.insert(name, service);
        }
        for name in KNOWN_SERVICES {
            let empty = || Service { methods: HashMap::new(), streams: HashMap::new() };
            services.entry(name.to_owned()).or_insert_with(empty);
        }
        listener.set_nonblocking(true).map_err(ServeError::Listen)?;
        let listener = tokio::net::UnixListener::from_std(listener).map_err(ServeError::Listen)?;
        let stopped = CancellationToken::new();
        let attendance = Attendance::default();
        let accepted = accept(listener, attendance.clone(), stopped.clone());
        // The TCP listeners accept from here on, and must stop if something fails below.
        #[cfg(feature = "grpc")]
        let stop_on_failure = stopped.clone().drop_guard();
        #[cfg(feature = "grpc")]
        let (accepted, grpc) = {
            let begun = mem::take(&mut loaded.grpc).serve(&guard, methods_over_grpc, &stopped);
            let (connections, router) = begun.map_err(ServeError::Listen)?;
            (crate::server::grpc::divert_grpc(accepted, connections.clone(), router, stopped.clone()), connections)
        };
        let mut server = Server::new().add_listener(Listener::new(accepted)).register_service(services);
        server.start().await.map_err(ServeError::Server)?;
        #[cfg(feature = "grpc")]
        stop_on_failure.disarm();
        Ok(Self {
            server,
            guard,
            attendance,
            stopped,
            #[cfg(feature = "grpc")]
            grpc,
        })
    }

    /// Returns the number of calls in progress.
    pub(super) fn n_calls(&self) -> usize {
        self.guard.n_calls()
    }

    /// Returns the containers that the Task service has created.
    pub(super) fn containers(&self) -> &Containers {
        self.guard.containers()
    }

    /// Returns a receiver of the number of connections.
    pub(super) fn attendance(&self) -> watch::Receiver<usize> {
        self.attendance.watch()
    }

    /// Stops accepting connections.
    pub(super) fn stop_accepting(&self) {
        self.stopped.cancel();
    }

    /// Waits until calls are answered, except those that wait for the end of a container.
    pub(super) async fn settle(&self) {
        if tokio::time::timeout(CALL_LIMIT, self.guard.settled()).await.is_err() {
            debug!(calls = self.guard.n_calls(), "calls did not finish in time");
        }
    }

    /// Waits until all calls are answered, then answers the rest with `UNAVAILABLE`.
    pub(super) async fn give_up(&self) {
        if tokio::time::timeout(CALL_LIMIT, self.guard.idle()).await.is_err() {
            debug!(calls = self.guard.n_calls(), "calls did not finish in time");
        }
        self.guard.give_up();
    }

    /// Closes the connections after all responses have been sent.
    pub(super) async fn close(mut self) {
        #[cfg(feature = "grpc")]
        self.grpc.close().await;
        self.server.disconnect().await;
    }
}

/// Accepts connections of our own user until `stopped` is cancelled.
fn accept(
    listener: tokio::net::UnixListener,
    attendance: Attendance,
    stopped: CancellationToken,
) -> impl Stream<Item = io::Result<CountedStream>> + Send + 'static {
    let accepted = stream::unfold((listener, attendance), |(listener, attendance)| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_own_user(&stream) => {
                    return Some((Ok(attendance.count(stream)), (listener, attendance)));
                }
                Ok(_) => warn!("refused a connection of another user"),
                Err(error) => {
                    debug!(%error, "could not accept a connection");
                    // Most likely out of file descriptors: wait until some are closed.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    accepted.take_until(stopped.cancelled_owned())
}
