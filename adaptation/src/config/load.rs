//! A configuration in a file, whoever's file it is.

use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

use super::Config;
use super::ConfigError;
use super::imports;
use super::nri_conf;
use crate::config::settings::Fault;

/// What the file of NRI's own is called.
const NRI_CONF: &str = "nri.conf";
/// Where, beside that file, the configuration of plugins is.
const DROP_INS: &str = "conf.d";

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It imports more than anyone needs.
    #[error("{} imports more than {limit} files", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// How many there may be.
        limit: usize,
    },
    /// What is in it cannot be used.
    #[error("{} cannot be used", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// All problems there are.
        source: ConfigError,
    },
}

impl Config {
    /// Reads a file, and finds out by what is in it which kind it is: a table of our own,
    /// containerd's `config.toml` or CRI-O's `crio.conf` ([`Config::from_toml`]), or the `nri.conf`
    /// that NRI had of its own ([`Config::from_nri_conf`]).
    ///
    /// What containerd's file `imports` is read as containerd does it: patterns too, beside the
    /// file that imports them, each file once; tables are joined, and what is read later counts.
    /// What is wrong is told with the file that it is in.
    ///
    /// With NRI's own file, plugins find their configuration in `conf.d` beside it. One that is
    /// called `nri.conf` need not be there, and may be empty. Policies of plugins lie in the same
    /// file, which is TOML then.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or not be used.
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

/// A file of NRI's own.
fn of_nri(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let plugin_config_path = Some(path.with_file_name(DROP_INS));
    Config::from_nri_conf(text).map(|config| Config { plugin_config_path, ..config })
}

fn is_toml(error: &ConfigError) -> bool {
    !error.problems().iter().any(|problem| matches!(problem.fault, Fault::Syntax(_)))
}
