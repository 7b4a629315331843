//! Where plugins connect.
//!
//! The socket and, if it has to be made, its directory are for our own user alone (0600, 0700). A
//! directory that is there already stays as it is, but must be safe: it belongs to us or to root,
//! and nobody else may write to it, unless it is sticky as `/tmp` is. Otherwise others could put a
//! socket of theirs in the place of ours.
//!
//! What lies at the path already is looked at first. A socket on which nobody listens is left from
//! a runtime that died, and is replaced. One on which somebody listens is another runtime's, and
//! stays; so does whatever is no socket. Between looking and replacing the path is locked
//! (`lock.rs`), so of two runtimes that start at the same moment one is told that the other is
//! there. Only those that take the lock are held up by it: upstream removes what it finds without
//! looking, and nothing here could stop it.

mod bind;
mod error;
mod lock;
mod log_throttle;
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
use self::log_throttle::Complaints;
pub use self::peer::Peer;

/// How long nobody is let in after that failed, for file descriptors to become free.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A socket on which a runtime waits for plugins. Dropping it removes its file, if that is still
/// ours.
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
    // Removed first: the number of a file is not given to another one as long as somebody listens
    // on it.
    file: SocketFile,
    listener: UnixListener,
    complaints: Complaints,
}

impl Socket {
    /// Begins to listen at a path.
    ///
    /// # Errors
    ///
    /// See [`BindError`]. Nothing is left behind, but for a directory that was made.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, BindError> {
        let (file, listener) = bind::bind(path.into())?;
        let listener = UnixListener::from_std(listener)
            .map_err(|source| BindError::Listen { path: file.path().to_owned(), source })?;
        Ok(Self { file, listener, complaints: Complaints::default() })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Waits for somebody to connect, and says who it is.
    ///
    /// Failures do not end it. The usual ones are that the process or the system has no file
    /// descriptor left (`EMFILE`, `ENFILE`) and that the peer has gone again (`ECONNABORTED`). They
    /// are logged, now and then, and it tries again after a pause. Dropping it loses no connection.
    pub async fn accept(&self) -> (UnixStream, Peer) {
        loop {
            match self.try_accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    if let Some(unsaid) = self.complaints.hear() {
                        let error = &error as &dyn std::error::Error;
                        warn!(error, unsaid, path = %self.path().display(), "could not accept a plugin");
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
