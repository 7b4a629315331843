//! Why the runtime did not do what it was asked for.

use nri_proto::Update;
use nri_proto::bounded::BoundedError;
use nri_proto::call::CallError;
use thiserror::Error;

/// Why the runtime did not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// There is no connection, or not yet.
    #[error("could not update containers: there is no connection to a runtime")]
    NotConnected,
    /// It did not answer, or said no.
    #[error("could not update containers")]
    Call(#[source] CallError),
    /// The runtime applied not all of the updates.
    #[error("could not update containers: {reason}")]
    Failed {
        /// What the runtime says: which updates failed, and why.
        reason: String,
        /// The updates that failed.
        failed: Vec<Update>,
    },
    /// It answered something else.
    #[error("could not read the runtime's answer to an update of containers")]
    Answer(#[source] BoundedError),
}
