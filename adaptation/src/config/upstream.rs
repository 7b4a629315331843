//! The settings that upstream has, under the names of containerd and of CRI-O.

use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use crate::config::settings::{Section, Setting};

/// The runtime whose names a table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Containerd,
    Crio,
}

/// The names of a key: containerd's and CRI-O's.
type SettingNames = (&'static str, &'static str);

const DISABLE: SettingNames = ("disable", "enable_nri");
const DISABLE_CONNECTIONS: SettingNames = ("disable_connections", "nri_disable_connections");
const SOCKET: SettingNames = ("socket_path", "nri_listen");
const PLUGIN_PATH: SettingNames = ("plugin_path", "nri_plugin_dir");
const PLUGIN_CONFIG_PATH: SettingNames = ("plugin_config_path", "nri_plugin_config_dir");
const REGISTRATION_TIMEOUT: SettingNames = ("plugin_registration_timeout", "nri_plugin_registration_timeout");
pub(super) const REQUEST_TIMEOUT: SettingNames = ("plugin_request_timeout", "nri_plugin_request_timeout");

impl Dialect {
    pub(super) fn choose(self, (containerd, crio): SettingNames) -> &'static str {
        match self {
            Self::Containerd => containerd,
            Self::Crio => crio,
        }
    }

    /// Returns pairs for suggestions to operators who mix up the two runtimes: the other runtime's
    /// name of each key, and the name in this dialect.
    pub(super) fn others(self, keys: &[SettingNames]) -> Vec<(&'static str, String)> {
        let other = match self {
            Self::Containerd => Self::Crio,
            Self::Crio => Self::Containerd,
        };
        keys.iter().map(|key| (other.choose(*key), self.choose(*key).to_owned())).collect()
    }
}

/// The values of upstream's settings in one table.
pub(super) struct Upstream {
    pub(super) disable: Option<bool>,
    pub(super) disable_connections: bool,
    pub(super) socket: Option<PathBuf>,
    pub(super) plugin_path: Option<PathBuf>,
    pub(super) plugin_config_path: Option<PathBuf>,
    pub(super) registration_timeout: Option<Duration>,
    pub(super) request_timeout: Option<Duration>,
}

impl Upstream {
    pub(super) const KEYS: &'static [SettingNames] =
        &[DISABLE, DISABLE_CONNECTIONS, SOCKET, PLUGIN_PATH, PLUGIN_CONFIG_PATH, REGISTRATION_TIMEOUT, REQUEST_TIMEOUT];

    /// Takes upstream's settings from a table.
    pub(super) fn read(section: &mut Section<'_>, dialect: Dialect) -> Self {
        let key = |key| dialect.choose(key);
        let said: Option<bool> = section.take(key(DISABLE));
        Self {
            disable: said.map(|said| said == (dialect == Dialect::Containerd)),
            disable_connections: section.take(key(DISABLE_CONNECTIONS)).unwrap_or(false),
            socket: section.take_set(key(SOCKET)),
            plugin_path: section.take_set(key(PLUGIN_PATH)),
            plugin_config_path: section.take_set(key(PLUGIN_CONFIG_PATH)),
            registration_timeout: timeout(section, dialect, REGISTRATION_TIMEOUT),
            request_timeout: timeout(section, dialect, REQUEST_TIMEOUT),
        }
    }
}

/// Takes a timeout. Zero means "not set". In CRI-O's dialect, a number is in nanoseconds.
fn timeout(section: &mut Section<'_>, dialect: Dialect, key: SettingNames) -> Option<Duration> {
    let read = |value: &Value| match (dialect, value) {
        (Dialect::Crio, Value::Integer(nanos)) => Option::read(&Value::String(format!("{nanos}ns"))),
        _ => Option::read(value),
    };
    section.take_with(dialect.choose(key), read).flatten()
}
