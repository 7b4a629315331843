use super::{Keyed, Unknown};

/// Something mounted in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Where it is in the container.
    pub destination: String,
    /// The kind of file system, such as `bind` or `tmpfs`.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// The options, as mount(8) has them.
    pub options: Vec<String>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Keyed for Mount {
    fn key(&self) -> &str {
        &self.destination
    }

    fn set_key(&mut self, key: String) {
        self.destination = key;
    }
}
