//! The keys by which an operator refers to plugins.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use nri_proto::PluginId;
use nri_proto::plugin_id::PluginIdError;
use nri_proto::quote::quoted;

/// A key for one plugin, by index and name, or for all plugins of a name.
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

/// Why a text is not a key for plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginKeyError {
    /// The text begins with an index that does not have two digits. As a name, the text would match
    /// no plugin, and the mistake would go unnoticed. A plugin whose name does begin like that can
    /// be given by index and name.
    #[error("the index of {} must be 2 digits", quoted(.0))]
    Index(String),
    /// The text is not a valid name of a plugin.
    #[error(transparent)]
    Name(#[from] PluginIdError),
}

impl PluginKey {
    /// Returns the key for all plugins that have the name of this plugin.
    pub(crate) fn of_name(id: &PluginId) -> Self {
        Self(KeyKind::Name(id.name().to_owned()))
    }

    /// Returns the key for all plugins of the same name, if this key is an index and name. The
    /// settings under that key apply to this plugin, too.
    pub(crate) fn name(&self) -> Option<Self> {
        match &self.0 {
            KeyKind::Id(id) => Some(Self::of_name(id)),
            KeyKind::Name(_) => None,
        }
    }

    /// Returns whether the key refers to a plugin.
    #[must_use]
    pub fn matches(&self, id: &PluginId) -> bool {
        match &self.0 {
            KeyKind::Id(key) => key == id,
            KeyKind::Name(name) => name == id.name(),
        }
    }

    /// Returns the text of the key.
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

    /// Parses a key. A text that begins like an index is parsed as index and name, even if it could
    /// be a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('-') {
            Some((index, _)) if index.bytes().all(|byte| byte.is_ascii_digit()) => match index.len() {
                2 => Ok(text.parse::<PluginId>()?.into()),
                _ => Err(PluginKeyError::Index(text.to_owned())),
            },
            // Only a whole id can be checked, so the name gets an arbitrary index.
            _ => Ok(Self::of_name(&PluginId::new("00", text)?)),
        }
    }
}

impl Display for PluginKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
