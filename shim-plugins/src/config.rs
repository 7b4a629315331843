//! The configuration of the plugins of a shim.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    #[serde(default)]
    plugins: BTreeMap<String, toml::Table>,
}

impl std::str::FromStr for Configuration {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

impl Configuration {
    /// Sets the table of one plugin. Replaces an earlier table.
    #[must_use]
    pub fn with(mut self, plugin: &Uri, table: toml::Table) -> Self {
        self.plugins.insert(plugin.to_string(), table);
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
        let Self { disabled_plugins, plugins } = other;
        self.disabled_plugins.extend(disabled_plugins);
        for (uri, table) in plugins {
            self.plugins.entry(uri).or_default().extend(table);
        }
        self
    }

    /// Returns whether a plugin is disabled.
    pub fn is_disabled(&self, plugin: &Uri) -> bool {
        self.disabled_plugins.contains(&plugin.to_string())
    }

    /// Returns the table of a plugin.
    pub(crate) fn table(&self, plugin: &Uri) -> Option<toml::Table> {
        self.plugins.get(&plugin.to_string()).cloned()
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
    table: Option<toml::Table>,
) -> Result<DecodedConfig<C>, toml::de::Error> {
    let mut unknown_keys = Vec::new();
    let config = match table {
        Some(table) => serde_ignored::deserialize(toml::Value::Table(table), |key| unknown_keys.push(key.to_string()))?,
        None => C::default(),
    };
    Ok(DecodedConfig { config, unknown_keys })
}

/// Decodes the configuration of a plugin that takes none: all keys are unknown.
#[expect(clippy::unnecessary_wraps, reason = "used in place of `decode`")]
pub(crate) fn none(table: Option<toml::Table>) -> Result<DecodedConfig<()>, toml::de::Error> {
    let unknown_keys = table.unwrap_or_default().into_iter().map(|(key, _)| key).collect();
    Ok(DecodedConfig { config: (), unknown_keys })
}
