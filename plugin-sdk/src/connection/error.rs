//! The errors of connecting.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::InheritedError;

/// Errors from connecting to a runtime.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Connecting to the socket failed.
    #[error("could not connect to the runtime at {}", path.display())]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The runtime did not accept the connection in time.
    #[error("could not connect to the runtime at {}: the connection was not accepted in time", path.display())]
    NotAccepted {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The plugin was launched by a runtime, but the file descriptor from it is not usable.
    #[error("could not use the connection that the plugin was launched with")]
    Inherited(#[from] InheritedError),
    /// A [`Stream`](crate::Stream) or a [`Dialer`](crate::Dialer) failed.
    #[error("could not use the connection to the runtime")]
    Unusable(#[source] io::Error),
}
