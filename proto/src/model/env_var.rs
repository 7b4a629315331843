//! Environment variables.

use super::{Keyed, Unknown};

/// An environment variable (`KeyValue` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvVar {
    /// The name of the variable (`key` on the wire).
    pub name: String,
    /// The value of the variable.
    pub value: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl EnvVar {
    /// Creates a variable.
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
