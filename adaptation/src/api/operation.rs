//! The id and the outcome of an operation of the runtime.

/// The number of an operation. Later operations have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub(crate) u64);

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationOutcome {
    /// The runtime has committed the operation: its store shows the result.
    Committed,
    /// The operation has failed: everything is as it was before.
    Failed,
}
