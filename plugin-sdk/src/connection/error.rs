//! Why there is no connection to a runtime.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::InheritedError;

/// Why there is no connection to a runtime.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("could not connect to the runtime at {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The one who listens there does not accept.
    #[error("could not connect to the runtime at {}: it does not accept", path.display())]
    NotAccepted {
        /// The socket.
        path: PathBuf,
    },
    /// The runtime that launched the plugin gave it no connection.
    #[error("could not use the connection that the plugin was launched with")]
    Inherited(#[from] InheritedError),
    /// The connection cannot be used.
    #[error("could not use the connection to the runtime")]
    Unusable(#[source] io::Error),
}
