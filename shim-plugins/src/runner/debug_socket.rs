//! The debug socket: it sends the diagnostics of the shim to whoever connects.
//!
//! The debug socket exists if containerd asks for debug output. It is beside the socket of the
//! shim, and named as in Go's shim.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::socket::{self, BindOutcome, SocketError, SocketFile, is_own_user};
use super::{group, socket_path};
use crate::plugin::{ErrorChain, ShimContext};

/// How long a reader may take to receive the diagnostics.
const READ_LIMIT: Duration = Duration::from_secs(1);

/// Returns the path of the debug socket of a shim, given the path of its socket.
pub(super) fn path(beside: &Path, grpc_address: &str, namespace: &str, group: &str) -> PathBuf {
    let dir = beside.parent().unwrap_or(Path::new("/"));
    socket_path::debug_path(dir, grpc_address, namespace, group)
}

/// The debug socket of a shim, or the absence of one.
#[derive(Default)]
pub(super) struct DebugSocket(Option<DebugListener>);

/// A debug socket that listens. Dropping it closes the socket and removes the file.
struct DebugListener {
    _file: SocketFile,
    accepted: mpsc::Receiver<UnixStream>,
    _accepting: AbortOnDropHandle<()>,
}

impl DebugSocket {
    /// Opens the debug socket if containerd asks for debug output. Failure is logged: the shim also
    /// serves without a debug socket.
    pub(super) fn open(context: &ShimContext, beside: Option<&Path>) -> Self {
        let Some(beside) = beside.filter(|_| context.debug) else { return Self::default() };
        let path = path(beside, &context.grpc_address, &context.namespace, &group::group(&context.bundle, &context.id));
        match listen(&path) {
            Ok(listening) => {
                info!(path = %path.display(), "listening on the debug socket");
                Self(Some(listening))
            }
            Err(error) => {
                warn!(error = %ErrorChain(&error), "could not open the debug socket");
                Self::default()
            }
        }
    }

    /// Waits for a connection of our own user. Never completes without a debug socket.
    pub(super) async fn accepted(&mut self) -> UnixStream {
        let accepted = match &mut self.0 {
            Some(listening) => listening.accepted.recv().await,
            None => None,
        };
        match accepted {
            Some(stream) => stream,
            None => std::future::pending().await,
        }
    }
}

async fn accept(listener: UnixListener, accepted: mpsc::Sender<UnixStream>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_own_user(&stream) => {
                if accepted.send(stream).await.is_err() {
                    return;
                }
            }
            Ok(_) => warn!("refused a connection of another user"),
            Err(_) => tokio::time::sleep(READ_LIMIT).await,
        }
    }
}

fn listen(path: &Path) -> Result<DebugListener, SocketError> {
    let failed = |source| SocketError::Listen { path: path.to_owned(), source };
    let BindOutcome::New(file, listener) = socket::bind(path)? else {
        return Err(failed(io::ErrorKind::AddrInUse.into()));
    };
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    let (send, accepted) = mpsc::channel(1);
    let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, send)));
    Ok(DebugListener { _file: file, accepted, _accepting: accepting })
}

/// Sends the diagnostics to a connected reader.
pub(super) async fn send(mut stream: UnixStream, text: &str) {
    // A reader that does not read loses the text.
    let _ = tokio::time::timeout(READ_LIMIT, stream.write_all(text.as_bytes())).await;
}
