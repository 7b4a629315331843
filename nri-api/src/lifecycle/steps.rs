//! Small values of the state machine: what is asked of it, and what it answers.

use crate::error::{Error, ObjectKind};

/// The end that the runtime reports of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndGoal {
    Stopped,
    Removed,
}

/// The next step towards an [`EndGoal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndStep {
    /// The caller has claimed the Stop and must send it.
    Stop,
    /// The caller has claimed the Remove and must send it.
    Remove,
    /// Another request is about to be sent. Try again after it was sent.
    Wait,
    /// Nothing is left to do: another caller has claimed the step, or plugins do not know the
    /// object.
    Nothing,
}

/// Why an object cannot be created, started or updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    BeingCreated,
    BeingRemoved,
}

impl Refusal {
    /// Converts the refusal to the error that the caller of the public API gets.
    pub(crate) fn error(self, kind: ObjectKind, id: &str) -> Error {
        let id = id.to_owned();
        match self {
            Self::Exists => Error::Exists { kind, id },
            Self::BeingCreated => Error::BeingCreated { kind, id },
            Self::BeingRemoved => Error::BeingRemoved { kind, id },
        }
    }
}

/// One run of a container: the number of the start call that began the run, counted per namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(pub(crate) u64);

impl RunId {
    /// Greater than every run: an end that is reported of this run ends any run.
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// The kind of request that plugins have to approve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalKind {
    Start,
    Update,
}

/// The next step of the caller of a start or an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalStep<T> {
    /// Ask plugins now, and report the [end](super::state::Lifecycle::approval_ended) of that.
    Ask(T),
    /// Try again after the request that is in the way.
    Wait,
    Refused(Refusal),
}

/// A completed action that a Post event reports to plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    Create,
    Start(RunId),
    Update,
}

/// The next step of the sender of a Post event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostStep {
    /// Send the event.
    Tell,
    /// Try again after the request that is in the way.
    Wait,
    /// Skip the event: it was sent already, or the object has ended.
    Drop,
}
