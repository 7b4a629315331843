//! Why a connection ended.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// The reason why a connection ended. All users of its channels get the same reason.
#[derive(Clone, Debug, Error)]
pub enum Closed {
    /// The local end closed the connection.
    #[error("the connection was closed on our side")]
    Local,
    /// The peer closed the connection between two frames.
    #[error("the peer closed the connection")]
    Eof,
    /// The peer closed the connection in the middle of a frame.
    #[error("the peer closed the connection in the middle of a frame")]
    Truncated,
    /// The peer announced a frame that is longer than allowed.
    #[error("the peer announced a frame of {length} bytes on channel {channel}, at most {limit} are allowed")]
    FrameTooLarge {
        /// The channel that the frame was for.
        channel: u32,
        /// The announced length.
        length: usize,
        /// The maximum length.
        limit: usize,
    },
    /// The peer sent a frame for channel 0.
    #[error("the peer sent a frame for the reserved channel 0")]
    ReservedChannel,
    /// The peer sent too many frames for channels that are not open.
    #[error("the peer sent more than {limit} frames for channels that are not open, the last for channel {channel}")]
    UnknownChannel {
        /// The channel of the last such frame.
        channel: u32,
        /// The maximum number of such frames.
        limit: usize,
    },
    /// The peer sent more data than was read, on all channels together.
    #[error("the peer sent more than {limit} bytes on channel {channel} that nobody has read")]
    Unread {
        /// The channel of the frame that exceeded the limit.
        channel: u32,
        /// The maximum number of bytes.
        limit: usize,
    },
    /// The peer sent too much data before it was admitted.
    #[error("the peer sent more than {limit} bytes before it was admitted")]
    BeforeAdmission {
        /// The maximum number of bytes.
        limit: usize,
    },
    /// All stream ids of a client have been used. A new connection starts again from the first id.
    #[error("the connection has used up its stream ids")]
    IdsUsedUp,
    /// Reading from the connection failed.
    #[error("could not read from the connection")]
    Read(#[source] Arc<io::Error>),
    /// Writing to the connection failed.
    #[error("could not write to the connection")]
    Write(#[source] Arc<io::Error>),
}

impl Closed {
    /// Returns the result of reading from a channel after all received data was read: the end of
    /// the stream, or an error.
    pub(super) fn as_read(&self) -> io::Result<()> {
        match self {
            Self::Local | Self::Eof | Self::IdsUsedUp => Ok(()),
            Self::Truncated => Err(io::Error::new(io::ErrorKind::UnexpectedEof, self.clone())),
            Self::Read(error) | Self::Write(error) => Err(io::Error::new(error.kind(), self.clone())),
            Self::FrameTooLarge { .. }
            | Self::ReservedChannel
            | Self::UnknownChannel { .. }
            | Self::Unread { .. }
            | Self::BeforeAdmission { .. } => Err(io::Error::new(io::ErrorKind::InvalidData, self.clone())),
        }
    }

    /// Returns the error of writing to a channel of the closed connection.
    pub(super) fn as_write(&self) -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, self.clone())
    }
}
