//! NRI's own configuration file, which NRI had up to version 0.2.

use std::collections::HashMap;

use nri_proto::quote::quoted;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use toml::{Table, Value};

use super::Config;
use super::ConfigError;
use super::upstream::Dialect;
use crate::config::settings::{Fault, KeyPath, Problem, Section};

const DISABLE_CONNECTIONS: &str = "disableConnections";
/// The name of that key in TOML.
const IN_TOML: &str = "disable_connections";

/// Why a text cannot be parsed, with the line if it is known.
type ParseFailure = (Option<usize>, String);

impl Config {
    /// Reads the file `/etc/nri/nri.conf`, which NRI had before runtimes kept the settings in their
    /// own files.
    ///
    /// The file is YAML and has one setting, `disableConnections`. All other settings are those of
    /// [`Config::default`]. To set more, such as policies of plugins, write the same file in TOML,
    /// with the keys of [`Config::from_toml`]. [`Config::load`] accepts both forms.
    ///
    /// ```
    /// use nri_adaptation::config::Config;
    ///
    /// assert_eq!(Config::from_nri_conf("disableConnections: true")?.socket, None);
    /// assert_eq!(Config::from_nri_conf("")?, Config::default());
    ///
    /// let policy = Config::from_nri_conf("plugins: {guard: {required: true}}").unwrap_err();
    /// assert_eq!(policy.to_string(), "line 1: plugins is known only in TOML: write the whole file in TOML, with disable_connections");
    /// assert!(Config::from_toml("disable_connections = true\nplugins.guard.required = true").is_ok());
    /// # Ok::<(), nri_adaptation::config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns all problems of the file, each with its line.
    pub fn from_nri_conf(text: &str) -> Result<Self, ConfigError> {
        let fault = |(line, message)| Problem { line, place: String::new(), fault: Fault::Yaml(message) };
        let (mut table, lines) = read(text).map_err(|unread| ConfigError::new(vec![fault(unread)]))?;
        let in_toml = |key| table.remove(key).map(|_| (KeyPath::default().of(key), Fault::InToml));
        let mut problems: Vec<_> = keys_in_toml().into_iter().filter_map(in_toml).collect();
        let mut section = Section::new(KeyPath::default(), table, &mut problems);
        let no_connections = section.take(DISABLE_CONNECTIONS).unwrap_or(false);
        section.finish(&[(IN_TOML, DISABLE_CONNECTIONS.to_owned())]);
        let line = |place: &KeyPath| place.keys().first().and_then(|key| lines.get(key).copied());
        let located = |(place, fault)| Problem { line: line(&place), ..Problem::new((place, fault)) };
        let default = Self::default();
        let socket = if no_connections { None } else { default.socket };
        Self { socket, ..default }.unless(problems.into_iter().map(located).collect())
    }
}

/// Returns the keys of the TOML form that the YAML form does not have, apart from the one that is
/// only spelled differently.
fn keys_in_toml() -> Vec<&'static str> {
    let mut problems = Vec::new();
    let mut nothing = Section::new(KeyPath::default(), Table::new(), &mut problems);
    Config::read(&mut nothing, Dialect::Containerd);
    nothing.known().iter().copied().filter(|key| *key != IN_TOML).collect()
}

/// Returns whether a text is such a file: YAML with at least one key.
pub(super) fn owns(text: &str) -> bool {
    read(text).is_ok_and(|(table, _)| !table.is_empty())
}

/// Parses the first document, which must be a mapping. Returns its keys and values, and the line of
/// each key. Nested values are read as empty: no setting of this file has any.
fn read(text: &str) -> Result<(Table, HashMap<String, usize>), ParseFailure> {
    let (mut table, mut lines) = (Table::new(), HashMap::new());
    let mut depth = 0_usize;
    let mut key: Option<String> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| (Some(error.marker().line()), error.info().to_owned()))?;
        let value = match event {
            Event::Scalar(text, style, ..) => match (depth, key.is_some()) {
                (0, _) if is_null(&text, style) => return Ok((table, lines)),
                (0, _) => return Err(no_table(&span)),
                (1, false) => {
                    let text = text.into_owned();
                    if lines.insert(text.clone(), span.start.line()).is_some() {
                        return Err((Some(span.start.line()), format!("{} is there twice", quoted(&text))));
                    }
                    key = Some(text);
                    continue;
                }
                (1, true) if is_null(&text, style) => {
                    key = None;
                    continue;
                }
                (1, true) => scalar(&text, style),
                _ => continue,
            },
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let is_list = matches!(event, Event::SequenceStart(..));
                if depth == 0 && is_list || depth == 1 && key.is_none() {
                    return Err(no_table(&span));
                }
                depth += 1;
                match (depth, is_list) {
                    (2, true) => Value::Array(Vec::new()),
                    (2, false) => Value::Table(Table::new()),
                    _ => continue,
                }
            }
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.saturating_sub(1);
                continue;
            }
            // No setting needs an alias, so anchors are not recorded.
            Event::Alias(_) => return Err((Some(span.start.line()), "there is nothing to refer to".to_owned())),
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
        };
        table.extend(key.take().map(|key| (key, value)));
    }
    Ok((table, lines))
}

fn no_table(span: &Span) -> ParseFailure {
    (Some(span.start.line()), "it must be keys and their values".to_owned())
}

/// Reads a value by the rules of the YAML library that NRI used then.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    let plain = matches!(style, ScalarStyle::Plain).then_some(text);
    match plain {
        Some("y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON") => Value::Boolean(true),
        Some("n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF") => {
            Value::Boolean(false)
        }
        _ => Value::String(text.to_owned()),
    }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
