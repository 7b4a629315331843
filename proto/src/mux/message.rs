//! ttrpc messages on a channel: the layout of the header, and a received message.

use bytes::Bytes;
use ttrpc::MessageHeader;

use super::budget::Reservation;

/// The length of a ttrpc message's header.
pub const MESSAGE_HEADER_LENGTH: usize = ttrpc::proto::MESSAGE_HEADER_LENGTH;

/// The longest payload of a ttrpc message, without its header.
pub const MAX_MESSAGE: usize = ttrpc::proto::MESSAGE_LENGTH_MAX;

/// A received ttrpc message.
#[derive(Debug)]
pub(crate) enum ReceivedMessage {
    /// A complete message. It counts against the receive budget until the reservation is dropped.
    Whole(MessageHeader, Bytes, Reservation),
    /// The header of a message that is too large. Its payload is discarded as it arrives.
    Oversized(MessageHeader),
}

/// Returns the length of the payload that follows a ttrpc message's header.
pub(super) fn message_length(header: &[u8; MESSAGE_HEADER_LENGTH]) -> usize {
    let [a, b, c, d, ..] = *header;
    u32::from_be_bytes([a, b, c, d]) as usize
}
