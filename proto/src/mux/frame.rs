//! Frames on the wire: the header, and a decoder that does no I/O.

use super::{ChannelId, Closed};

/// The length of a frame's header: the channel's number and the payload's length.
pub const HEADER_LENGTH: usize = 8;

/// The header of a frame with `length` bytes of payload.
#[must_use]
pub fn header(channel: ChannelId, length: u32) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    let (number, size) = header.split_at_mut(4);
    number.copy_from_slice(&channel.get().to_be_bytes());
    size.copy_from_slice(&length.to_be_bytes());
    header
}

/// What a [`Decoder`] found in the bytes it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame begins.
    Frame {
        /// The channel it is for.
        channel: ChannelId,
        /// The length of its payload.
        length: usize,
    },
    /// A part of the payload of the frame that began last. Never empty.
    Payload {
        /// The channel it is for.
        channel: ChannelId,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Takes a stream of frames apart, however it was cut on its way.
///
/// It holds a header at most: payload is handed on as it comes, and a frame that is too long is
/// refused by its header. After an error the stream cannot be picked up again.
#[derive(Clone, Debug)]
pub struct Decoder {
    limit: usize,
    header: [u8; HEADER_LENGTH],
    filled: usize,
    frame: Option<(ChannelId, usize)>,
}

impl Decoder {
    /// A decoder that refuses frames with more than `limit` bytes of payload.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, header: [0; HEADER_LENGTH], filled: 0, frame: None }
    }

    /// Takes the next piece from the front of `input`, which is left empty when there is none.
    ///
    /// # Errors
    ///
    /// A frame that is too long, or that is for the reserved channel.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Closed> {
        if let Some((channel, left)) = self.frame {
            return Ok(self.payload(channel, left, input));
        }
        let wanted = HEADER_LENGTH - self.filled;
        let (taken, rest) = input.split_at(wanted.min(input.len()));
        self.header[self.filled..self.filled + taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        *input = rest;
        if self.filled < HEADER_LENGTH {
            return Ok(None);
        }
        self.filled = 0;
        self.begin().map(Some)
    }

    /// Whether the stream may end here: no frame is half received.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.filled == 0 && self.frame.is_none()
    }

    fn begin<'a>(&mut self) -> Result<Piece<'a>, Closed> {
        let [a, b, c, d, e, f, g, h] = self.header;
        let number = u32::from_be_bytes([a, b, c, d]);
        let length = u32::from_be_bytes([e, f, g, h]) as usize;
        let channel = ChannelId::new(number).ok_or(Closed::ReservedChannel)?;
        if length > self.limit {
            return Err(Closed::FrameTooLarge { channel: number, length, limit: self.limit });
        }
        self.frame = (length > 0).then_some((channel, length));
        Ok(Piece::Frame { channel, length })
    }

    fn payload<'a>(&mut self, channel: ChannelId, left: usize, input: &mut &'a [u8]) -> Option<Piece<'a>> {
        let (bytes, rest) = input.split_at(left.min(input.len()));
        *input = rest;
        self.frame = (left > bytes.len()).then_some((channel, left - bytes.len()));
        (!bytes.is_empty()).then_some(Piece::Payload { channel, bytes })
    }
}
