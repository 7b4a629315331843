use std::error::Error;
use std::fmt;

use nri_proto::Field;

use crate::generator::SpecError;

/// Error from setting new limits of a container. The container keeps its previous limits.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The container has ended, or the store does not have it.
    #[error("the container has gone")]
    Gone,
    /// The runtime cannot change some of the limits.
    #[error("cannot update container {container}: the runtime cannot change {fields}")]
    Unsupported {
        /// The id of the container.
        container: String,
        /// The limits that the runtime cannot change.
        fields: FieldNames,
    },
    /// The current limits of the container are unknown: its spec was not kept, and the limits that
    /// the kubelet requested are invalid.
    #[error("cannot update container {container}: its current limits are unknown")]
    UnknownLimits {
        /// The id of the container.
        container: String,
        /// The reason why the requested limits are invalid.
        source: SpecError,
    },
    /// The new limits are invalid, or the operator does not allow them.
    #[error("cannot update container {container}")]
    Spec {
        /// The id of the container.
        container: String,
        /// The reason why the new limits are refused.
        source: SpecError,
    },
    /// The runtime could not set the limits.
    #[error("could not update container {container}")]
    Runtime {
        /// The id of the container.
        container: String,
        /// The error of the runtime.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A list of fields, displayed as their names with commas in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames(pub Vec<Field>);

impl fmt::Display for FieldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}
