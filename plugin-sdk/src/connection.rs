mod inherited;

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use nri_proto::defaults::{PLUGIN_SOCKET_ENV, SOCKET_PATH};
use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

pub use self::inherited::InheritedError;

/// How a plugin reaches its runtime.
pub enum Connection {
    /// As Go's plugins do: the descriptor that `NRI_PLUGIN_SOCKET` names if the runtime has launched the plugin, or else the
    /// socket at `path`, which is [`SOCKET_PATH`] unless someone says otherwise.
    Found {
        /// The path, for a plugin that was not launched.
        path: Option<PathBuf>,
    },
    /// The socket at this path, whatever the environment says.
    Path(PathBuf),
    /// A connection that is there already: [`Stream::over`], [`Stream::on_unix`].
    Stream(Stream),
    /// What this returns, any number of times: [`Connection::dial`].
    Dial(Dialer),
}

/// Makes a connection, in [`Options::registration_timeout`](crate::Options::registration_timeout) each time.
pub type Dialer = Box<dyn FnMut() -> DialFuture + Send>;
/// A connection that is being made.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

impl Connection {
    /// What this returns, any number of times. It may wait: for a name, a tunnel, or whoever listens.
    ///
    /// ```
    /// use nri_plugin::{Connection, Stream};
    /// use tokio::net::UnixStream;
    ///
    /// let newest = Connection::dial(async || Ok(Stream::on_unix(UnixStream::connect("/run/my/newest.sock").await?)));
    /// ```
    pub fn dial<F>(mut dial: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<Stream>> + Send + 'static,
    {
        Self::Dial(Box::new(move || Box::pin(dial())))
    }
}

/// A connection that is there already.
pub struct Stream(Box<dyn FnOnce() -> io::Result<OpenConnection> + Send>);

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

impl Stream {
    /// A connection given as its two halves: of a pipe in a test, or of any stream.
    pub fn over<R, W>(reader: R, writer: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self(Box::new(move || Ok(Mux::over(reader, writer, CHANNELS, LIMITS))))
    }

    /// A connected unix socket.
    pub fn on_unix(stream: UnixStream) -> Self {
        Self(Box::new(move || Mux::on_unix(stream, CHANNELS, LIMITS)))
    }
}

/// The channels of a connection: what is served, and what is called.
const CHANNELS: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// What a runtime can make us hold of what it sends, and what it does not read.
const LIMITS: Limits = Limits {
    frame: nri_proto::mux::MAX_FRAME,
    received: 2 * nri_proto::mux::MAX_FRAME + (32 << 10),
    unsent: 4 << 20,
    before_admission: 64 << 10,
    unknown_frames: 1000,
};

pub(crate) type OpenConnection = (Mux, [Channel; 2]);

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
                dialled.and_then(|Stream(open)| open()).map_err(ConnectError::Unusable)
            }
            Self::Once(stream) => {
                let gone = || io::Error::new(io::ErrorKind::NotConnected, "it was used before");
                let Stream(open) = stream.take().ok_or_else(|| ConnectError::Unusable(gone()))?;
                open().map_err(ConnectError::Unusable)
            }
            Self::Inherited(descriptor) => {
                let stream = inherited::take(descriptor)?;
                let stream = UnixStream::from_std(stream).map_err(ConnectError::Unusable)?;
                Mux::on_unix(stream, CHANNELS, LIMITS).map_err(ConnectError::Unusable)
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
    Mux::on_unix(stream, CHANNELS, LIMITS).map_err(ConnectError::Unusable)
}

/// What the environment says about a runtime that has launched us.
pub(crate) fn launch_descriptor() -> Option<String> {
    std::env::var(PLUGIN_SOCKET_ENV).ok().filter(|value| !value.is_empty())
}

impl Debug for Connection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { path } => f.debug_struct("Found").field("path", path).finish(),
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Dial(_) => f.write_str("Dial"),
        }
    }
}

impl Debug for Stream {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}
