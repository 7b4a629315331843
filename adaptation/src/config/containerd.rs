//! Containerd's `config.toml`, in which the NRI configuration is one table among many.

use nri_proto::PluginId;
use toml::{Table, Value};

use super::Config;
use super::upstream::Dialect;
use crate::config::settings::{Fault, KeyPath, Section};

const PLUGINS: &str = "plugins";
const NRI: &str = "io.containerd.nri.v1.nri";
pub(super) const IMPORTS: &str = "imports";
pub(super) const DISABLED_PLUGINS: &str = "disabled_plugins";

/// Returns whether a file is containerd's, judged by its keys.
pub(super) fn owns(file: &Table) -> bool {
    let plugins = file.get(PLUGINS).and_then(Value::as_table);
    ["version", IMPORTS, DISABLED_PLUGINS].iter().any(|key| file.contains_key(*key))
        || plugins.is_some_and(|plugins| plugins.keys().any(|plugin| plugin.starts_with("io.containerd.")))
}

/// Reads the NRI table of a file of containerd's. Also reports NRI keys that are outside that
/// table.
pub(super) fn read(mut file: Table, problems: &mut Vec<(KeyPath, Fault)>) -> Config {
    let plugins = KeyPath::default().of(PLUGINS);
    let home = plugins.of(NRI);
    let ours = file.get_mut(PLUGINS).and_then(Value::as_table_mut).and_then(|plugins| plugins.remove_entry(NRI));

    let mut alone = Section::new(plugins, ours.into_iter().collect(), problems);
    let (config, known) = match alone.section(NRI) {
        Some(mut section) => (Config::read(&mut section, Dialect::Containerd), section.known().to_vec()),
        None => {
            let mut empty = Section::new(home.clone(), Table::new(), problems);
            (Config::read(&mut empty, Dialect::Containerd), empty.known().to_vec())
        }
    };
    problems.extend(strays(&file, &known, &home));
    let is_disabled = is_disabled(&mut file, problems);
    Config { disable: config.disable || is_disabled, ..config }
}

/// Returns whether the file disables the NRI plugin of containerd through `disabled_plugins`, which
/// overrides the NRI table. Imports are not followed here: only [`Config::load`] knows where the
/// file is.
fn is_disabled(file: &mut Table, problems: &mut Vec<(KeyPath, Fault)>) -> bool {
    let theirs = [IMPORTS, DISABLED_PLUGINS].iter().filter_map(|key| file.remove_entry(*key)).collect();
    let mut section = Section::new(KeyPath::default(), theirs, problems);
    let _: Option<Vec<String>> = section.take(IMPORTS);
    let disabled: Option<Vec<String>> = section.take(DISABLED_PLUGINS);
    disabled.is_some_and(|disabled| disabled.iter().any(|plugin| plugin == NRI))
}

/// Finds NRI keys that are outside the NRI table. Containerd ignores such keys silently: for two
/// years a tool wrote the timeouts of nodes to the root of this file (containers/nri-plugins#745).
fn strays(file: &Table, known: &[&str], home: &KeyPath) -> Vec<(KeyPath, Fault)> {
    let misplaced = |place, home: &KeyPath| (place, Fault::Misplaced { home: home.to_string() });
    let mut found = Vec::new();
    for (key, value) in file {
        let place = KeyPath::default().of(key);
        if key == PLUGINS {
            for (plugin, settings) in value.as_table().into_iter().flatten() {
                let place = place.of(plugin);
                if plugin.parse::<PluginId>().is_ok() {
                    found.push(misplaced(place, &home.of(PLUGINS)));
                    continue;
                }
                // Only keys with the prefix `plugin_` count here: other plugins of containerd may
                // have a `socket_path` of their own.
                let is_ours = |key: &&String| key.starts_with("plugin_") && known.contains(&key.as_str());
                let keys = settings.as_table().into_iter().flat_map(Table::keys).filter(is_ours);
                found.extend(keys.map(|key| misplaced(place.of(key), home)));
            }
        } else if known.contains(&key.as_str()) {
            found.push(misplaced(place, home));
        }
    }
    found
}
