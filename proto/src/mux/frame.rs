//! Frames on the wire: the layout of the header, and a decoder without I/O.

use super::{ChannelId, Closed};

/// The length of a frame's header: the number of the channel and the length of the payload.
pub const HEADER_LENGTH: usize = 8;

/// Returns the header of a frame with `length` bytes of payload.
#[must_use]
pub fn header(channel: ChannelId, length: u32) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    let (number, size) = header.split_at_mut(4);
    number.copy_from_slice(&channel.get().to_be_bytes());
    size.copy_from_slice(&length.to_be_bytes());
    header
}

/// A part of a frame that a [`Decoder`] found in its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePiece<'a> {
    /// The header of a frame.
    Frame {
        /// The channel of the frame.
        channel: ChannelId,
        /// The length of the payload.
        length: usize,
    },
    /// A part of the payload of the current frame. It is never empty.
    Payload {
        /// The channel of the frame.
        channel: ChannelId,
        /// The bytes of this part.
        bytes: &'a [u8],
    },
}

/// A decoder for a stream of frames, which can arrive in pieces of any size.
///
/// The decoder buffers at most one header. Payload is passed on as it arrives, and a frame that is
/// too long is refused when its header is complete. Decoding cannot continue after an error.
#[derive(Clone, Debug)]
pub struct Decoder {
    limit: usize,
    header: [u8; HEADER_LENGTH],
    filled: usize,
    frame: Option<(ChannelId, usize)>,
}

impl Decoder {
    /// Creates a decoder that refuses frames with more than `limit` bytes of payload.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, header: [0; HEADER_LENGTH], filled: 0, frame: None }
    }

    /// Takes the next piece from the front of `input`. Returns `None` when `input` is used up.
    ///
    /// # Errors
    ///
    /// Fails if a frame is too long, or is for the reserved channel.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<FramePiece<'a>>, Closed> {
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

    /// Returns whether the input so far ends between two frames.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.filled == 0 && self.frame.is_none()
    }

    fn begin<'a>(&mut self) -> Result<FramePiece<'a>, Closed> {
        let [a, b, c, d, e, f, g, h] = self.header;
        let number = u32::from_be_bytes([a, b, c, d]);
        let length = u32::from_be_bytes([e, f, g, h]) as usize;
        let channel = ChannelId::new(number).ok_or(Closed::ReservedChannel)?;
        if length > self.limit {
            return Err(Closed::FrameTooLarge { channel: number, length, limit: self.limit });
        }
        self.frame = (length > 0).then_some((channel, length));
        Ok(FramePiece::Frame { channel, length })
    }

    fn payload<'a>(&mut self, channel: ChannelId, left: usize, input: &mut &'a [u8]) -> Option<FramePiece<'a>> {
        let (bytes, rest) = input.split_at(left.min(input.len()));
        *input = rest;
        self.frame = (left > bytes.len()).then_some((channel, left - bytes.len()));
        (!bytes.is_empty()).then_some(FramePiece::Payload { channel, bytes })
    }
}
