//! Where in a file something is written.

use std::fmt::{self, Display, Formatter, Write};

/// The way to a key from the root of a file. It is shown as TOML writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    /// The place of a key in the table that is here.
    pub(crate) fn of(&self, key: &str) -> Self {
        Self(self.0.iter().map(String::as_str).chain([key]).map(str::to_owned).collect())
    }

    /// The keys, from the root on.
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
