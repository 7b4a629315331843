use nri_api::ObjectKind;

use crate::domain::LimitError;
use crate::generator::SpecError;

/// Error from adjusting a container that is being created. Its spec is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum AdjustError {
    /// The store does not have the pod.
    #[error("cannot create a container in unknown pod {id}")]
    UnknownPod {
        /// The id of the pod.
        id: String,
    },
    /// The state of the pod is not `Ready`.
    #[error("cannot create a container in pod {id}: the pod is not ready")]
    PodNotReady {
        /// The id of the pod.
        id: String,
    },
    /// The record of the container has no spec to adjust.
    #[error("cannot create container {id} without a spec")]
    NoSpec {
        /// The id of the container.
        id: String,
    },
    /// A plugin refuses the container, or plugins could not be asked.
    #[error("plugins did not accept the new container")]
    Nri(#[from] nri_api::Error),
    /// The adjustment cannot be applied to the spec.
    #[error("cannot apply the changes that {plugins} requested")]
    Spec {
        /// The plugins that requested the change, or "plugins" if they are unknown.
        plugins: String,
        /// The reason why the adjustment is refused.
        source: SpecError,
    },
}

/// Error from asking plugins about an operation.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The store does not have the pod or container. No plugin was asked.
    #[error("unknown {kind} {id}")]
    Unknown {
        /// Whether this is a pod or a container.
        kind: ObjectKind,
        /// The id of the pod or container.
        id: String,
    },
    /// A plugin refuses the operation, or plugins could not be asked.
    #[error("plugins did not accept the operation")]
    Nri(#[from] nri_api::Error),
}

impl AskError {
    pub(super) fn unknown(kind: ObjectKind, id: &str) -> Self {
        Self::Unknown { kind, id: id.to_owned() }
    }
}

/// Error from updating the limits of a container.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The store does not have the container.
    #[error("cannot update unknown container {id}")]
    Unknown {
        /// The id of the container.
        id: String,
    },
    /// Another update of the container took until the deadline of this one.
    #[error("cannot update container {id}: another update is still running")]
    BeingUpdated {
        /// The id of the container.
        id: String,
    },
    /// A plugin refuses the update, or plugins could not be asked.
    #[error("plugins did not accept the update")]
    Nri(#[from] nri_api::Error),
    /// The limits could not be set.
    #[error("could not set the limits")]
    Limit(#[from] LimitError),
}
