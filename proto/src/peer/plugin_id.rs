//! Plugin ids: the index and name of a plugin.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt::{self, Debug, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use crate::text::quote::{quoted, quoted_char};

/// The longest name of a plugin, in bytes.
///
/// An index and a name of this length are together the longest possible file name. A runtime finds
/// the plugins that it launches by their file names, so the limit refuses none of these. Upstream
/// has no limit; this one bounds the memory and log space that the name of a plugin can take.
pub const MAX_NAME_LEN: usize = 255 - INDEX_LEN - "-".len();

const INDEX_LEN: usize = 2;

/// A plugin by index and name, written `10-logger`.
///
/// Plugins are called in the order of their ids: by index, then by name. Cloning is cheap.
///
/// ```
/// use nri_proto::plugin_id::PluginId;
///
/// let id: PluginId = "10-logger".parse()?;
/// assert_eq!((id.index(), id.name()), ("10", "logger"));
/// assert_eq!(id, PluginId::new("10", "logger")?);
/// assert!(id < "20-a".parse()?);
/// # Ok::<(), nri_proto::plugin_id::PluginIdError>(())
/// ```
// An index always has two bytes, so the whole text sorts by index and then by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(Arc<str>);

/// The reason why text is not a valid [`PluginId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginIdError {
    /// The text has no dash after the index.
    #[error("invalid plugin name {}, idx-pluginname expected", quoted(.0))]
    NoIndex(String),
    /// The index does not have two characters.
    #[error("invalid plugin index {}, must be 2 digits", quoted(.0))]
    IndexLength(String),
    /// The index has a character that is not a digit.
    #[error("invalid plugin index {} (not [0-9][0-9])", quoted(.0))]
    IndexDigits(String),
    /// The name is empty.
    #[error("invalid plugin name: name is empty")]
    NameEmpty,
    /// The name has a character other than letters, digits, `-`, `_`, `.` and `+`.
    #[error("invalid plugin name {}: contains invalid character {}", quoted(name), quoted_char(*character))]
    NameCharacter {
        /// The whole name.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// The name is longer than [`MAX_NAME_LEN`].
    #[error("invalid plugin name: {0} bytes, maximum is {MAX_NAME_LEN}")]
    NameLength(usize),
}

impl PluginId {
    /// Creates an id from the index and name that a plugin sends when it registers.
    ///
    /// The name is checked before the index. If both are invalid, the error is about the name, as
    /// upstream's is.
    pub fn new(index: &str, name: &str) -> Result<Self, PluginIdError> {
        check_name(name)?;
        check_index(index)?;
        Ok(Self(format!("{index}-{name}").into()))
    }

    /// Returns the two digits of the index.
    pub fn index(&self) -> &str {
        &self.0[..INDEX_LEN]
    }

    /// Returns the name, without the index.
    pub fn name(&self) -> &str {
        &self.0[INDEX_LEN + 1..]
    }

    /// Returns index and name, separated by a dash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PluginId {
    type Err = PluginIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (index, name) = text.split_once('-').ok_or_else(|| PluginIdError::NoIndex(excerpt(text)))?;
        check_index(index)?;
        check_name(name)?;
        Ok(Self(text.into()))
    }
}

fn check_index(index: &str) -> Result<(), PluginIdError> {
    if index.len() != INDEX_LEN {
        Err(PluginIdError::IndexLength(excerpt(index)))
    } else if !index.bytes().all(|byte| byte.is_ascii_digit()) {
        Err(PluginIdError::IndexDigits(index.to_owned()))
    } else {
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), PluginIdError> {
    // The length is checked first, because the error about a character contains the name.
    if name.len() > MAX_NAME_LEN {
        return Err(PluginIdError::NameLength(name.len()));
    }
    if name.is_empty() {
        return Err(PluginIdError::NameEmpty);
    }
    match name.chars().find(|c| !is_allowed(*c)) {
        Some(character) => Err(PluginIdError::NameCharacter { name: name.to_owned(), character }),
        None => Ok(()),
    }
}

/// Returns the beginning of a text, for an error. A peer can send megabytes of text.
fn excerpt(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_NAME_LEN)].to_owned()
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+')
}

impl Display for PluginId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<PluginId> for Arc<str> {
    fn from(id: PluginId) -> Self {
        id.0
    }
}

impl Debug for PluginId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PluginId({self})")
    }
}

impl AsRef<str> for PluginId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for PluginId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}
