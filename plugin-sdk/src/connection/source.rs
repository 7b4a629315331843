//! The source of connections to the runtime.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nri_proto::defaults::{PLUGIN_SOCKET_ENV, SOCKET_PATH};
use tokio::net::UnixStream;

use super::{ConnectError, Connection, Dialer, InheritedError, OpenConnection, Stream, inherited};

/// The source of connections: opens the first connection, and those after a disconnection.
pub(crate) enum ConnectionSource {
    /// Any number of connections to the socket at this path.
    Path(PathBuf),
    /// Any number of connections from this function.
    Dial(Dialer),
    /// A single connection, or none once it was used.
    Once(Option<Stream>),
    /// A single connection, taken from the file descriptor that the environment names, or none once
    /// it was used.
    Inherited(Option<Result<StdUnixStream, InheritedError>>),
}

impl ConnectionSource {
    /// Creates the source. `descriptor` is the value of `NRI_PLUGIN_SOCKET`, if it is set.
    ///
    /// The inherited descriptor is taken over, or closed if the plugin connects in another way.
    /// Programs that the plugin starts from now on do not inherit the descriptor.
    pub(crate) fn new(connection: Connection, descriptor: Option<String>) -> Self {
        let connection = match (connection, &descriptor) {
            (Connection::Found { path: _ }, Some(descriptor)) => {
                return Self::Inherited(Some(inherited::take(descriptor)));
            }
            (other, _) => other,
        };
        if let Some(descriptor) = descriptor {
            inherited::discard(&descriptor);
        }
        match connection {
            Connection::Stream(stream) => Self::Once(Some(stream)),
            Connection::Path(path) => Self::Path(path),
            Connection::Dial(dial) => Self::Dial(dial),
            Connection::Found { path } => Self::Path(path.unwrap_or_else(|| SOCKET_PATH.into())),
        }
    }

    /// Returns whether there can be more than one connection.
    pub(crate) fn can_reconnect(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Dial(_))
    }

    /// Opens the next connection.
    pub(crate) async fn open(&mut self, timeout: Duration) -> Result<OpenConnection, ConnectError> {
        match self {
            Self::Path(path) => dial(path, timeout).await,
            Self::Dial(dial) => {
                let dialed = tokio::time::timeout(timeout, dial()).await;
                let dialed = dialed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                dialed.and_then(Stream::open).map_err(ConnectError::Unusable)
            }
            Self::Once(stream) => {
                let stream = stream.take().ok_or_else(used)?;
                stream.open().map_err(ConnectError::Unusable)
            }
            Self::Inherited(stream) => {
                let stream = stream.take().ok_or_else(used)??;
                let stream = UnixStream::from_std(stream).map_err(ConnectError::Unusable)?;
                Stream::on_unix(stream).open().map_err(ConnectError::Unusable)
            }
        }
    }
}

/// Returns the error of a connection that can be used once and was used already.
fn used() -> ConnectError {
    ConnectError::Unusable(io::Error::new(io::ErrorKind::NotConnected, "the stream was already used"))
}

async fn dial(path: &Path, timeout: Duration) -> Result<OpenConnection, ConnectError> {
    let path = path.to_owned();
    let stream = match tokio::time::timeout(timeout, UnixStream::connect(&path)).await {
        Ok(connected) => connected.map_err(|source| ConnectError::Connect { path, source })?,
        Err(_) => return Err(ConnectError::NotAccepted { path }),
    };
    Stream::on_unix(stream).open().map_err(ConnectError::Unusable)
}

/// Returns the value of `NRI_PLUGIN_SOCKET`, which runtimes set for the plugins that they launch.
pub(crate) fn launch_descriptor() -> Option<String> {
    std::env::var(PLUGIN_SOCKET_ENV).ok().filter(|value| !value.is_empty())
}
