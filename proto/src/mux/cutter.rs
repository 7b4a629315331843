//! Where to cut the bytes of a channel into frames, so that a Go peer can read them.

use super::MAX_FRAME;
use super::message::{MESSAGE_HEADER_LENGTH, message_length};

/// The size of the buffer into which a Go peer reads the beginning of a message.
pub const GO_BUFFER: usize = 4096;

/// Follows the ttrpc messages in the stream of a channel and decides where frames end.
///
/// A Go peer reads whole frames. While it expects the header of a message, it reads into a buffer
/// of [`GO_BUFFER`] bytes. Afterwards it reads into a buffer for the rest of the message, if the
/// rest is longer than that. A frame that contains a byte of a header must therefore fit into
/// [`GO_BUFFER`], and no frame may extend into the next message.
#[derive(Clone, Debug, Default)]
pub struct Cutter {
    header: [u8; MESSAGE_HEADER_LENGTH],
    filled: usize,
    left: usize,
}

impl Cutter {
    /// Returns how many bytes at the front of `chunk` are the payload of the next frame.
    ///
    /// The result is zero only if `chunk` is empty.
    pub fn next(&mut self, chunk: &[u8]) -> usize {
        if self.left > 0 {
            return self.take(chunk.len().min(MAX_FRAME));
        }
        let begun = chunk.len().min(MESSAGE_HEADER_LENGTH - self.filled);
        self.header[self.filled..self.filled + begun].copy_from_slice(&chunk[..begun]);
        self.filled += begun;
        if self.filled < MESSAGE_HEADER_LENGTH {
            return begun;
        }
        self.filled = 0;
        self.left = message_length(&self.header);
        begun + self.take((chunk.len() - begun).min(GO_BUFFER - begun))
    }

    fn take(&mut self, most: usize) -> usize {
        let taken = self.left.min(most);
        self.left -= taken;
        taken
    }
}
