use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

use lexopt::Arg;
use thiserror::Error;

use crate::connection::Connection;
use crate::runner::Options;

/// A flag that a program has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) kind: FlagKind,
    /// Its value if it is not given.
    pub(super) default: Option<&'static str>,
    pub(super) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagKind {
    /// With a value of this kind.
    Value(&'static str),
    /// There or not.
    Switch,
    /// The more often, the more.
    Count,
}

const INDEX: &str = "idx";
const NAME: &str = "name";
const SOCKET: &str = "socket";
const CONFIG: &str = "config";
const ONCE: &str = "once";
const VERBOSE: &str = "verbose";
const HELP: &str = "help";

/// The flags that every plugin has, with the names that upstream's plugins have for them.
const COMMON: [Flag; 7] = [
    flag(
        INDEX,
        &["index"],
        FlagKind::Value("NN"),
        "index of the plugin, two digits: those with smaller ones are asked first (default: as the program is called, 10-name)",
    ),
    flag(NAME, &["plugin-name"], FlagKind::Value("NAME"), "name of the plugin (default: as the program is called)"),
    flag(
        SOCKET,
        &["socket-path", "nri-socket"],
        FlagKind::Value("PATH"),
        "socket of the runtime (default: that of whoever launches it, or /var/run/nri/nri.sock)",
    ),
    flag(CONFIG, &[], FlagKind::Value("FILE"), "configuration, if the runtime has none for the plugin (default: none)"),
    flag(ONCE, &[], FlagKind::Switch, "end when the runtime goes away, instead of waiting for it"),
    flag(VERBOSE, &["v"], FlagKind::Count, "say more in the log, and more still if given twice"),
    flag(HELP, &["h"], FlagKind::Switch, "print this"),
];

const fn flag(name: &'static str, aliases: &'static [&'static str], kind: FlagKind, help: &'static str) -> Flag {
    Flag { name, aliases, kind, default: None, help }
}

/// Why flags cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UsageError {
    /// There is no such flag.
    #[error("there is no flag {0}; --help lists those there are")]
    Unknown(String),
    /// It is not as it should be.
    #[error("could not read the flags")]
    Malformed(#[from] lexopt::Error),
    /// The file of the configuration cannot be read.
    #[error("could not read the configuration {}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The flags that were given.
#[derive(Clone, Debug, Default)]
pub struct ParsedFlags {
    values: BTreeMap<&'static str, String>,
    verbosity: u8,
}

impl ParsedFlags {
    /// The value of a flag, if it was given or has a default.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Says whether a switch was given.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// How often the log was asked to say more.
    pub fn verbosity(&self) -> u8 {
        self.verbosity
    }

    pub(super) fn is_help(&self) -> bool {
        self.is_set(HELP)
    }

    /// The options that the common flags stand for. This reads the file of the configuration.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
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
                // Behind one letter comes another flag, not a value.
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

/// Go's flags are whole words also behind one dash. Only `-v` may be doubled there, as in `-vv`.
fn normalize_dashes(arg: OsString) -> OsString {
    match arg.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(word) if word.len() > 1 && !word.starts_with('-') && !word.bytes().all(|byte| byte == b'v') => {
            format!("--{word}").into()
        }
        _ => arg,
    }
}

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
