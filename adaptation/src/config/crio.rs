//! CRI-O's own file, in which the configuration is one table among many, and CRI-O's names.

use toml::{Table, Value};

use super::Config;
use super::ConfigError;
use super::upstream::{Dialect, Upstream};
use crate::config::settings::{Fault, KeyPath, Section};

const CRIO: &str = "crio";
const NRI: &str = "nri";

impl Config {
    /// Reads a configuration from TOML as CRI-O has it: its `crio.conf`, a file of `crio.conf.d`,
    /// or the table for NRI alone.
    ///
    /// It is CRI-O's table `[crio.nri]` as it is, and our own keys, those of [`Config::from_toml`],
    /// in the same table:
    ///
    /// ```
    /// use nri_adaptation::config::Config;
    ///
    /// let config = Config::from_crio(r#"
    ///     [crio.runtime]
    ///     default_runtime = "crun"
    ///
    ///     [crio.nri]
    ///     enable_nri = true
    ///     nri_listen = "/var/run/nri/nri.sock"
    ///     nri_plugin_dir = "/opt/nri/plugins"
    ///     nri_plugin_config_dir = "/etc/nri/conf.d"
    ///     nri_disable_connections = false
    ///     nri_plugin_registration_timeout = "5s"
    ///     nri_plugin_request_timeout = "2s"
    ///     [crio.nri.default_validator]
    ///     nri_enable_default_validator = true
    ///     nri_validator_reject_oci_hook_adjustment = true
    ///
    ///     [crio.nri.plugins.topology]
    ///     required = true
    /// "#)?;
    /// assert!(config.policies.required().eq([&"topology".parse()?]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The rest of the file is CRI-O's, and only looked at for keys that should be in that table. A
    /// timeout may also be a number, of nanoseconds. As with CRI-O, a path that is empty and a
    /// timeout that is zero are not said. CRI-O has no name for `reject_sysctl_adjustment` yet;
    /// here it is called as the others are.
    ///
    /// # Errors
    ///
    /// As [`Config::from_toml`].
    pub fn from_crio(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(text, |table| {
            let mut problems = Vec::new();
            let config = read(table, &mut problems);
            (config, problems)
        })
    }
}

/// Says whether this is such a file, or the table alone.
pub(super) fn owns(file: &Table) -> bool {
    file.get(CRIO).is_some_and(Value::is_table) || file.keys().any(|key| is_crios(key))
}

/// Reads the table that is for NRI, and looks for what should be in it.
pub(super) fn read(mut file: Table, problems: &mut Vec<(KeyPath, Fault)>) -> Config {
    let Some(Value::Table(crio)) = file.get_mut(CRIO) else {
        return Config::read(&mut Section::new(KeyPath::default(), file, problems), Dialect::Crio);
    };
    let ours = crio.remove_entry(NRI);
    let place = KeyPath::default().of(CRIO);
    let home = place.of(NRI);
    let mut alone = Section::new(place, ours.into_iter().collect(), problems);
    let (config, known) = match alone.section(NRI) {
        Some(mut section) => (Config::read(&mut section, Dialect::Crio), section.known().to_vec()),
        None => {
            let mut empty = Section::new(home.clone(), Table::new(), problems);
            (Config::read(&mut empty, Dialect::Crio), empty.known().to_vec())
        }
    };
    problems.extend(strays(&file, &known, &home));
    config
}

/// Keys of ours in what is CRI-O's: it ignores them in silence.
fn strays(file: &Table, known: &[&str], home: &KeyPath) -> Vec<(KeyPath, Fault)> {
    let mut found = Vec::new();
    let mut look = |place: &KeyPath, table: &Table, is_ours: &dyn Fn(&str) -> bool| {
        let keys = table.keys().filter(|key| is_ours(key));
        found.extend(keys.map(|key| (place.of(key), Fault::Misplaced { home: home.to_string() })));
    };
    let is_known = |key: &str| known.contains(&key);
    let (root, Some(crio)) = (KeyPath::default(), file.get(CRIO).and_then(Value::as_table)) else { return found };
    look(&root, file, &is_known);
    look(&root.of(CRIO), crio, &is_known);
    for (name, table) in crio {
        // Only those that mean nothing else: other tables may have `plugins`, too.
        table.as_table().into_iter().for_each(|table| look(&root.of(CRIO).of(name), table, &is_crios));
    }
    found
}

/// Whether this is one of CRI-O's keys for NRI.
fn is_crios(key: &str) -> bool {
    Upstream::KEYS.iter().any(|(_, crio)| key == *crio)
}
