//! The flags of a program, and a command line of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

use lexopt::Arg;
use thiserror::Error;

use crate::connection::Connection;
use crate::runner::Options;

/// A flag of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) kind: FlagKind,
    /// The value of the flag if it is not on the command line.
    pub(super) default: Option<&'static str>,
    pub(super) help: &'static str,
}

/// How a flag is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagKind {
    /// With a value. The text is the placeholder for it in `--help`.
    Value(&'static str),
    /// Without a value.
    Switch,
    /// Without a value; the number of times counts.
    Count,
}

const INDEX: &str = "idx";
const NAME: &str = "name";
const SOCKET: &str = "socket";
const CONFIG: &str = "config";
const ONCE: &str = "once";
const VERBOSE: &str = "verbose";
const HELP: &str = "help";

/// The flags that every plugin has. The aliases are the names in upstream's plugins.
const COMMON: [Flag; 7] = [
    flag(
        INDEX,
        &["index"],
        FlagKind::Value("NN"),
        "index of the plugin, two digits; lower indexes are called first (default: from the program name, as in 10-name)",
    ),
    flag(NAME, &["plugin-name"], FlagKind::Value("NAME"), "name of the plugin (default: from the program name)"),
    flag(
        SOCKET,
        &["socket-path", "nri-socket"],
        FlagKind::Value("PATH"),
        "socket of the runtime (default: the connection of a runtime that launches it, or /var/run/nri/nri.sock)",
    ),
    flag(
        CONFIG,
        &[],
        FlagKind::Value("FILE"),
        "configuration file, used if the runtime has no configuration for the plugin (default: none)",
    ),
    flag(ONCE, &[], FlagKind::Switch, "exit when the runtime disconnects, instead of reconnecting"),
    flag(VERBOSE, &["v"], FlagKind::Count, "log more; give it twice to log everything"),
    flag(HELP, &["h"], FlagKind::Switch, "print this help"),
];

const fn flag(name: &'static str, aliases: &'static [&'static str], kind: FlagKind, help: &'static str) -> Flag {
    Flag { name, aliases, kind, default: None, help }
}

/// Errors from a command line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The program does not have this flag.
    #[error("unknown flag {0}; --help lists the flags")]
    Unknown(String),
    /// A flag is malformed, or its value is missing.
    #[error("could not parse the flags")]
    Malformed(#[from] lexopt::Error),
    /// The configuration file cannot be read.
    #[error("could not read the configuration {}", path.display())]
    Config {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The flags on a command line, and the defaults of the others.
#[derive(Clone, Debug, Default)]
pub struct ParsedFlags {
    values: BTreeMap<&'static str, String>,
    verbosity: u8,
}

impl ParsedFlags {
    /// Returns the value of a flag, if it was given or has a default.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns whether a flag was given, or has a default.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns how many times `--verbose` was given.
    pub fn verbosity(&self) -> u8 {
        self.verbosity
    }

    pub(super) fn is_help(&self) -> bool {
        self.is_set(HELP)
    }

    /// Converts the common flags into options. Reads the configuration file.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration file cannot be read.
    pub fn into_options(self) -> Result<Options, UsageError> {
        let config = self.values.get(CONFIG).map(PathBuf::from);
        let config =
            config.map(|path| std::fs::read_to_string(&path).map_err(|source| UsageError::Config { path, source }));
        let defaults = Options::default();
        Ok(Options {
            name: self.values.get(NAME).cloned(),
            index: self.values.get(INDEX).cloned(),
            connection: Connection::Found { path: self.values.get(SOCKET).map(PathBuf::from) },
            config: config.transpose()?,
            reconnect: defaults.reconnect.filter(|_| !self.is_set(ONCE)),
            ..defaults
        })
    }
}

/// Parses a command line of a program that has these flags of its own.
pub(super) fn parse(own: &[Flag], args: impl Iterator<Item = OsString>) -> Result<ParsedFlags, UsageError> {
    let mut parser = lexopt::Parser::from_args(args.map(normalize_dashes));
    let mut flags = ParsedFlags::default();
    while let Some(arg) = parser.next()? {
        let (name, shown) = match arg {
            Arg::Long(name) => (name.to_owned(), format!("--{name}")),
            Arg::Short(letter) => (letter.to_string(), format!("-{letter}")),
            Arg::Value(value) => return Err(UsageError::Unknown(value.to_string_lossy().into_owned())),
        };
        let is_it = |flag: &&Flag| flag.name == name || flag.aliases.contains(&&*name);
        let flag = own.iter().chain(&COMMON).find(is_it).ok_or(UsageError::Unknown(shown))?;
        match flag.kind {
            FlagKind::Value(_) => {
                let value = parser.value()?.into_string().map_err(lexopt::Error::NonUnicodeValue)?;
                flags.values.insert(flag.name, value);
            }
            FlagKind::Switch | FlagKind::Count => {
                // A one-letter flag can be followed by another one, as in `-vv`, but not by a
                // value.
                let value = if name.len() > 1 { parser.optional_value() } else { None };
                let is_on = value.is_none_or(|value| value != "false");
                if is_on && flag.kind == FlagKind::Count {
                    flags.verbosity = flags.verbosity.saturating_add(1);
                }
                if is_on {
                    flags.values.insert(flag.name, String::new());
                }
            }
        }
    }
    for flag in own {
        if let (Some(default), false) = (flag.default, flags.values.contains_key(flag.name)) {
            flags.values.insert(flag.name, default.to_owned());
        }
    }
    Ok(flags)
}

/// Turns one dash before a word into two, since Go accepts both. Only `-v` can be repeated, as in
/// `-vv`.
fn normalize_dashes(arg: OsString) -> OsString {
    match arg.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(word) if word.len() > 1 && !word.starts_with('-') && !word.bytes().all(|byte| byte == b'v') => {
            format!("--{word}").into()
        }
        _ => arg,
    }
}

/// Formats the flags for `--help`, one per line.
pub(super) fn help_table(own: &[Flag]) -> String {
    let mut table = String::new();
    for flag in own.iter().chain(&COMMON) {
        let left = match flag.kind {
            FlagKind::Value(value) => format!("--{} {value}", flag.name),
            FlagKind::Switch | FlagKind::Count => format!("--{}", flag.name),
        };
        // Writing to a string does not fail.
        let _ = match flag.default {
            Some(default) => writeln!(table, "  {left:<24} {} (default: {default})", flag.help),
            None => writeln!(table, "  {left:<24} {}", flag.help),
        };
    }
    table
}
