//! The errors of the public API.

use nri_adaptation::{LaunchError, RelayError, socket::BindError};
use nri_proto::PluginId;
use thiserror::Error;

/// The kind of object that an error is about.
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

/// Why a request has failed.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// [`Nri::start`](crate::Nri::start) has not returned yet.
    #[error("NRI is not started yet")]
    NotStarted,
    /// [`Nri::stop`](crate::Nri::stop) was called.
    #[error("NRI was stopped")]
    Stopped,
    /// A pod or container of this id exists already.
    #[error("{kind} {id} exists already")]
    Exists {
        /// The kind of object.
        kind: ObjectKind,
        /// The id of the object.
        id: String,
    },
    /// The pod or container is still being created.
    #[error("{kind} {id} is still being created")]
    BeingCreated {
        /// The kind of object.
        kind: ObjectKind,
        /// The id of the object.
        id: String,
    },
    /// The pod or container is being removed.
    #[error("{kind} {id} is being removed")]
    BeingRemoved {
        /// The kind of object.
        kind: ObjectKind,
        /// The id of the object.
        id: String,
    },
    /// The pod or container has no id, so plugins could not refer to it.
    #[error("a {kind} without an id cannot be created")]
    NoId {
        /// The kind of object.
        kind: ObjectKind,
    },
    /// The `pod_id` of the container is not the pod in which the container is to be created.
    #[error("container {id} cannot be created in pod {pod}: its pod_id is {said}")]
    OtherPod {
        /// The id of the container.
        id: String,
        /// The pod in which the container is to be created.
        pod: String,
        /// The `pod_id` of the container.
        said: String,
    },
    /// The container's pod has ended or is ending, so the container cannot be created or started.
    #[error("container {id} cannot be created or started: pod {pod} has ended")]
    PodEnded {
        /// The id of the container.
        id: String,
        /// The id of the pod.
        pod: String,
    },
    /// The container was removed a while ago.
    #[error("{kind} {id} was removed")]
    Removed {
        /// The kind of object.
        kind: ObjectKind,
        /// The id of the object.
        id: String,
    },
    /// Plugins reject the request, or could not be asked.
    #[error(transparent)]
    Relay(RelayError),
}

impl From<RelayError> for Error {
    fn from(error: RelayError) -> Self {
        if let RelayError::Stopped = error { Self::Stopped } else { Self::Relay(error) }
    }
}

impl Error {
    /// Returns whether plugins reject the request: a plugin refuses it, a plugin wants a change
    /// that is forbidden or that conflicts with another plugin's, or a validator rejects the
    /// result.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Relay(error) if error.is_refusal())
    }

    /// Returns whether a required plugin is absent or does not answer: it is joining, silent,
    /// suspended or gone. The plugin may be available later.
    #[must_use]
    pub fn is_plugin_absent(&self) -> bool {
        matches!(self, Self::Relay(error) if error.is_plugin_absent())
    }

    /// Returns whether the deadline of the caller ([`Handle::until`](crate::Handle::until)) has
    /// expired.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Relay(error) if error.is_deadline())
    }
}

/// Why a built-in plugin was not admitted.
#[derive(Clone, Debug, Error)]
pub enum AdmitError {
    /// [`Nri::start`](crate::Nri::start) has not returned yet, so the plugin cannot be
    /// synchronized.
    #[error("plugin {0} cannot be admitted: NRI is not started yet")]
    NotStarted(PluginId),
    /// The plugin could not be configured or synchronized, or its place is taken.
    #[error(transparent)]
    Failed(#[from] nri_adaptation::AdmitError),
}

/// Why a namespace was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// A namespace of this name is registered already.
    #[error("namespace {0} is registered already")]
    Taken(String),
    /// NRI was started: plugins may have a snapshot without the namespace.
    #[error("namespace {0} cannot be registered: NRI was started")]
    Started(String),
}

/// Why NRI was not started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The plugin directory cannot be used.
    #[error("could not launch plugins")]
    Launch(#[from] LaunchError),
    /// The socket cannot be created.
    #[error("could not listen for plugins")]
    Listen(#[from] BindError),
    /// The inventory of this namespace's domain cannot be read.
    #[error("could not read the inventory of namespace {0}")]
    Domain(String),
    /// NRI was started before, or is being started.
    #[error("NRI was started already")]
    Twice,
    /// NRI was stopped.
    #[error("NRI was stopped")]
    Stopped,
}
