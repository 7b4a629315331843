//! Why a plugin, or none at all, was launched.

use std::io;
use std::path::PathBuf;

use nri_proto::PluginId;
use nri_proto::plugin_id::PluginIdError;
use thiserror::Error;

use crate::policy::NotPermitted;

/// Why plugins were not launched.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The directory is there, and cannot be read.
    #[error("could not read plugin directory {}", dir.display())]
    ReadDirectory {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Anyone could have a program of their own run by the runtime.
    #[error("everyone may write to plugin directory {} (mode {mode:04o})", dir.display())]
    WritableDirectory {
        /// The directory.
        dir: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// They have been launched before.
    #[error("plugins were launched already")]
    Twice,
}

/// Why one plugin was not launched.
#[derive(Debug, Error)]
pub(super) enum StartError {
    #[error("plugin {plugin} is not permitted")]
    NotPermitted { plugin: PluginId, source: NotPermitted },
    #[error("could not read configuration {}", path.display())]
    ReadConfig { path: PathBuf, source: io::Error },
    #[error("configuration {} is larger than {limit} bytes", path.display())]
    LargeConfig { path: PathBuf, limit: u64 },
    #[error("plugin {} is WebAssembly, which is not run here", path.display())]
    WebAssembly { path: PathBuf },
    #[error("could not make a connection for plugin {}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("could not start plugin {}", path.display())]
    Spawn { path: PathBuf, source: io::Error },
    #[error("could not watch the process of plugin {}", path.display())]
    Watch { path: PathBuf, source: io::Error },
}

/// Why something in the directory is not launched.
#[derive(Debug, Error)]
pub(super) enum Unfit {
    #[error("it is not named as a plugin is")]
    Name(#[source] PluginIdError),
    #[error("it cannot be looked at")]
    Inspect(#[source] io::Error),
    #[error("everyone may write to it (mode {mode:04o})")]
    Writable { mode: u32 },
    #[error("there are {limit} plugins before it, and no more may be")]
    TooMany { limit: usize },
}
