//! The outcome.

use std::fmt::{self, Display, Formatter};

use super::Origins;
use super::Policy;

/// The policy of a plugin, and who decided what of it.
///
/// It prints as one line for the log, with the origin of what is not the default:
/// `required=false, on_timeout=fail (declared), strikes=5 (operator, by name), …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// What holds.
    pub policy: Policy,
    /// Why.
    pub origins: Origins,
}

/// Who decided about one axis of a [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The operator, about this index and name.
    Id,
    /// The operator, about this name.
    Name,
    /// The operator, about all plugins.
    Defaults,
    /// The plugin.
    Declared,
    /// The operator, who requires the plugin. It overrules all that is said about `on_timeout`.
    Required,
    /// The operator, without whose word about `keep_connected` a validator is kept that the
    /// operator names or requires.
    Validates,
    /// Nobody: it is the default.
    BuiltIn,
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "operator, by index and name",
            Self::Name => "operator, by name",
            Self::Defaults => "operator, for all",
            Self::Declared => "declared",
            Self::Required => "required",
            Self::Validates => "as its verdict is needed",
            Self::BuiltIn => "default",
        })
    }
}
