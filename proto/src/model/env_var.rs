use super::{Keyed, Unknown};

/// An environment variable (`KeyValue` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name (`key` on the wire).
    pub name: String,
    /// Its value.
    pub value: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl EnvVar {
    /// Makes a variable.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), unknown: Unknown::default() }
    }
}

impl Keyed for EnvVar {
    fn key(&self) -> &str {
        &self.name
    }

    fn set_key(&mut self, key: String) {
        self.name = key;
    }
}
