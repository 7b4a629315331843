//! Why a connection ended.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// Why a connection ended. Everyone who uses one of its channels learns the same reason.
#[derive(Clone, Debug, Error)]
pub enum Closed {
    /// We closed it.
    #[error("the connection was closed on our side")]
    Local,
    /// The peer closed it, between two frames.
    #[error("the peer closed the connection")]
    Eof,
    /// The peer closed it in the middle of a frame.
    #[error("the peer closed the connection in the middle of a frame")]
    Truncated,
    /// The peer announced a frame that is longer than allowed.
    #[error("the peer announced a frame of {length} bytes on channel {channel}, at most {limit} are allowed")]
    FrameTooLarge {
        /// The channel that the frame was for.
        channel: u32,
        /// The length that was announced.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The peer sent a frame for channel 0.
    #[error("the peer sent a frame for the reserved channel 0")]
    ReservedChannel,
    /// The peer kept sending frames for channels that nobody opened.
    #[error("the peer sent more than {limit} frames for channels that are not open, the last for channel {channel}")]
    UnknownChannel {
        /// The last such channel.
        channel: u32,
        /// How many such frames are allowed.
        limit: usize,
    },
    /// The peer sent more on a channel than was read from it.
    #[error("the peer sent more than {limit} bytes on channel {channel} that nobody has read")]
    Unread {
        /// The channel.
        channel: u32,
        /// How many bytes are allowed.
        limit: usize,
    },
    /// The peer sent more than it may before it is let in.
    #[error("the peer sent more than {limit} bytes before it was admitted")]
    BeforeAdmission {
        /// How many bytes are allowed.
        limit: usize,
    },
    /// Every stream id that a client has was used. A new connection begins anew.
    #[error("the connection has used up its stream ids")]
    IdsUsedUp,
    /// Reading failed.
    #[error("could not read from the connection")]
    Read(#[source] Arc<io::Error>),
    /// Writing failed.
    #[error("could not write to the connection")]
    Write(#[source] Arc<io::Error>),
}

impl Closed {
    /// What reading from a channel of the connection yields once everything received was read.
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

    /// What writing to a channel of the connection fails with.
    pub(super) fn as_write(&self) -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, self.clone())
    }
}
