//! Loads a configuration file of any known format.

use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

use super::Config;
use super::ConfigError;
use super::imports;
use super::nri_conf;
use crate::config::settings::Fault;

/// The name of NRI's own configuration file.
const NRI_CONF: &str = "nri.conf";
/// The directory beside that file that has the configuration of plugins.
const DROP_INS: &str = "conf.d";

/// Why a configuration file cannot be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file imports too many files.
    #[error("{} imports more than {limit} files", path.display())]
    TooMany {
        /// The file that was to be loaded.
        path: PathBuf,
        /// How many files may be read.
        limit: usize,
    },
    /// The content of the file cannot be used.
    #[error("{} cannot be used", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// All problems of the file.
        source: ConfigError,
    },
}

impl Config {
    /// Loads a configuration file. The content of the file decides its format: the configuration
    /// table of this crate, containerd's `config.toml` or CRI-O's `crio.conf`
    /// ([`Config::from_toml`]), or NRI's own `nri.conf` ([`Config::from_nri_conf`]).
    ///
    /// The `imports` of containerd's file are read as containerd reads them: an import may be a
    /// pattern, relative paths begin at the directory of the importing file, and each file is read
    /// once. Tables are merged, and files that are read later override earlier ones. An error names
    /// the file that has the problem.
    ///
    /// If the file is NRI's own in YAML, or is empty and called `nri.conf`, the configuration
    /// directory of plugins is `conf.d` beside the file. A file that is called `nri.conf` may be
    /// missing. To set policies of plugins in that file, write the file in TOML.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or cannot be used.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let is_nri_conf = path.file_name().is_some_and(|name| name == NRI_CONF);
        let text = match fs::read_to_string(path) {
            Err(error) if is_nri_conf && error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|source| LoadError::Read { path: path.to_owned(), source })?,
        };
        if let Some(config) = imports::read(path, &text) {
            return config;
        }
        let read = match Self::from_toml(&text) {
            Err(error) if !is_toml(&error) && nri_conf::owns(&text) => of_nri(path, &text),
            Ok(_) if is_nri_conf && text.trim().is_empty() => of_nri(path, &text),
            read => read,
        };
        read.map_err(|source| LoadError::Content { path: path.to_owned(), source })
    }
}

/// Reads NRI's own configuration file, and sets the configuration directory of plugins to the
/// `conf.d` beside it.
fn of_nri(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let plugin_config_path = Some(path.with_file_name(DROP_INS));
    Config::from_nri_conf(text).map(|config| Config { plugin_config_path, ..config })
}

fn is_toml(error: &ConfigError) -> bool {
    !error.problems().iter().any(|problem| matches!(problem.fault, Fault::Syntax(_)))
}
