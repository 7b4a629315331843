//! By what an operator calls plugins.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use nri_proto::PluginId;
use nri_proto::plugin_id::PluginIdError;
use nri_proto::quote::quoted;

/// A plugin by its index and name, or all plugins of a name.
///
/// ```
/// use nri_adaptation::policy::PluginKey;
///
/// let key: PluginKey = "logger".parse()?;
/// assert!(key.matches(&"10-logger".parse()?));
/// assert!(key.matches(&"20-logger".parse()?));
///
/// let key: PluginKey = "10-logger".parse()?;
/// assert!(!key.matches(&"20-logger".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginKey(KeyKind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum KeyKind {
    Id(PluginId),
    Name(String),
}

/// Why something does not stand for a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginKeyError {
    /// It begins as an index would, but for the number of digits. As a name it would match nobody,
    /// and nobody would notice. A plugin that is really called so can be told by its index and
    /// name.
    #[error("the index of {} must be 2 digits", quoted(.0))]
    Index(String),
    /// No plugin can be called so.
    #[error(transparent)]
    Name(#[from] PluginIdError),
}

impl PluginKey {
    /// All plugins that have the name of this one.
    pub(crate) fn of_name(id: &PluginId) -> Self {
        Self(KeyKind::Name(id.name().to_owned()))
    }

    /// All plugins of the same name, for one that is given by index and name: what is said about
    /// them holds for it, too.
    pub(crate) fn name(&self) -> Option<Self> {
        match &self.0 {
            KeyKind::Id(id) => Some(Self::of_name(id)),
            KeyKind::Name(_) => None,
        }
    }

    /// Says whether a plugin is meant.
    #[must_use]
    pub fn matches(&self, id: &PluginId) -> bool {
        match &self.0 {
            KeyKind::Id(key) => key == id,
            KeyKind::Name(name) => name == id.name(),
        }
    }

    /// The text that it was made from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            KeyKind::Id(id) => id.as_str(),
            KeyKind::Name(name) => name,
        }
    }
}

impl From<PluginId> for PluginKey {
    fn from(id: PluginId) -> Self {
        Self(KeyKind::Id(id))
    }
}

impl FromStr for PluginKey {
    type Err = PluginKeyError;

    /// What begins as an index is one, also if it could be a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('-') {
            Some((index, _)) if index.bytes().all(|byte| byte.is_ascii_digit()) => match index.len() {
                2 => Ok(text.parse::<PluginId>()?.into()),
                _ => Err(PluginKeyError::Index(text.to_owned())),
            },
            // Names alone have no type; any index will do to check one.
            _ => Ok(Self::of_name(&PluginId::new("00", text)?)),
        }
    }
}

impl Display for PluginKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
