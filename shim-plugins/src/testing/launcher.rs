//! Launches servers in this process, each on a thread of its own.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::runner::{ControlSignal, LaunchedServer, Launcher, ServeError, ServerParams, Shim};

/// Sends signals to a server.
pub(super) type SignalSender = mpsc::Sender<ControlSignal>;

/// Launches servers on threads, and keeps the last server.
#[derive(Clone)]
pub(super) struct ThreadLauncher {
    shim: Arc<Shim>,
    last: Arc<Mutex<Option<ServerThread>>>,
}

/// A server that runs on a thread.
pub(super) struct ServerThread {
    pub(super) signals: SignalSender,
    killed: CancellationToken,
    ended: oneshot::Receiver<Result<(), ServeError>>,
}

impl ThreadLauncher {
    pub(super) fn new(shim: &Arc<Shim>) -> Self {
        Self { shim: Arc::clone(shim), last: Arc::default() }
    }

    /// Takes the server that was launched, if there is one.
    pub(super) fn server(&self) -> Option<ServerThread> {
        self.last.lock().take()
    }
}

impl Launcher for ThreadLauncher {
    fn launch(&self, server: ServerParams) -> io::Result<Box<dyn LaunchedServer>> {
        let (signals, receive) = mpsc::channel(1);
        let (tell, ended) = oneshot::channel();
        let killed = CancellationToken::new();
        let (shim, token) = (Arc::clone(&self.shim), killed.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shim".to_owned()).spawn(move || {
            let served = runtime.block_on(async {
                // Boxed, so that it can be leaked: a killed process does not clean up.
                let mut serving = Box::pin(async move { shim.serve(server, receive).await });
                tokio::select! {
                    served = &mut serving => Some(served),
                    () = token.cancelled() => {
                        std::mem::forget(serving);
                        None
                    }
                }
            });
            runtime.shutdown_background();
            if let Some(served) = served {
                let _ = tell.send(served);
            }
        })?;
        let launched = ServerThreadHandle { signals: signals.clone(), killed: killed.clone(), thread };
        *self.last.lock() = Some(ServerThread { signals, killed, ended });
        Ok(Box::new(launched))
    }
}

/// Ends a server after `start` has failed.
struct ServerThreadHandle {
    signals: SignalSender,
    killed: CancellationToken,
    thread: JoinHandle<()>,
}

impl LaunchedServer for ServerThreadHandle {
    fn end(&mut self, grace: Duration) {
        let _ = self.signals.try_send(ControlSignal::End);
        let over = Instant::now() + grace;
        while !self.thread.is_finished() {
            if Instant::now() >= over {
                self.killed.cancel();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl ServerThread {
    /// Waits for the end of the server. A server that was killed returns `Ok`.
    pub(super) async fn ended(self) -> Result<(), ServeError> {
        self.ended.await.unwrap_or(Ok(()))
    }

    /// Kills the server, and waits for its end.
    pub(super) async fn kill(self) {
        self.killed.cancel();
        let _ = self.ended.await;
    }
}
