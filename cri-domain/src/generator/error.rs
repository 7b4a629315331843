use std::error::Error;

use nri_proto::quote::quoted;
use nri_proto::{Field, FieldOwners, Owner};

/// What a function of a [`Host`](super::Host) fails with.
pub type HostError = Box<dyn Error + Send + Sync>;

/// Why an adjustment cannot be applied. The spec is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The spec is no JSON.
    #[error("could not read the spec")]
    Read(#[source] serde_json::Error),

    /// The spec is JSON, and something to be adjusted is not what OCI says it is.
    #[error("could not adjust the spec: {path} is not {wanted}")]
    Shape {
        /// Where it is, such as `linux.resources`.
        path: String,
        /// What it should be.
        wanted: &'static str,
    },

    /// A plugin asked for something that cannot be.
    #[error("cannot adjust {}: {problem}", FieldEntry(*field, key))]
    Refused {
        /// The field.
        field: Field,
        /// The entry of the field; empty if it has none.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// The host does not let it pass, or could not say.
    #[error("could not adjust {}", FieldEntry(*field, key))]
    Host {
        /// The field.
        field: Field,
        /// The entry of the field; empty if it has none.
        key: String,
        /// What the host said.
        source: HostError,
    },
}

impl SpecError {
    /// Returns the field and the entry that it is about, if it is about one.
    pub fn field(&self) -> Option<(Field, &str)> {
        match self {
            Self::Refused { field, key, .. } | Self::Host { field, key, .. } => Some((*field, key)),
            Self::Read(_) | Self::Shape { .. } => None,
        }
    }

    /// Returns who asked for what is refused.
    ///
    /// ```
    /// use cri_domain::generator::{Host, adjust};
    /// use nri_proto::{Adjustment, EnvVar, Field, FieldOwners, Owner, PluginId};
    ///
    /// let plugin: PluginId = "10-a".parse()?;
    /// let mut owners = FieldOwners::default();
    /// owners.compound.entry(Field::Env).or_default().entries.insert("A=B".to_owned(), Owner::of(&plugin));
    ///
    /// let mut adjustment = Adjustment::default();
    /// adjustment.env.set(EnvVar::new("A=B", "1"))?;
    /// let error = adjust(&mut serde_json::json!({}), &adjustment, &Host::default()).unwrap_err();
    /// assert!(error.owner(&owners).unwrap().plugins().eq(["10-a"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn owner<'a>(&self, owners: &'a FieldOwners) -> Option<&'a Owner> {
        let (field, key) = self.field()?;
        owners.owner(field, key)
    }

    pub(super) fn refused(field: Field, key: &str, problem: &'static str) -> Self {
        Self::Refused { field, key: key.to_owned(), problem }
    }

    pub(super) fn host(field: Field, key: &str, source: HostError) -> Self {
        Self::Host { field, key: key.to_owned(), source }
    }
}

/// A field with its entry, if it has entries.
struct FieldEntry<'a>(Field, &'a str);

impl std::fmt::Display for FieldEntry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self(field, "") => write!(f, "{field}"),
            Self(field, key) => write!(f, "{field} {}", quoted(key)),
        }
    }
}
