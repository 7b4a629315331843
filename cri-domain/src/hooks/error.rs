use nri_api::ObjectKind;

use crate::domain::LimitError;
use crate::generator::SpecError;

/// Why a container cannot be created. Its spec is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AdjustError {
    /// The server does not know the pod.
    #[error("cannot create a container in pod {id}, which is not known")]
    UnknownPod {
        /// The pod.
        id: String,
    },
    /// The pod was stopped, or the server does not know whether it was.
    #[error("cannot create a container in pod {id}, which is not ready")]
    PodNotReady {
        /// The pod.
        id: String,
    },
    /// The record has no spec that could be adjusted.
    #[error("cannot create container {id} without a spec")]
    NoSpec {
        /// The container.
        id: String,
    },
    /// A plugin does not let it, or plugins could not be asked.
    #[error("plugins do not let the container be created")]
    Nri(#[from] nri_api::Error),
    /// What they want cannot be applied to the spec.
    #[error("cannot apply what {plugins} asked for")]
    Spec {
        /// Who asked for it, as far as that is known.
        plugins: String,
        /// What is wrong with it.
        source: SpecError,
    },
}

/// Why plugins were not asked, or do not let something be.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The server does not know it: nobody is asked.
    #[error("{kind} {id} is not known")]
    Unknown {
        /// What it is.
        kind: ObjectKind,
        /// Its id.
        id: String,
    },
    /// A plugin does not let it, or plugins could not be asked.
    #[error("plugins do not let it be")]
    Nri(#[from] nri_api::Error),
}

impl AskError {
    pub(super) fn unknown(kind: ObjectKind, id: &str) -> Self {
        Self::Unknown { kind, id: id.to_owned() }
    }
}

/// Why a container has not got new limits.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The server does not know it.
    #[error("cannot update container {id}, which is not known")]
    Unknown {
        /// The container.
        id: String,
    },
    /// Another update of it took until the deadline of this one.
    #[error("cannot update container {id}, which is still being updated")]
    BeingUpdated {
        /// The container.
        id: String,
    },
    /// A plugin does not let it, or plugins could not be asked.
    #[error("plugins do not let the container be updated")]
    Nri(#[from] nri_api::Error),
    /// They could not be set.
    #[error("could not set the limits")]
    Limit(#[from] LimitError),
}
