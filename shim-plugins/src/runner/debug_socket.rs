//! The debug socket: whoever connects to it is told how the plugins are.
//!
//! There is one where containerd wants to hear more than usual, beside the socket of the shim and named as in Go's shim.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::group;
use super::serve::is_ours;
use super::socket::{self, BindOutcome, SocketError, SocketFile};
use crate::plugin::{ErrorChain, ShimContext};

/// How long somebody may take to read.
const READ_LIMIT: Duration = Duration::from_secs(1);

/// Where the debug socket of a container's shim is, whose own socket is at a path.
pub(super) fn path(beside: &Path, grpc_address: &str, namespace: &str, group: &str) -> PathBuf {
    let dir = beside.parent().unwrap_or(Path::new("/"));
    socket::debug_path(dir, grpc_address, namespace, group)
}

/// The debug socket, if there is one.
#[derive(Default)]
pub(super) struct DebugSocket(Option<DebugListener>);

struct DebugListener {
    _file: SocketFile,
    accepted: mpsc::Receiver<UnixStream>,
    _accepting: AbortOnDropHandle<()>,
}

impl DebugSocket {
    /// Makes one if containerd wants to hear more than usual. A shim serves without it, too.
    pub(super) fn open(context: &ShimContext, beside: Option<&Path>) -> Self {
        let Some(beside) = beside.filter(|_| context.debug) else { return Self::default() };
        let path = path(beside, &context.grpc_address, &context.namespace, &group::group(&context.bundle, &context.id));
        match listen(&path) {
            Ok(listening) => {
                info!(path = %path.display(), "there is a debug socket");
                Self(Some(listening))
            }
            Err(error) => {
                warn!(error = %ErrorChain(&error), "there is no debug socket");
                Self::default()
            }
        }
    }

    /// Waits for somebody of our own user who asks.
    pub(super) async fn asked(&mut self) -> UnixStream {
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
            Ok((stream, _)) if is_ours(&stream) => {
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

/// Tells somebody who asked.
pub(super) async fn tell(mut stream: UnixStream, text: &str) {
    // Who does not read does not want to know.
    let _ = tokio::time::timeout(READ_LIMIT, stream.write_all(text.as_bytes())).await;
}
