use std::error::Error;
use std::fmt;

use nri_proto::Field;

use crate::generator::SpecError;

/// Why a container has not got new limits. It has those that it had.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// It has ended, or is not known.
    #[error("the container has gone")]
    Gone,
    /// There are limits among them that nobody here can change.
    #[error("cannot update container {container}: {fields} cannot be changed here")]
    Unsupported {
        /// The container.
        container: String,
        /// Those limits.
        fields: FieldNames,
    },
    /// Its spec was not kept, and the limits that it was asked for with cannot be meant: nobody knows which ones it has.
    #[error("cannot update container {container}, whose limits are not known")]
    UnknownLimits {
        /// The container.
        container: String,
        /// What is wrong with those that were asked for.
        source: SpecError,
    },
    /// They cannot be meant, or the operator does not allow them.
    #[error("cannot update container {container}")]
    Spec {
        /// The container.
        container: String,
        /// What is wrong with them.
        source: SpecError,
    },
    /// The runtime could not set them.
    #[error("could not update container {container}")]
    Runtime {
        /// The container.
        container: String,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// FieldNames, to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames(pub Vec<Field>);

impl fmt::Display for FieldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}
