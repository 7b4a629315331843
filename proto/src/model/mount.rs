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

impl Mount {
    /// Makes a part of the node visible in the container. `options` are those beside `bind`, such as `ro`.
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
