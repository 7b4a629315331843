//! The problems of a configuration file.

use std::fmt::{self, Display, Formatter};

use crate::config::policy::{Obstacle, PluginKeyError};

/// A problem of a configuration. Displayed as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line of the problem, if the configuration was read from text.
    pub line: Option<usize>,
    /// The key, with the tables that contain it: `plugins.10-logger.strikes`. Empty if the problem
    /// concerns the whole file.
    pub place: String,
    /// The kind of the problem.
    pub fault: Fault,
}

/// The kind of a problem: what is wrong with a key or with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not valid TOML.
    Syntax(String),
    /// The text is not YAML of the expected form.
    Yaml(String),
    /// The key is unknown.
    Unknown {
        /// The most similar known key, if any is similar enough.
        nearest: Option<String>,
    },
    /// The value has the wrong type or is out of range.
    Value {
        /// The value in the file.
        found: String,
        /// A description of the valid values.
        expected: String,
    },
    /// The key is known, but has no effect in this table.
    Misplaced {
        /// The table in which the key belongs.
        home: String,
    },
    /// Another key sets the same thing to another value.
    Contradicts {
        /// The other key.
        other: String,
    },
    /// The setting cancels what another key demands of the same plugin.
    Undoes {
        /// The key whose demand is cancelled.
        demand: String,
        /// Why the setting cancels that demand.
        reason: Obstacle,
    },
    /// A policy names a user who may not connect at all.
    CannotConnect {
        /// The user.
        uid: u32,
        /// The key that lists the users who may connect.
        allowed: String,
    },
    /// The file is YAML, and the key is known only in the TOML form of the same file.
    InToml,
    /// The name of the table is not a valid name of a plugin.
    NoPlugin(PluginKeyError),
    /// The defaults for all plugins set `required` or `validator`. These settings need a plugin
    /// with a name: otherwise nobody could tell that the plugin is absent.
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
            Fault::Misplaced { home } => write!(f, "{place} has no effect here, it belongs in [{home}]"),
            Fault::Contradicts { other } => write!(f, "{place} contradicts {other}"),
            Fault::InToml => {
                write!(f, "{place} is known only in TOML: write the whole file in TOML, with disable_connections")
            }
            Fault::Undoes { demand, reason } => reason.tell(f, place, demand),
            Fault::CannotConnect { uid, allowed } => {
                write!(f, "{place} names user {uid}, who may not connect: add {uid} to {allowed}")
            }
            Fault::NoPlugin(error) => write!(f, "{place} is not the name of a plugin: {error}"),
            Fault::Nameless => write!(f, "{place} needs a plugin name: set it in the table of a plugin"),
        }
    }
}
