//! The errors of an update.

use nri_proto::Update;
use nri_proto::bounded::BoundedError;
use nri_proto::call::CallError;
use thiserror::Error;

/// Errors from [`Runtime::update`](crate::Runtime::update).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The plugin is not connected to a runtime.
    #[error("could not update containers: not connected to a runtime")]
    NotConnected,
    /// The runtime did not reply, or refused the call.
    #[error("could not update containers")]
    Call(#[source] CallError),
    /// The runtime did not apply all of the updates.
    #[error("could not update containers: {reason}")]
    Failed {
        /// The message of the runtime: which updates failed, and why.
        reason: String,
        /// The updates that failed.
        failed: Vec<Update>,
    },
    /// The runtime's reply could not be decoded.
    #[error("could not decode the runtime's reply to an update of containers")]
    Answer(#[source] BoundedError),
}
