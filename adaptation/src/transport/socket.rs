//! The socket on which plugins connect.
//!
//! The socket is accessible to the runtime's own user alone (mode 0600). If its directory has to be
//! created, so is the directory (mode 0700). An existing directory is left as it is, but must be
//! safe: its owner is the runtime's user or root, and nobody else may write to it unless it is
//! sticky, as `/tmp` is. Otherwise others could replace the socket by one of theirs.
//!
//! If the operator names a group, the socket gets the group and mode 0660, and directories that are
//! created get the group and mode 0750 (`group.rs`). An existing directory of the runtime's user
//! with mode 0700 or 0750, as an earlier start has left it, gets the group, too. This happens
//! before the runtime listens.
//!
//! What is already at the path is checked first:
//!
//! - A socket on which no process listens is left from a runtime that died. It is replaced.
//! - A socket on which a process listens belongs to another runtime. It stays, and `bind` fails.
//! - Anything that is not a socket stays, and `bind` fails.
//!
//! The path is locked during the check and the replacement (`lock.rs`), so that of two runtimes
//! that start at the same time one gets an error. The lock only affects programs that take it.
//! Upstream does not: it removes a socket without a check, and this code cannot prevent that.

mod bind;
mod error;
mod group;
mod lock;
mod peer;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tracing::warn;

use self::bind::SocketFile;
pub use self::error::BindError;
pub use self::peer::Peer;
use crate::session::log_throttle::LogThrottle;

/// The pause after a failed `accept`, in which file descriptors may become free.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A socket on which a runtime waits for plugins. Dropping it removes its file, unless another file
/// is at the path by then.
///
/// ```
/// use nri_adaptation::socket::Socket;
/// use tokio::net::UnixStream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> anyhow::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("nri/nri.sock");
/// let socket = Socket::bind(&path)?;
/// let _plugin = UnixStream::connect(&path).await?;
/// let (_stream, peer) = socket.accept().await;
/// assert_eq!(peer.pid, Some(std::process::id().cast_signed()));
/// assert!(peer.is_allowed(&[peer.uid]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Socket {
    // Dropped first, while the listener is still open: until the listener is closed, the inode
    // number of the file is not reused.
    file: SocketFile,
    listener: UnixListener,
    throttle: LogThrottle,
}

impl Socket {
    /// Creates a socket at a path and listens on it.
    ///
    /// # Errors
    ///
    /// See [`BindError`]. After an error nothing is left behind, except a directory that was
    /// created.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, BindError> {
        Self::bind_for(path.into(), None)
    }

    /// Creates a socket that processes of a group can connect to, and listens on it. The socket and
    /// a directory that was created for a socket get the group.
    ///
    /// # Errors
    ///
    /// See [`BindError`], and [`Socket::bind`].
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn bind_for_group(path: impl Into<PathBuf>, gid: u32) -> Result<Self, BindError> {
        Self::bind_for(path.into(), Some(gid))
    }

    fn bind_for(path: PathBuf, gid: Option<u32>) -> Result<Self, BindError> {
        let (file, listener) = bind::bind(path, gid)?;
        let listener = UnixListener::from_std(listener)
            .map_err(|source| BindError::Listen { path: file.path().to_owned(), source })?;
        Ok(Self { file, listener, throttle: LogThrottle::default() })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Waits for a connection. Returns the connection and the credentials of the peer.
    ///
    /// An error does not end the wait. Usual errors are that the process or the system has no file
    /// descriptor left (`EMFILE`, `ENFILE`), and that the peer has already disconnected
    /// (`ECONNABORTED`). Errors are logged, at a limited rate, and the socket tries again after a
    /// pause.
    ///
    /// This method is cancel safe: dropping the future loses no connection.
    pub async fn accept(&self) -> (UnixStream, Peer) {
        loop {
            match self.try_accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    if let Some(suppressed) = self.throttle.hear() {
                        let error = &error as &dyn std::error::Error;
                        warn!(error, suppressed, path = %self.path().display(), "could not accept a connection");
                    }
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }

    async fn try_accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.listener.accept().await?;
        let peer = Peer::of(&stream)?;
        Ok((stream, peer))
    }
}
