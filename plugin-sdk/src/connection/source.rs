//! Where connections to the runtime come from.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nri_proto::defaults::{PLUGIN_SOCKET_ENV, SOCKET_PATH};
use tokio::net::UnixStream;

use super::{ConnectError, Connection, Dialer, OpenConnection, Stream, inherited};

/// Where the next connection comes from.
pub(crate) enum ConnectionSource {
    /// From there, any number of times.
    Path(PathBuf),
    /// From whoever knows, any number of times.
    Dial(Dialer),
    /// From nowhere, after this one.
    Once(Option<Stream>),
    /// The same, and it is the environment's.
    Inherited(String),
}

impl ConnectionSource {
    pub(crate) fn new(connection: Connection, descriptor: Option<String>) -> Self {
        match (connection, descriptor) {
            (Connection::Stream(stream), _) => Self::Once(Some(stream)),
            (Connection::Path(path), _) => Self::Path(path),
            (Connection::Dial(dial), _) => Self::Dial(dial),
            (Connection::Found { path: _ }, Some(descriptor)) => Self::Inherited(descriptor),
            (Connection::Found { path }, None) => Self::Path(path.unwrap_or_else(|| SOCKET_PATH.into())),
        }
    }

    pub(crate) fn can_reconnect(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Dial(_))
    }

    pub(crate) async fn open(&mut self, timeout: Duration) -> Result<OpenConnection, ConnectError> {
        match self {
            Self::Path(path) => dial(path, timeout).await,
            Self::Dial(dial) => {
                let dialled = tokio::time::timeout(timeout, dial()).await;
                let dialled = dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                dialled.and_then(Stream::open).map_err(ConnectError::Unusable)
            }
            Self::Once(stream) => {
                let gone = || io::Error::new(io::ErrorKind::NotConnected, "it was used before");
                let stream = stream.take().ok_or_else(|| ConnectError::Unusable(gone()))?;
                stream.open().map_err(ConnectError::Unusable)
            }
            Self::Inherited(descriptor) => {
                let stream = inherited::take(descriptor)?;
                let stream = UnixStream::from_std(stream).map_err(ConnectError::Unusable)?;
                Stream::on_unix(stream).open().map_err(ConnectError::Unusable)
            }
        }
    }
}

async fn dial(path: &Path, timeout: Duration) -> Result<OpenConnection, ConnectError> {
    let path = path.to_owned();
    let stream = match tokio::time::timeout(timeout, UnixStream::connect(&path)).await {
        Ok(connected) => connected.map_err(|source| ConnectError::Connect { path, source })?,
        Err(_) => return Err(ConnectError::NotAccepted { path }),
    };
    Stream::on_unix(stream).open().map_err(ConnectError::Unusable)
}

/// What the environment says about a runtime that has launched us.
pub(crate) fn launch_descriptor() -> Option<String> {
    std::env::var(PLUGIN_SOCKET_ENV).ok().filter(|value| !value.is_empty())
}
