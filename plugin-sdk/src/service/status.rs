//! Decoding of requests, and the ttRPC statuses of refusals and errors.

use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use protobuf::Message;
use ttrpc::Code;

use super::snapshot::SnapshotError;
use crate::plugin::{Refusal, chain};

/// Creates a ttRPC error with this code and message.
pub(super) fn status(code: Code, message: impl ToString) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(ttrpc::get_status(code, message))
}

/// Converts the refusal of a handler.
pub(super) fn refusal_status(refusal: Refusal) -> ttrpc::Error {
    status(Code::UNKNOWN, refusal)
}

/// Decodes a request of at most this many entries.
pub(super) fn parse<M: Message>(request: &Bytes, entries: usize) -> ttrpc::Result<M> {
    bounded::parse(request, entries).map_err(|error| bounded_error_status(&error))
}

pub(super) fn snapshot_error_status(error: &SnapshotError) -> ttrpc::Error {
    match error {
        SnapshotError::TooLarge(_) => status(Code::RESOURCE_EXHAUSTED, error),
        SnapshotError::Unread(cause) => bounded_error_status(cause),
    }
}

fn bounded_error_status(error: &BoundedError) -> ttrpc::Error {
    let code = match error {
        BoundedError::TooMany(_) => Code::RESOURCE_EXHAUSTED,
        BoundedError::Malformed(_) | BoundedError::Twice => Code::INVALID_ARGUMENT,
    };
    status(code, chain(error))
}
