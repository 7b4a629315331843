//! The errors of launching: the plugin directory cannot be used, or one plugin could not be
//! started.

use std::io;
use std::path::PathBuf;

use nri_proto::PluginId;
use nri_proto::plugin_id::PluginIdError;
use thiserror::Error;

use super::directory::PluginProgram;
use crate::config::policy::NotPermitted;

/// Why no plugin was launched.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The plugin directory exists, but cannot be read.
    #[error("could not read plugin directory {}", dir.display())]
    ReadDirectory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Users other than root and the runtime's own user could make the runtime execute programs of
    /// theirs.
    #[error("plugin directory {} can be changed by others, so no plugin is launched from it", dir.display())]
    UntrustedDirectory {
        /// The directory.
        dir: PathBuf,
        /// The path that other users can change, and how.
        source: UntrustedPath,
    },
    /// Plugins were launched before.
    #[error("plugins were launched already")]
    Twice,
}

/// Why a path is not trusted: users other than root and the runtime's own user can change what the
/// path leads to.
///
/// No setting overrides this check. To make a path trusted, change its owner and permissions with
/// `chown` and `chmod`.
#[derive(Debug, Error)]
pub enum UntrustedPath {
    /// The file at the path, or a directory or link on the way to it, belongs to another user.
    #[error("{} belongs to user {uid} (mode {mode:04o}): give it to root or to user {own}, as whom the runtime runs", path.display())]
    Owner {
        /// The path of that file, directory or link.
        path: PathBuf,
        /// The owner.
        uid: u32,
        /// The permissions.
        mode: u32,
        /// The runtime's own user.
        own: u32,
    },
    /// The file at the path, or a directory on the way to it, is writable by others.
    #[error("{} is writable by its group or by others (mode {mode:04o}): take that permission away", path.display())]
    Writable {
        /// The path of that file or directory.
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
    /// The file at the path, or a directory or link on the way to it, could not be inspected.
    #[error("could not find out who can change {}", path.display())]
    Inspect {
        /// The path of that file, directory or link.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Why one plugin was not started.
#[derive(Debug, Error)]
pub(super) enum StartError {
    #[error("plugin {plugin} is not permitted")]
    NotPermitted { plugin: PluginId, source: NotPermitted },
    #[error("could not read configuration {}", path.display())]
    ReadConfig { path: PathBuf, source: io::Error },
    #[error("configuration {} is larger than {limit} bytes", path.display())]
    LargeConfig { path: PathBuf, limit: u64 },
    #[error("configuration {} can be changed by others", path.display())]
    UntrustedConfig { path: PathBuf, source: UntrustedPath },
    #[error("plugin {} can be changed by others", path.display())]
    Untrusted { path: PathBuf, source: UntrustedPath },
    #[error("plugin {} is WebAssembly, which is not supported", path.display())]
    WebAssembly { path: PathBuf },
    #[error("could not make a connection for plugin {}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("could not start plugin {}", path.display())]
    Spawn { path: PathBuf, source: io::Error },
    #[error("could not watch the process of plugin {}", path.display())]
    Watch { path: PathBuf, source: io::Error },
}

/// Why an entry of the plugin directory is not launched.
#[derive(Debug, Error)]
pub(super) enum Unfit {
    #[error("its name is not that of a plugin")]
    Name(#[source] PluginIdError),
    #[error("it could not be inspected")]
    Inspect(#[source] io::Error),
    #[error("it can be changed by others")]
    Untrusted { found: PluginProgram, source: UntrustedPath },
    #[error("at most {limit} plugins are allowed (max_plugins)")]
    TooMany { limit: usize },
}
