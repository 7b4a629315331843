//! Mounts.

use super::{Keyed, Unknown};

/// A mount in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The path in the container.
    pub destination: String,
    /// The kind of file system, such as `bind` or `tmpfs`.
    pub kind: String,
    /// The source, such as a path of the host or a device.
    pub source: String,
    /// The options, as in mount(8).
    pub options: Vec<String>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Mount {
    /// Creates a bind mount of a path of the host. `options` are those besides `bind`, such as
    /// `ro`.
    pub fn bind(
        source: impl Into<String>,
        destination: impl Into<String>,
        options: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut all = vec!["bind".to_owned()];
        all.extend(options.into_iter().map(Into::into));
        Self {
            destination: destination.into(),
            kind: "bind".to_owned(),
            source: source.into(),
            options: all,
            unknown: Unknown::default(),
        }
    }
}

impl Keyed for Mount {
    fn key(&self) -> &str {
        &self.destination
    }

    fn set_key(&mut self, key: String) {
        self.destination = key;
    }
}
