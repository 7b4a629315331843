//! Why something was not done.

use nri_adaptation::{LaunchError, RelayError, socket::BindError};
use nri_proto::PluginId;
use thiserror::Error;

use crate::lifecycle::state::Refusal;

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A pod.
    Pod,
    /// A container.
    Container,
}

impl std::fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pod => "pod",
            Self::Container => "container",
        })
    }
}

/// Why a request was not made, or came to nothing.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// [`Nri::start`](crate::Nri::start) has not returned yet.
    #[error("NRI was not started yet")]
    NotStarted,
    /// [`Nri::stop`](crate::Nri::stop) was called.
    #[error("NRI was stopped")]
    Stopped,
    /// There is one of this id already.
    #[error("{kind} {id} exists already")]
    Exists {
        /// What.
        kind: ObjectKind,
        /// Its id.
        id: String,
    },
    /// It is still being created.
    #[error("{kind} {id} is still being created")]
    BeingCreated {
        /// What.
        kind: ObjectKind,
        /// Its id.
        id: String,
    },
    /// It is being removed.
    #[error("{kind} {id} is being removed")]
    BeingRemoved {
        /// What.
        kind: ObjectKind,
        /// Its id.
        id: String,
    },
    /// Plugins would not know what is meant.
    #[error("a {kind} without an id cannot be created")]
    NoId {
        /// What.
        kind: ObjectKind,
    },
    /// Plugins would look for it in another pod than the one that it is created in.
    #[error("container {id} cannot be created in pod {pod}: it says that it is in pod {said}")]
    OtherPod {
        /// The id of the container.
        id: String,
        /// The pod that it is to be created in.
        pod: String,
        /// The pod that it says it is in.
        said: String,
    },
    /// Its pod has ended, or ends.
    #[error("container {id} cannot be: pod {pod} has ended")]
    PodEnded {
        /// The id of the container.
        id: String,
        /// The id of the pod.
        pod: String,
    },
    /// It was removed a while ago.
    #[error("{kind} {id} was removed")]
    Removed {
        /// What.
        kind: ObjectKind,
        /// Its id.
        id: String,
    },
    /// Its future was not polled while its end waited for it: it counts as dropped.
    #[error("it was given up: its caller did not go on with it")]
    GivenUp,
    /// Plugins do not let it be, or could not be asked.
    #[error(transparent)]
    Relay(RelayError),
}

impl From<RelayError> for Error {
    fn from(error: RelayError) -> Self {
        if let RelayError::Stopped = error { Self::Stopped } else { Self::Relay(error) }
    }
}

impl Error {
    /// Whether plugins do not want it: one said no, or wants what it may not or what another one does not, or a validator does not accept it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Relay(error) if error.is_refusal())
    }

    /// Whether a plugin that must be there is not, or does not answer: absent, joining, silent, suspended or gone. It may be there later.
    #[must_use]
    pub fn is_plugin_absent(&self) -> bool {
        matches!(self, Self::Relay(error) if error.is_plugin_absent())
    }

    /// Whether the caller's own deadline ([`Handle::until`](crate::Handle::until)) was over.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Relay(error) if error.is_deadline())
    }

    pub(crate) fn refused(refusal: Refusal, kind: ObjectKind, id: &str) -> Self {
        let id = id.to_owned();
        match refusal {
            Refusal::Exists => Self::Exists { kind, id },
            Refusal::BeingCreated => Self::BeingCreated { kind, id },
            Refusal::BeingRemoved => Self::BeingRemoved { kind, id },
        }
    }
}

/// Why a plugin that is built in was not let in.
#[derive(Clone, Debug, Error)]
pub enum AdmitError {
    /// [`Nri::start`](crate::Nri::start) has not returned yet: nobody could tell it what there is.
    #[error("plugin {0} comes too early: NRI was not started yet")]
    NotStarted(PluginId),
    /// It fails to be configured or synchronized, or there is no room for it.
    #[error(transparent)]
    Failed(#[from] nri_adaptation::AdmitError),
}

/// Why a namespace was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// There is a domain for it already.
    #[error("namespace {0} is registered already")]
    Taken(String),
    /// It is too late: plugins may have been told already what there is.
    #[error("namespace {0} cannot be registered any more: NRI was started")]
    Started(String),
}

/// Why it could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The directory of plugins cannot be used.
    #[error("could not launch plugins")]
    Launch(#[from] LaunchError),
    /// The socket cannot be made.
    #[error("could not listen for plugins")]
    Listen(#[from] BindError),
    /// A domain does not say what there is.
    #[error("the domain of namespace {0} does not say what there is")]
    Domain(String),
    /// It was started before, or is being started.
    #[error("NRI was started already")]
    Twice,
    /// It was stopped.
    #[error("NRI was stopped")]
    Stopped,
}
