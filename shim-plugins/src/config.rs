//! The configuration of the plugins of a shim.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::graph::Uri;

/// The configuration of a shim's plugins: a table for each plugin, and a list of disabled plugins.
///
/// ```
/// # use shim_plugins::Configuration;
/// let text = r#"
///     disabled_plugins = ["io.containerd.internal.v1.tracing"]
///
///     [plugins."io.containerd.ttrpc.v1.hello"]
///     greeting = "good morning"
/// "#;
/// let configuration: Configuration = text.parse()?;
/// # Ok::<_, toml::de::Error>(())
/// ```
///
/// Containerd's own configuration uses the same keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    #[serde(default)]
    disabled_plugins: BTreeSet<String>,
    /// The setting of each plugin: a table, unless its author was wrong.
    #[serde(default)]
    plugins: BTreeMap<String, toml::Value>,
    /// The place of each setting of each plugin, as far as it is known. `start` sends it to the
    /// server; it is no part of a text.
    #[serde(rename = "#places", default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, BTreeMap<String, String>>,
}

/// The settings of one plugin.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginSettings {
    /// The table of the plugin, if the configuration has one.
    pub(crate) table: Option<toml::Value>,
    places: BTreeMap<String, String>,
}

impl std::str::FromStr for Configuration {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Self, toml::de::Error> {
        Self::parse(text, None)
    }
}

impl Configuration {
    /// Parses a text, which is that of a file if `file` is its path.
    pub(crate) fn parse(text: &str, file: Option<&Path>) -> Result<Self, toml::de::Error> {
        let mut configuration: Self = toml::from_str(text)?;
        configuration.places = places(text, file);
        Ok(configuration)
    }

    /// Sets the table of one plugin. Replaces an earlier table.
    #[must_use]
    pub fn with(mut self, plugin: &Uri, table: toml::Table) -> Self {
        self.plugins.insert(plugin.to_string(), toml::Value::Table(table));
        self.places.remove(&plugin.to_string());
        self
    }

    /// Disables a plugin.
    #[must_use]
    pub fn without(mut self, plugin: &Uri) -> Self {
        self.disabled_plugins.insert(plugin.to_string());
        self
    }

    /// Merges another configuration into this one. Where both have a key, the other one wins.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        let Self { disabled_plugins, plugins, places } = other;
        self.disabled_plugins.extend(disabled_plugins);
        for (uri, more) in plugins {
            let known = self.places.entry(uri.clone()).or_default();
            match (self.plugins.get_mut(&uri), more) {
                (Some(toml::Value::Table(table)), toml::Value::Table(more)) => {
                    known.retain(|key, _| !more.contains_key(key));
                    table.extend(more);
                }
                (_, more) => {
                    known.clear();
                    self.plugins.insert(uri, more);
                }
            }
        }
        for (uri, more) in places {
            self.places.entry(uri).or_default().extend(more);
        }
        self
    }

    /// Returns whether a plugin is disabled.
    pub fn is_disabled(&self, plugin: &Uri) -> bool {
        self.disabled_plugins.contains(&plugin.to_string())
    }

    /// Returns the settings of a plugin.
    pub(crate) fn settings(&self, plugin: &Uri) -> PluginSettings {
        let uri = plugin.to_string();
        PluginSettings {
            table: self.plugins.get(&uri).cloned(),
            places: self.places.get(&uri).cloned().unwrap_or_default(),
        }
    }

    /// Returns the names in this configuration that no plugin has.
    pub(crate) fn unknown<'a>(&'a self, plugins: impl Iterator<Item = &'a Uri>) -> Vec<&'a str> {
        let known: BTreeSet<_> = plugins.map(Uri::to_string).collect();
        let named = self.disabled_plugins.iter().chain(self.plugins.keys());
        named.filter(|name| !known.contains(*name)).map(String::as_str).collect()
    }
}

/// The decoded configuration of a plugin, and the keys that the plugin does not know.
pub(crate) struct DecodedConfig<C> {
    pub(crate) config: C,
    pub(crate) unknown_keys: Vec<String>,
}

/// Decodes the configuration of a plugin.
pub(crate) fn decode<C: DeserializeOwned + Default>(
    table: Option<toml::Value>,
) -> Result<DecodedConfig<C>, toml::de::Error> {
    let mut unknown_keys = Vec::new();
    let config = match table {
        Some(table) => serde_ignored::deserialize(table, |key| unknown_keys.push(key.to_string()))?,
        None => C::default(),
    };
    Ok(DecodedConfig { config, unknown_keys })
}

/// Decodes the configuration of a plugin that takes none: all keys are unknown.
pub(crate) fn none(table: Option<toml::Value>) -> Result<DecodedConfig<()>, toml::de::Error> {
    let table: toml::Table = table.map_or_else(|| Ok(toml::Table::new()), toml::Value::try_into)?;
    Ok(DecodedConfig { config: (), unknown_keys: table.into_iter().map(|(key, _)| key).collect() })
}

impl PluginSettings {
    /// Returns the place of the setting that made `decode` fail with an error, if it is known.
    pub(crate) fn place_of<C>(
        &self,
        error: &toml::de::Error,
        decode: impl Fn(Option<toml::Value>) -> Result<DecodedConfig<C>, toml::de::Error>,
    ) -> Option<&str> {
        let Some(toml::Value::Table(table)) = &self.table else {
            return self.places.get(WHOLE).map(String::as_str);
        };
        let is_wrong = |key: &String, value: &toml::Value| {
            let alone = toml::Table::from_iter([(key.clone(), value.clone())]);
            decode(Some(toml::Value::Table(alone))).is_err_and(|alone| alone.to_string() == error.to_string())
        };
        let (key, _) = table.iter().find(|(key, value)| is_wrong(key, value))?;
        self.places.get(key).map(String::as_str)
    }
}

/// The key of the place of a plugin's whole table. No setting has an empty name.
const WHOLE: &str = "";

/// Returns the place of each setting of each plugin. A text that cannot be read has none.
fn places(text: &str, file: Option<&Path>) -> BTreeMap<String, BTreeMap<String, String>> {
    let place = |offset: usize| {
        let line = text[..offset].matches('\n').count() + 1;
        file.map_or_else(|| format!("line {line}"), |file| format!("{}, line {line}", file.display()))
    };
    let parsed = DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default();
    let mut places = BTreeMap::new();
    let Some(DeValue::Table(plugins)) = parsed.get("plugins").map(toml::Spanned::get_ref) else { return places };
    for (uri, table) in plugins {
        let of_plugin: &mut BTreeMap<_, _> = places.entry(uri.get_ref().to_string()).or_default();
        of_plugin.insert(WHOLE.to_owned(), place(uri.span().start));
        if let DeValue::Table(settings) = table.get_ref() {
            of_plugin.extend(settings.keys().map(|key| (key.get_ref().to_string(), place(key.span().start))));
        }
    }
    places
}
