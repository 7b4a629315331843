//! Why nobody listens.

use std::io;
use std::path::PathBuf;

/// Why a [`Socket`](super::Socket) could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The directory was not there, and could not be made.
    #[error("could not make directory {}", dir.display())]
    MakeDirectory {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// The directory could not be looked at.
    #[error("could not open directory {}", dir.display())]
    OpenDirectory {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// Others could replace what is in the directory, because it is theirs.
    #[error("directory {} belongs to user {uid}, neither to us nor to root", dir.display())]
    ForeignDirectory {
        /// The directory.
        dir: PathBuf,
        /// Its owner.
        uid: u32,
    },

    /// Others could replace what is in the directory, because they may write to it.
    #[error("others may write to directory {} (mode {mode:04o})", dir.display())]
    WritableDirectory {
        /// The directory.
        dir: PathBuf,
        /// Its permissions.
        mode: u32,
    },

    /// The path could not be locked. If that takes too long, another process of our own user keeps
    /// it locked.
    #[error("could not lock {}", path.display())]
    Lock {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// It could not be found out what is at the path.
    #[error("could not look at {}", path.display())]
    Inspect {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// What is at the path is no socket. It may be of use to somebody.
    #[error("{} is no socket, and will not be replaced", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },

    /// Somebody listens at the path.
    #[error("somebody already listens on {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },

    /// It could not be found out whether somebody listens at the path.
    #[error("could not find out whether somebody listens on {}", path.display())]
    Probe {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// Nobody listens at the path, but the socket there could not be removed.
    #[error("could not remove stale socket {}", path.display())]
    RemoveStale {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// The socket could not be made.
    #[error("could not listen on {}", path.display())]
    Listen {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
