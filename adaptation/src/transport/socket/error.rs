//! The errors of creating a socket.

use std::io;
use std::path::PathBuf;

/// Why a [`Socket`](super::Socket) could not be created.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The directory did not exist, and could not be created.
    #[error("could not make directory {}", dir.display())]
    MakeDirectory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The directory could not be inspected.
    #[error("could not open directory {}", dir.display())]
    OpenDirectory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The directory belongs to another user, who could replace its contents.
    #[error("directory {} belongs to user {uid}, neither to us nor to root", dir.display())]
    ForeignDirectory {
        /// The directory.
        dir: PathBuf,
        /// The user id of the directory's owner.
        uid: u32,
    },

    /// Other users may write to the directory, so they could replace its contents.
    #[error("others may write to directory {} (mode {mode:04o})", dir.display())]
    WritableDirectory {
        /// The directory.
        dir: PathBuf,
        /// The permission bits of the directory.
        mode: u32,
    },

    /// The socket or its directory could not be given to the group. Only root, and a member of the
    /// group, may do so.
    #[error("could not give {} to group {gid} (socket_gid)", path.display())]
    Group {
        /// The socket or the directory.
        path: PathBuf,
        /// The group.
        gid: u32,
        /// The cause.
        source: io::Error,
    },

    /// The path could not be locked. If the cause is a timeout, another process of the same user
    /// keeps the path locked.
    #[error("could not lock {}", path.display())]
    Lock {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The file at the path could not be inspected.
    #[error("could not inspect {}", path.display())]
    Inspect {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The file at the path is not a socket. It is not replaced, because it may be of use.
    #[error("{} is not a socket, and is not replaced", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },

    /// A process already listens on the path.
    #[error("somebody already listens on {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },

    /// An error prevented the check whether a process listens on the path.
    #[error("could not find out whether somebody listens on {}", path.display())]
    Probe {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// No process listens on the socket at the path, but its file could not be removed.
    #[error("could not remove stale socket {}", path.display())]
    RemoveStale {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The socket could not be created.
    #[error("could not listen on {}", path.display())]
    Listen {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
