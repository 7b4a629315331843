//! How a plugin reaches its runtime.
//!
//! - `connection.rs` is what the options say: a path, a stream, or a function that connects.
//! - `source.rs` opens one connection after the other, as far as there can be more than one.
//! - `inherited.rs` takes the file descriptor that a runtime passes to a plugin that it launches.
//! - `error.rs` has the errors of connecting.

mod error;
mod inherited;
mod source;

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

pub use self::error::ConnectError;
pub use self::inherited::InheritedError;
pub(crate) use self::source::{ConnectionSource, launch_descriptor};

/// How a plugin connects to its runtime.
///
/// If a runtime has launched the plugin, [`Runner::new`](crate::Runner::new) takes over the file
/// descriptor in `NRI_PLUGIN_SOCKET`, or closes it if the plugin is to connect in another way.
/// Until then, programs that the plugin starts inherit the descriptor.
pub enum Connection {
    /// The connection that plugins on Go's stub would use.
    ///
    /// If the runtime has launched the plugin, this is the file descriptor in `NRI_PLUGIN_SOCKET`.
    /// Otherwise, it is the socket at `path`, or at
    /// [`SOCKET_PATH`](nri_proto::defaults::SOCKET_PATH) without one.
    Found {
        /// The path of the socket, used if the plugin was not launched by a runtime.
        path: Option<PathBuf>,
    },
    /// The socket at this path. The environment is ignored.
    Path(PathBuf),
    /// An established connection, from [`Stream::over`] or [`Stream::on_unix`]. Usable once.
    Stream(Stream),
    /// A function that connects, from [`Connection::dial`]. Called again for each reconnection.
    Dial(Dialer),
}

/// A function that connects to a runtime. Each call must finish within
/// [`Options::registration_timeout`](crate::Options::registration_timeout).
pub type Dialer = Box<dyn FnMut() -> DialFuture + Send>;
/// The future that a [`Dialer`] returns.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

impl Connection {
    /// Connects with a function, which is called again for each reconnection.
    ///
    /// The function may wait, for example for a name lookup, a tunnel or a listener.
    ///
    /// ```
    /// use nri_plugin::{Connection, Stream};
    /// use tokio::net::UnixStream;
    ///
    /// let connection = Connection::dial(async || {
    ///     Ok(Stream::on_unix(UnixStream::connect("/run/my/newest.sock").await?))
    /// });
    /// ```
    pub fn dial<F>(mut dial: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<Stream>> + Send + 'static,
    {
        Self::Dial(Box::new(move || Box::pin(dial())))
    }
}

/// The channels of a connection: the plugin's service, and the runtime's service.
const CHANNELS: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// The limits on buffered data: received but not processed, and sent but not read by the runtime.
const LIMITS: Limits = Limits {
    frame: nri_proto::mux::MAX_FRAME,
    received: 2 * nri_proto::mux::MAX_FRAME + (32 << 10),
    unsent: 4 << 20,
    before_admission: 64 << 10,
    unknown_frames: 1000,
};

/// A multiplexed connection and its [`CHANNELS`].
pub(crate) type OpenConnection = (Mux, [Channel; 2]);

/// An established connection to a runtime.
pub struct Stream(Box<dyn FnOnce() -> io::Result<OpenConnection> + Send>);

impl Stream {
    /// Creates a connection from two halves, such as those of an in-memory pipe in a test.
    ///
    /// The halves must not be of the descriptor that a launched plugin inherits, unless the
    /// descriptor is close-on-exec: [`Runner::new`](crate::Runner::new) closes it.
    pub fn over<R, W>(reader: R, writer: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self(Box::new(move || Ok(Mux::over(reader, writer, CHANNELS, LIMITS))))
    }

    /// Creates a connection from a connected unix socket.
    ///
    /// The socket is made close-on-exec, so that programs that the plugin starts do not inherit it.
    pub fn on_unix(stream: UnixStream) -> Self {
        // Fails only for a descriptor that is not open, and a stream is.
        let _ = fcntl_setfd(&stream, FdFlags::CLOEXEC);
        Self(Box::new(move || Mux::on_unix(stream, CHANNELS, LIMITS)))
    }

    /// Starts the multiplexer on the connection.
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
