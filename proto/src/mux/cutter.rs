//! Where to cut what is written to a channel, so that a Go peer can read it.

use super::MAX_FRAME;
use super::message::{MESSAGE_HEADER_LENGTH, message_length};

/// The buffer with which a Go peer reads the beginning of a message.
pub const GO_BUFFER: usize = 4096;

/// Follows the ttrpc messages in a channel's stream and says where its frames end.
///
/// Go reads a frame whole. It does so into a buffer of [`GO_BUFFER`] bytes while it waits for a
/// message's header, and into what is left of the message once that is more. So a frame with
/// any byte of a header must not exceed the buffer, and no frame may reach into the next message.
#[derive(Clone, Debug, Default)]
pub struct Cutter {
    header: [u8; MESSAGE_HEADER_LENGTH],
    filled: usize,
    left: usize,
}

impl Cutter {
    /// Takes the next frame's payload from the front of `chunk` and returns its length.
    ///
    /// It is zero only for an empty chunk.
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
