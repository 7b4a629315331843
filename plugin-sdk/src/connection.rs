mod error;
mod inherited;
mod source;

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

pub use self::error::ConnectError;
pub use self::inherited::InheritedError;
pub(crate) use self::source::{ConnectionSource, launch_descriptor};

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

/// A connection that is there already.
pub struct Stream(Box<dyn FnOnce() -> io::Result<OpenConnection> + Send>);

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

    /// Begins to use the connection.
    fn open(self) -> io::Result<OpenConnection> {
        self.0()
    }
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
