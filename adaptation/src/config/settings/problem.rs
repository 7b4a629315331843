//! What is wrong in a file.

use std::fmt::{self, Display, Formatter};

use crate::config::policy::{Obstacle, PluginKeyError};

/// One thing that is wrong in a configuration. It reads as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, if what was read was text.
    pub line: Option<usize>,
    /// The key, with the tables it lies in: `plugins.10-logger.strikes`. Empty for the file as a
    /// whole.
    pub place: String,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a key of a configuration, or with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not TOML.
    Syntax(String),
    /// The text is not the YAML that it should be.
    Yaml(String),
    /// Nobody reads this key.
    Unknown {
        /// The known key that is most like it, if one is.
        nearest: Option<String>,
    },
    /// The value is of the wrong kind, or out of range.
    Value {
        /// What the file says.
        found: String,
        /// What it may say.
        expected: String,
    },
    /// The key is a known one in a table where nobody reads it.
    Misplaced {
        /// Where it belongs.
        home: String,
    },
    /// Another key says something else about the same thing.
    Contradicts {
        /// The other key.
        other: String,
    },
    /// It takes back what another key demands of the same plugin.
    Undoes {
        /// The other key.
        demand: String,
        /// Why that takes it back.
        reason: Obstacle,
    },
    /// It names a user who may not connect at all.
    CannotConnect {
        /// The user.
        uid: u32,
        /// The key that says who may.
        allowed: String,
    },
    /// The key is a known one in a file that is not YAML.
    InToml,
    /// The name of a table should be that of a plugin, and cannot be.
    NoPlugin(PluginKeyError),
    /// Plugins that have no name cannot be required, as validators or at all: nobody could tell
    /// that one is absent.
    Nameless,
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        let place = &self.place;
        match &self.fault {
            Fault::Syntax(message) => write!(f, "this is not TOML: {message}"),
            Fault::Yaml(message) => write!(f, "this cannot be read as YAML: {message}"),
            Fault::Unknown { nearest: Some(nearest) } => write!(f, "unknown key {place}, did you mean {nearest}?"),
            Fault::Unknown { nearest: None } => write!(f, "unknown key {place}"),
            Fault::Value { found, expected } => write!(f, "{place} is {found}, but must be {expected}"),
            Fault::Misplaced { home } => write!(f, "nobody reads {place}, it belongs in [{home}]"),
            Fault::Contradicts { other } => write!(f, "{place} says something else than {other}"),
            Fault::InToml => {
                write!(f, "{place} can be said in TOML only: write the whole file so, with disable_connections")
            }
            Fault::Undoes { demand, reason } => reason.tell(f, place, demand),
            Fault::CannotConnect { uid, allowed } => {
                write!(f, "{place} names user {uid}, who may not connect: add {uid} to {allowed}")
            }
            Fault::NoPlugin(error) => write!(f, "{place} is about no plugin: {error}"),
            Fault::Nameless => write!(f, "{place} names nobody: require plugins in tables of their own"),
        }
    }
}
