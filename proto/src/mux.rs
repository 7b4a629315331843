//! NRI's multiplexer: several channels on one connection.
//!
//! A runtime and a plugin share one stream socket and need two ttrpc connections on it, one in each
//! direction. The multiplexer carries them as *channels*. The bytes of a channel travel in frames;
//! each frame begins with the number of the channel and the length of the payload, as two big
//! endian `u32`. No message opens or closes a channel, and there is no flow control.
//!
//! This has three consequences:
//!
//! - A Go peer reads one whole frame at a time, into a buffer that can be as small as 4096 bytes,
//!   and closes the connection if a frame is larger. Outgoing frames are cut so that Go can read
//!   them. Incoming frames can be cut in any way.
//! - A peer that sends faster than its data is read cannot be made to wait, because its other
//!   channel would wait, too. The amount of data is bounded by [`Limits`], in bytes. If a peer
//!   exceeds a limit, its connection is closed with the reason ([`Closed`]).
//! - A frame is lost if its channel is not open when the frame is read. All channels are therefore
//!   opened with the connection, and none can be opened later.
//!
//! Each [`Mux`] runs one task, the *pump*. It reads from the connection, and writes what could not
//! be written immediately. The pump ends with the connection; [`Mux::closed`] waits for it.
//!
//! Outgoing data takes this way: `channel.rs` (a stream of bytes, or whole messages), `cutter.rs`
//! (where frames end), `outbox.rs` (the queue), `socket.rs`. Incoming data takes this one:
//! `pump.rs`, `frame.rs` (the decoder), `inbox.rs` (one queue per channel, bounded by `budget.rs`),
//! `message.rs`. `connection.rs` is the state that all of them share, and `closed.rs` the reason
//! why a connection ended.
//!
//! ```
//! use nri_proto::mux::{ChannelId, Limits, Mux};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let (here, there) = tokio::net::UnixStream::pair()?;
//! let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
//! let (runtime, [mut requests, _]) = Mux::on_unix(here, ids, Limits::default())?;
//! let (plugin, [mut served, _]) = Mux::on_unix(there, ids, Limits::default())?;
//!
//! requests.write_all(b"hello").await?;
//! let mut greeting = [0; 5];
//! served.read_exact(&mut greeting).await?;
//! assert_eq!(&greeting, b"hello");
//!
//! plugin.close();
//! assert_eq!(runtime.closed().await.to_string(), "the peer closed the connection");
//! # Ok(())
//! # }
//! ```

mod budget;
mod channel;
mod closed;
mod connection;
mod cutter;
mod frame;
mod inbox;
mod message;
mod outbox;
mod pump;
mod socket;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

pub(crate) use self::budget::Reservation;
pub use self::channel::Channel;
pub(crate) use self::channel::MessageSender;
pub use self::closed::Closed;
use self::connection::Connection;
pub use self::cutter::{Cutter, GO_BUFFER};
pub use self::frame::{Decoder, FramePiece, HEADER_LENGTH, header};
pub(crate) use self::message::ReceivedMessage;
pub use self::message::{MAX_MESSAGE, MESSAGE_HEADER_LENGTH};
use self::pump::Pump;

/// The longest payload of a frame: the largest ttrpc message with its header.
pub const MAX_FRAME: usize = MAX_MESSAGE + MESSAGE_HEADER_LENGTH;

/// The number of a channel. The reserved number zero is not a `ChannelId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(NonZeroU32);

impl ChannelId {
    /// The channel on which the runtime calls the plugin.
    pub const PLUGIN_SERVICE: Self = Self(NonZeroU32::MIN);
    /// The channel on which the plugin calls the runtime.
    pub const RUNTIME_SERVICE: Self = Self(NonZeroU32::MIN.saturating_add(1));

    /// Returns the id of a channel, or `None` for the reserved number zero.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number of the channel on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// Limits on the memory that a peer can occupy, in bytes.
///
/// The connection is closed if the peer exceeds a limit other than `unsent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The payload of one frame. A longer frame is refused when its header is read, before memory
    /// is allocated for it.
    pub frame: usize,
    /// The received data of all channels that is still in memory: bytes that were not read yet,
    /// requests whose handlers run, and replies that their callers have not dropped.
    pub received: usize,
    /// The queue of outgoing data. Writers wait while it is full; the connection is not closed. A
    /// message that is larger than the limit is accepted when the queue is empty.
    pub unsent: usize,
    /// All data received before [`Mux::admit`], including the headers of frames.
    pub before_admission: usize,
    /// The number of *frames* that are dropped because their channel is not open.
    pub unknown_frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: MAX_FRAME,
            // The largest message on each of two channels, and the rest of one read from the
            // socket.
            received: 2 * MAX_FRAME + (32 << 10),
            unsent: 4 << 20,
            before_admission: 64 << 10,
            unknown_frames: 1000,
        }
    }
}

/// One connection and its channels. Dropping it closes the connection.
#[derive(Debug)]
pub struct Mux {
    connection: Arc<Connection>,
}

impl Mux {
    /// Starts multiplexing over a connection, which is given as its two halves.
    ///
    /// All channels are open when this returns, before the first byte is read.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime, and if `ids` contains a channel twice.
    #[must_use]
    pub fn over<R, W, const N: usize>(reader: R, writer: W, ids: [ChannelId; N], limits: Limits) -> (Self, [Channel; N])
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let connection = Arc::new(Connection::new(&ids, limits, writer));
        connection.tasks.spawn(Pump::new(Arc::clone(&connection), reader).run());
        connection.tasks.close();
        let channels = std::array::from_fn(|at| Channel::new(Arc::clone(&connection), at));
        (Self { connection }, channels)
    }

    /// Starts multiplexing over a connected unix socket.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be registered with the Tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics where [`Mux::over`] does.
    pub fn on_unix<const N: usize>(
        stream: UnixStream,
        ids: [ChannelId; N],
        limits: Limits,
    ) -> io::Result<(Self, [Channel; N])> {
        let (reader, writer) = socket::split(stream)?;
        Ok(Self::over(reader, writer, ids, limits))
    }

    /// Lifts [`Limits::before_admission`], after the peer has identified itself.
    pub fn admit(&self) {
        self.connection.admit();
    }

    /// Closes the connection immediately. Queued outgoing data is dropped.
    pub fn close(&self) {
        self.connection.close(Closed::Local);
    }

    /// Writes the queued data, for at most `grace`, and closes the connection.
    pub async fn finish(&self, grace: Duration) {
        self.connection.finish();
        if tokio::time::timeout(grace, self.connection.tasks.wait()).await.is_err() {
            self.close();
            self.connection.tasks.wait().await;
        }
    }

    /// Waits until the connection is closed and its tasks have ended, and returns the reason.
    pub async fn closed(&self) -> Closed {
        self.connection.tasks.wait().await;
        self.connection.reason().unwrap_or(Closed::Local)
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        self.close();
    }
}
