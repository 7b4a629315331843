//! What can become of a call.

use bytes::Bytes;
use thiserror::Error;
use ttrpc::Code;

use crate::mux::Closed;

/// Why a call has no reply.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    /// The peer answered no.
    #[error("refused with {code:?}: {message}")]
    Refused {
        /// The status code of its answer.
        code: Code,
        /// The text of its answer.
        message: String,
        /// The encoded reply that came with the refusal; empty if there was none. A Go client drops it.
        payload: Bytes,
    },
    /// The connection ended before the reply came.
    #[error("the connection ended before the reply")]
    Closed(#[from] Closed),
    /// The request does not fit into a message. Nothing was sent.
    #[error("a request of {size} bytes is larger than the {limit} bytes that a message may have")]
    TooLarge {
        /// The size of the message that would have been sent.
        size: usize,
        /// The largest that may be.
        limit: usize,
    },
    /// The reply did not come in time.
    #[error("no reply in time")]
    TimedOut,
    /// The peer's reply cannot be read, or is larger than a message may be.
    #[error("the reply cannot be read: {breach}")]
    Malformed {
        /// What is wrong with it.
        breach: &'static str,
    },
}
