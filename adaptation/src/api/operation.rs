//! How an operation of the runtime is named, and how it ends.

/// The number of an operation. A later operation has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub(crate) u64);

/// How an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationOutcome {
    /// The runtime has committed the operation: its store shows the result.
    Committed,
    /// The operation has failed: everything is as it was before.
    Failed,
}
