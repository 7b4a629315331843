//! The problems that a set of plugins can have.

use std::fmt;

use super::{Target, Uri};

/// Why a required plugin is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The plugin is not registered.
    Unknown,
    /// The plugin is disabled.
    Disabled,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "is not registered",
            Self::Disabled => "is disabled",
        })
    }
}

/// One problem of a set of plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A plugin has no kind.
    #[error("the plugin with the id {id:?} has no kind")]
    NoKind {
        /// The id of the plugin.
        id: String,
    },

    /// A plugin has no id.
    #[error("a plugin of the kind {kind} has no id")]
    NoId {
        /// The kind of the plugin.
        kind: String,
    },

    /// Two plugins have the same name.
    #[error("{uri} is registered twice")]
    Duplicate {
        /// The name.
        uri: Uri,
    },

    /// The names of two plugins have the same written form, so no configuration can distinguish
    /// them.
    #[error("two plugins have the written name {uri}: their kinds are {} and {}", uri.kind, other.kind)]
    Ambiguous {
        /// The name of the first plugin.
        uri: Uri,
        /// The name of the second plugin.
        other: Uri,
    },

    /// A required plugin is absent.
    #[error("{plugin} requires {}, which {absence}", TargetPhrase(target))]
    Missing {
        /// The plugin that has the need.
        plugin: Uri,
        /// The target of the need.
        target: Target,
        /// Why the target is absent.
        absence: Absence,
    },

    /// A plugin needs all plugins of its own kind, including itself.
    #[error("{plugin} needs all plugins of its own kind")]
    NeedsOwnKind {
        /// The plugin.
        plugin: Uri,
    },

    /// A plugin needs itself.
    #[error("{plugin} needs itself")]
    NeedsItself {
        /// The plugin.
        plugin: Uri,
    },

    /// A plugin that is loaded after all others has another need.
    #[error("{plugin} comes after everything, so it can have no other need")]
    NeedsMoreThanEverything {
        /// The plugin.
        plugin: Uri,
    },

    /// A plugin provides another type than a need expects.
    #[error("{plugin} expects {provider} to provide {expected}, but it provides {provided}")]
    Mismatch {
        /// The plugin that has the need.
        plugin: Uri,
        /// The plugin that provides.
        provider: Uri,
        /// The expected type.
        expected: &'static str,
        /// The provided type.
        provided: &'static str,
    },

    /// The needs of plugins form a cycle.
    #[error("plugins need each other: {}", path(cycle))]
    Cycle {
        /// The path of the cycle: each plugin needs the next, and the last is the first again.
        cycle: Vec<Uri>,
    },
}

/// All problems of a set of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plugins have no valid order")?;
        let mut separator = ": ";
        for problem in &self.0 {
            write!(f, "{separator}{problem}")?;
            separator = "; ";
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Formats a target as part of a sentence.
struct TargetPhrase<'a>(&'a Target);

impl fmt::Display for TargetPhrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Target::Slot(uri) => uri.fmt(f),
            Target::Kind(kind) => write!(f, "a plugin of the kind {kind}"),
            Target::Everything => f.write_str("everything"),
        }
    }
}

fn path(cycle: &[Uri]) -> String {
    cycle.iter().map(Uri::to_string).collect::<Vec<_>>().join(" -> ")
}
