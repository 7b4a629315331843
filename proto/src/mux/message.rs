//! The ttrpc messages that channels carry: how long they are, and how they are handed over.

use bytes::Bytes;
use ttrpc::MessageHeader;

use super::budget::Reservation;

/// The length of a ttrpc message's header.
pub const MESSAGE_HEADER_LENGTH: usize = ttrpc::proto::MESSAGE_HEADER_LENGTH;

/// The most that may follow a ttrpc message's header.
pub const MAX_MESSAGE: usize = ttrpc::proto::MESSAGE_LENGTH_MAX;

/// A ttrpc message as it was received.
#[derive(Debug)]
pub(crate) enum ReceivedMessage {
    /// A whole one, which counts as received until it is let go.
    Whole(MessageHeader, Bytes, Reservation),
    /// The header of one that is too large; its payload is thrown away as it arrives.
    Oversized(MessageHeader),
}

/// How much follows a message's header.
pub(super) fn message_length(header: &[u8; MESSAGE_HEADER_LENGTH]) -> usize {
    let [a, b, c, d, ..] = *header;
    u32::from_be_bytes([a, b, c, d]) as usize
}
