use std::error::Error;

use nri_proto::quote::quoted;
use nri_proto::{Field, FieldOwners, Owner};

/// The error of a function of a [`Host`](super::Host).
pub type HostError = Box<dyn Error + Send + Sync>;

/// Error from applying an adjustment or update to a spec. The spec is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The spec is not valid JSON.
    #[error("could not read the spec")]
    Read(#[source] serde_json::Error),

    /// A member of the spec does not have the type that OCI defines.
    #[error("could not adjust the spec: {path} is not {wanted}")]
    Shape {
        /// The path of the member, such as `linux.resources`.
        path: String,
        /// The expected type.
        wanted: &'static str,
    },

    /// A requested value is invalid.
    #[error("cannot adjust {}: {problem}", FieldEntry(*field, key))]
    Refused {
        /// The field of the value.
        field: Field,
        /// The key of the entry, such as the name of an environment variable; empty if the field
        /// has no entries.
        key: String,
        /// The reason why the value is invalid.
        problem: &'static str,
    },

    /// A function of the host refused the value, or failed.
    #[error("could not adjust {}", FieldEntry(*field, key))]
    Host {
        /// The field of the value.
        field: Field,
        /// The key of the entry, such as the name of an environment variable; empty if the field
        /// has no entries.
        key: String,
        /// The error of the host.
        source: HostError,
    },
}

impl SpecError {
    /// Returns the field and the entry of the value, if the error is about a field.
    pub fn field(&self) -> Option<(Field, &str)> {
        match self {
            Self::Refused { field, key, .. } | Self::Host { field, key, .. } => Some((*field, key)),
            Self::Read(_) | Self::Shape { .. } => None,
        }
    }

    /// Returns the plugins that requested the value.
    ///
    /// ```
    /// use cri_domain::generator::{Host, adjust};
    /// use nri_proto::{Adjustment, EnvVar, Field, FieldOwners, Owner, PluginId};
    ///
    /// let plugin: PluginId = "10-a".parse()?;
    /// let mut owners = FieldOwners::default();
    /// let env = owners.compound.entry(Field::Env).or_default();
    /// env.entries.insert("A=B".to_owned(), Owner::of(&plugin));
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

/// Displays a field and its entry, if it has one.
struct FieldEntry<'a>(Field, &'a str);

impl std::fmt::Display for FieldEntry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self(field, "") => write!(f, "{field}"),
            Self(field, key) => write!(f, "{field} {}", quoted(key)),
        }
    }
}
