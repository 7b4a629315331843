//! The errors of a call.

use bytes::Bytes;
use thiserror::Error;
use ttrpc::Code;

use crate::mux::Closed;

/// The reason why a call has no reply.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    /// The peer refused the request.
    #[error("refused with {code:?}: {message}")]
    Refused {
        /// The status code of the refusal.
        code: Code,
        /// The text of the refusal.
        message: String,
        /// The encoded reply in the refusal, or empty if there is none. A Go client drops it.
        payload: Bytes,
    },
    /// The connection ended before the reply came.
    #[error("the connection ended before the reply")]
    Closed(#[from] Closed),
    /// The request does not fit into a ttrpc message. Nothing was sent.
    #[error("a request of {size} bytes is larger than the {limit} bytes that a message may have")]
    TooLarge {
        /// The size of the message.
        size: usize,
        /// The maximum size of a message.
        limit: usize,
    },
    /// The deadline of the call has expired.
    #[error("no reply in time")]
    TimedOut,
    /// The peer's reply is invalid, or larger than a ttrpc message can be.
    #[error("the reply cannot be read: {breach}")]
    Malformed {
        /// The violated rule.
        breach: &'static str,
    },
}
