//! What can be wrong with a set of plugins.

use std::fmt;

use super::{Target, Uri};

/// Why something that is required is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Nobody registered it.
    Unknown,
    /// It is switched off.
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

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A plugin has no kind.
    #[error("the plugin with the id {id:?} has no kind")]
    NoKind {
        /// Its id.
        id: String,
    },

    /// A plugin has no id.
    #[error("a plugin of the kind {kind} has no id")]
    NoId {
        /// Its kind.
        kind: String,
    },

    /// Two plugins have one name.
    #[error("{uri} is registered twice")]
    Duplicate {
        /// The name.
        uri: Uri,
    },

    /// Two plugins have names that are written alike, so no configuration could tell them apart.
    #[error("two plugins are written {uri}: their kinds are {} and {}", uri.kind, other.kind)]
    Ambiguous {
        /// The name of one.
        uri: Uri,
        /// The name of the other.
        other: Uri,
    },

    /// Something that is required is not there.
    #[error("{plugin} requires {}, which {absence}", TargetPhrase(target))]
    Missing {
        /// Who requires it.
        plugin: Uri,
        /// What is required.
        target: Target,
        /// Why it is not there.
        absence: Absence,
    },

    /// A plugin needs its own kind, itself included.
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

    /// A plugin comes after everything, and after something besides.
    #[error("{plugin} comes after everything, and so can need nothing else")]
    NeedsMoreThanEverything {
        /// The plugin.
        plugin: Uri,
    },

    /// What is provided is not what is asked for.
    #[error("{plugin} expects {provider} to provide {expected}, but it provides {provided}")]
    Mismatch {
        /// Who asks.
        plugin: Uri,
        /// Who provides.
        provider: Uri,
        /// What is asked for.
        expected: &'static str,
        /// What is provided.
        provided: &'static str,
    },

    /// Plugins need each other.
    #[error("plugins need each other: {}", path(cycle))]
    Cycle {
        /// Each needs the next one; the last is the first again.
        cycle: Vec<Uri>,
    },
}

/// Everything that is wrong with a set of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plugins do not fit together")?;
        let mut before = ": ";
        for problem in &self.0 {
            write!(f, "{before}{problem}")?;
            before = "; ";
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A target in a sentence.
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
