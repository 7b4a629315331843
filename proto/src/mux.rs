//! One connection, many channels: NRI's multiplexer.
//!
//! Runtime and plugin share one stream socket and need two ttrpc connections on it, one in each
//! direction. The multiplexer carries them as *channels*: what is written to a channel leaves in
//! frames, each with the channel's number and a length in front of it (two big endian `u32`).
//! There is no message that opens or closes a channel, and no flow control.
//!
//! Three things follow, and this module takes care of them:
//!
//! - A Go peer reads one whole frame at a time into a buffer that may be as small as 4096 bytes,
//!   and its connection dies of a larger one. What leaves here is cut so that Go can read it;
//!   what arrives may be cut in any way.
//! - A peer that sends faster than we read cannot be asked to wait: that would hold up its other
//!   channel too. So there are [`Limits`], in bytes, and a peer that exceeds one is closed, with
//!   the reason ([`Closed`]).
//! - Channels must be open before the first frame is read, or it is lost. They are named when the
//!   connection is made and there is no way to open one later.
//!
//! Each [`Mux`] runs one task, the *pump*: it reads the connection, and it writes what could not
//! be written at once. It ends when the connection does, and [`Mux::closed`] waits for that.
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
pub use self::frame::{Decoder, HEADER_LENGTH, Piece, header};
pub(crate) use self::message::ReceivedMessage;
pub use self::message::{MAX_MESSAGE, MESSAGE_HEADER_LENGTH};
use self::pump::Pump;

/// The most payload a frame may carry: the largest ttrpc message with its header.
pub const MAX_FRAME: usize = MAX_MESSAGE + MESSAGE_HEADER_LENGTH;

/// The number of a channel. Zero is reserved, and cannot be expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(NonZeroU32);

impl ChannelId {
    /// The channel on which a plugin serves and the runtime calls.
    pub const PLUGIN_SERVICE: Self = Self(NonZeroU32::MIN);
    /// The channel on which the runtime serves and a plugin calls.
    pub const RUNTIME_SERVICE: Self = Self(NonZeroU32::MIN.saturating_add(1));

    /// The channel of this number, unless it is the reserved one.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// What a peer may make us hold, in bytes. Exceeding one of these closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The payload of one frame. A longer one is refused by its header, before anything is allocated.
    pub frame: usize,
    /// What was received on all channels together and is still held: what nobody has read, requests that are worked on, and
    /// replies that whoever waits for them has not looked at.
    pub received: usize,
    /// What is queued for a peer that does not read. Writers wait for room; the peer is not closed. A larger message
    /// is taken when nothing else is queued.
    pub unsent: usize,
    /// All that may arrive before [`Mux::admit`], headers included.
    pub before_admission: usize,
    /// How many *frames* may be dropped because nobody opened their channel.
    pub unknown_frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: MAX_FRAME,
            // The largest message on each of two channels, and what one read may bring behind them.
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
    /// Multiplexes over a connection that is given as its two halves.
    ///
    /// All channels are open when this returns, before the first byte is read.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, and when a channel is named twice.
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

    /// Multiplexes over a connected unix socket.
    ///
    /// # Errors
    ///
    /// The socket cannot be registered with the runtime.
    ///
    /// # Panics
    ///
    /// As [`Mux::over`].
    pub fn on_unix<const N: usize>(
        stream: UnixStream,
        ids: [ChannelId; N],
        limits: Limits,
    ) -> io::Result<(Self, [Channel; N])> {
        let (reader, writer) = socket::split(stream)?;
        Ok(Self::over(reader, writer, ids, limits))
    }

    /// Lifts [`Limits::before_admission`]: the peer has said who it is.
    pub fn admit(&self) {
        self.connection.admit();
    }

    /// Closes the connection at once. What was queued for the peer is dropped.
    pub fn close(&self) {
        self.connection.close(Closed::Local);
    }

    /// Writes what is queued for the peer, for at most `grace`, and closes the connection.
    pub async fn finish(&self, grace: Duration) {
        self.connection.finish();
        if tokio::time::timeout(grace, self.connection.tasks.wait()).await.is_err() {
            self.close();
            self.connection.tasks.wait().await;
        }
    }

    /// Waits until the connection is closed and its tasks have ended, and says why it was.
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
