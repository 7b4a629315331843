//! The effective policy of a plugin.

use std::fmt::{self, Display, Formatter};

use super::Origins;
use super::Policy;

/// The effective policy of a plugin, and the source of each setting.
///
/// Displayed as one line for the log, with the source of each setting that is not the default:
/// `required=false, on_timeout=fail (declared), strikes=5 (operator, by name), …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The policy.
    pub policy: Policy,
    /// The source of each setting.
    pub origins: Origins,
}

/// The source of one setting of a [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The operator's table for the plugin's index and name.
    Id,
    /// The operator's table for the plugin's name.
    Name,
    /// The operator's defaults for all plugins.
    Defaults,
    /// The plugin's declaration.
    Declared,
    /// The operator requires the plugin, which overrides every setting of `on_timeout`.
    Required,
    /// The plugin validates, and the operator lists it as a validator or as required. So it stays
    /// connected, because no setting of `keep_connected` says otherwise.
    Validates,
    /// The built-in default.
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
