//! Servers that run in this process, each on a thread of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::runner::{ControlSignal, LaunchedServer, Launcher, ServeError, ServerParams, Shim};

/// What sends signals to a server that is tested.
pub(super) type SignalSender = mpsc::Sender<ControlSignal>;

/// Starts servers on threads, and keeps the last one.
#[derive(Clone)]
pub(super) struct ThreadLauncher {
    shim: Arc<Shim>,
    last: Arc<Mutex<Option<ServerThread>>>,
}

/// A server on a thread.
pub(super) struct ServerThread {
    pub(super) signals: SignalSender,
    killed: CancellationToken,
    ended: oneshot::Receiver<Result<(), ServeError>>,
}

impl ThreadLauncher {
    pub(super) fn new(shim: &Arc<Shim>) -> Self {
        Self { shim: Arc::clone(shim), last: Arc::default() }
    }

    /// The server that was started, if one was.
    pub(super) fn server(&self) -> Option<ServerThread> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
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
                // Boxed, so that it can be forgotten: nothing of a process that is killed is tidied up.
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
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(ServerThread { signals, killed, ended });
        Ok(Box::new(launched))
    }
}

/// A server that nobody wants any more.
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
    /// Waits for its end. One that was killed says nothing.
    pub(super) async fn ended(self) -> Result<(), ServeError> {
        self.ended.await.unwrap_or(Ok(()))
    }

    pub(super) async fn kill(self) {
        self.killed.cancel();
        let _ = self.ended.await;
    }
}
