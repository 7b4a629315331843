//! NRI's own configuration file, which NRI had up to version 0.2.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value as Json;
use serde_saphyr::{Options, Spanned, budget, options, with_deserializer_from_str_with_options};
use toml::{Table, Value};

use super::Config;
use super::ConfigError;
use super::upstream::Dialect;
use crate::config::settings::{Fault, KeyPath, Problem, Section};

const DISABLE_CONNECTIONS: &str = "disableConnections";
/// The name of that key in TOML.
const IN_TOML: &str = "disable_connections";

/// The keys of the file and their values, each with its line.
type Settings = BTreeMap<String, Spanned<Json>>;

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
        let settings = read(text).map_err(|error| {
            let fault = Fault::Yaml(error.to_string());
            ConfigError::new(vec![Problem { line: None, place: String::new(), fault }])
        })?;
        let lines: BTreeMap<_, _> = settings.iter().map(|(key, value)| (key.clone(), line_of(value))).collect();
        let values = settings.into_iter().filter_map(|(key, value)| Some((key, in_toml(value.value)?)));
        let mut table: Table = values.collect();
        let is_misplaced = |key| table.remove(key).map(|_| (KeyPath::default().of(key), Fault::InToml));
        let mut problems: Vec<_> = keys_in_toml().into_iter().filter_map(is_misplaced).collect();
        let mut section = Section::new(KeyPath::default(), table, &mut problems);
        let no_connections = section.take(DISABLE_CONNECTIONS).unwrap_or(false);
        section.finish(&[(IN_TOML, DISABLE_CONNECTIONS.to_owned())]);
        let line = |place: &KeyPath| place.keys().first().and_then(|key| lines.get(key).copied()).flatten();
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
    read(text).is_ok_and(|settings| !settings.is_empty())
}

/// Parses the first document, which must be a mapping. No setting needs an alias.
fn read(text: &str) -> Result<Settings, serde_saphyr::Error> {
    let options: Options = options! {
        budget: budget! { max_aliases: 0, max_depth: 64 },
        with_snippet: false,
    };
    let mut settings = None;
    let end = with_deserializer_from_str_with_options(text, options, |document| {
        settings = Some(Option::<Settings>::deserialize(document)?);
        Ok(())
    });
    settings.map_or_else(|| end.map(|()| Settings::new()), |settings| Ok(settings.unwrap_or_default()))
}

fn line_of(value: &Spanned<Json>) -> Option<usize> {
    usize::try_from(value.referenced.line()).ok()
}

/// Converts a value, or returns `None` for null. Nested values become empty: no setting of this
/// file has any.
fn in_toml(value: Json) -> Option<Value> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(flag) => Value::Boolean(flag),
        Json::Number(number) => Value::String(number.to_string()),
        Json::String(text) => Value::String(text),
        Json::Array(_) => Value::Array(Vec::new()),
        Json::Object(_) => Value::Table(Table::new()),
    })
}
