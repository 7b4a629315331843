//! The path of a key in a configuration file.

use std::fmt::{self, Display, Formatter, Write};

/// The keys that lead from the root of a file to a value. Displayed as a dotted key of TOML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    /// Returns the path of `key` in the table at this path.
    pub(crate) fn of(&self, key: &str) -> Self {
        Self(self.0.iter().map(String::as_str).chain([key]).map(str::to_owned).collect())
    }

    /// Returns the keys, beginning at the root.
    pub(crate) fn keys(&self) -> &[String] {
        &self.0
    }
}

impl Display for KeyPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, key) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_char('.')?;
            }
            if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
                f.write_str(key)?;
            } else {
                write!(f, "{key:?}")?;
            }
        }
        Ok(())
    }
}
