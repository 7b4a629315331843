//! CRI-O's `crio.conf`, in which the NRI configuration is one table among many, with names of
//! CRI-O's own.

use toml::{Table, Value};

use super::Config;
use super::ConfigError;
use super::upstream::{Dialect, Upstream};
use crate::config::settings::{Fault, KeyPath, Section};

const CRIO: &str = "crio";
const NRI: &str = "nri";

impl Config {
    /// Reads a configuration from TOML in CRI-O's format: the `crio.conf`, a file of `crio.conf.d`,
    /// or the NRI table alone.
    ///
    /// The table has the keys of CRI-O's `[crio.nri]`, and may also have the additional keys that
    /// [`Config::from_toml`] lists:
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
    /// The rest of the file is only checked for NRI keys that belong in that table. A timeout may
    /// also be a number of nanoseconds. As with CRI-O, an empty path and a zero timeout count as
    /// not set. CRI-O has no key for `reject_sysctl_adjustment` yet; here the key is named like its
    /// siblings, `nri_validator_reject_sysctl_adjustment`.
    ///
    /// # Errors
    ///
    /// Returns all problems of the file, as [`Config::from_toml`] does.
    pub fn from_crio(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(text, |table| {
            let mut problems = Vec::new();
            let config = read(table, &mut problems);
            (config, problems)
        })
    }
}

/// Returns whether a file is CRI-O's, or is the NRI table of such a file alone.
pub(super) fn owns(file: &Table) -> bool {
    file.get(CRIO).is_some_and(Value::is_table) || file.keys().any(|key| is_crios(key))
}

/// Reads the NRI table of a file of CRI-O's. Also reports NRI keys that are outside that table.
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

/// Finds NRI keys that are outside the NRI table. CRI-O ignores such keys silently.
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
        // Only CRI-O's own names for NRI settings count here: other tables may have a key such as
        // `plugins` of their own.
        table.as_table().into_iter().for_each(|table| look(&root.of(CRIO).of(name), table, &is_crios));
    }
    found
}

/// Returns whether a key is one of CRI-O's keys for NRI.
fn is_crios(key: &str) -> bool {
    Upstream::KEYS.iter().any(|(_, crio)| key == *crio)
}
