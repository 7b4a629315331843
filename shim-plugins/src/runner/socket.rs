//! The socket of a shim: binding it, finding who listens, and removing it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tracing::warn;

use super::socket_lock::{self, SocketLock};
use crate::plugin::ErrorChain;

/// The directory of sockets, unless containerd names another one.
pub(crate) const DEFAULT_DIR: &str = "/run/containerd/s";

/// The most connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// The longest path of a socket on Linux, in bytes.
const MAX_PATH: usize = 106;

/// Why a socket could not be bound or removed.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for a socket.
    #[error("socket path {} is longer than {MAX_PATH} bytes", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },

    /// The directory could not be created.
    #[error("could not create directory {}", dir.display())]
    MakeDirectory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// Other users can write to the directory, and could replace the socket.
    #[error("other users can write to socket directory {}: owner {uid}, mode {mode:04o}", dir.display())]
    UnsafeDirectory {
        /// The directory.
        dir: PathBuf,
        /// The owner of the directory.
        uid: u32,
        /// The permissions of the directory.
        mode: u32,
    },

    /// The path could not be locked.
    #[error("could not lock {}", path.display())]
    Lock {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The path exists and is not a socket, so it is left alone.
    #[error("{} is not a socket and will not be removed", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },

    /// A stale socket, on which nobody listens, could not be removed.
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

    /// A connection attempt failed, so it is unknown whether somebody listens.
    #[error("could not determine whether somebody listens on {}", path.display())]
    Probe {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The outcome of binding the socket of a shim.
pub(crate) enum BindOutcome {
    /// A new socket was bound.
    New(SocketFile, UnixListener),
    /// Somebody already listens. This is a connection to them.
    Existing(UnixStream),
}

/// Binds a socket, replacing a stale one. If somebody listens at the path, connects instead.
pub(crate) fn bind(path: &Path) -> Result<BindOutcome, SocketError> {
    if path.as_os_str().len() > MAX_PATH {
        return Err(SocketError::TooLong { path: path.to_owned() });
    }
    secure(path.parent().unwrap_or(Path::new("/")))?;
    // Two processes may find a stale socket: the second must not remove the socket of the first.
    let _locked = lock(path)?;
    match connect(path).map_err(|source| SocketError::Probe { path: path.to_owned(), source })? {
        Some(stream) => return Ok(BindOutcome::Existing(stream)),
        None => unlink(path)?,
    }
    match listen(path) {
        Ok((file, listener)) => Ok(BindOutcome::New(file, listener)),
        Err(source) => Err(SocketError::Listen { path: path.to_owned(), source }),
    }
}

fn lock(path: &Path) -> Result<SocketLock, SocketError> {
    SocketLock::take(path, socket_lock::LIMIT).map_err(|source| SocketError::Lock { path: path.to_owned(), source })
}

/// Removes the socket at a path, if there is one. Anything but a socket stays.
fn unlink(path: &Path) -> Result<(), SocketError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| SocketError::RemoveStale { path: path.to_owned(), source }),
    }
}

/// Connects to a socket without blocking. Returns `None` if nobody listens.
fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    let socket = socket()?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {
            let stream = UnixStream::from(socket);
            stream.set_nonblocking(false)?;
            Ok(Some(stream))
        }
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Removes a stale socket, and a lock file that a killed process left behind.
///
/// The path may be wrong, so only a socket is removed, and only from a directory that is safe for
/// sockets. A socket on which somebody listens stays.
pub(crate) fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let probe = |source| SocketError::Probe { path: path.to_owned(), source };
    if !is_there(path).map_err(probe)? && !is_there(&socket_lock::path_of(path)).map_err(probe)? {
        return Ok(());
    }
    check_directory(path.parent().unwrap_or(Path::new("/")))?;
    let _locked = lock(path)?;
    match connect(path) {
        Ok(None) => unlink(path),
        Ok(Some(_)) => Ok(()),
        // The backlog is full, so somebody listens.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(probe(error)),
    }
}

fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        metadata => metadata.map(|_| true),
    }
}

/// Makes a directory for sockets if there is none, and checks it.
fn secure(dir: &Path) -> Result<(), SocketError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| SocketError::MakeDirectory { dir: dir.to_owned(), source })?;
    check_directory(dir)
}

/// Checks that no other user can create files in a directory.
fn check_directory(dir: &Path) -> Result<(), SocketError> {
    let metadata = fs::metadata(dir).map_err(|source| SocketError::MakeDirectory { dir: dir.to_owned(), source })?;
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let is_ours = uid == 0 || uid == rustix::process::geteuid().as_raw();
    if is_ours && mode & 0o022 == 0 {
        Ok(())
    } else {
        Err(SocketError::UnsafeDirectory { dir: dir.to_owned(), uid, mode })
    }
}

fn listen(path: &Path) -> io::Result<(SocketFile, UnixListener)> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket()?;
    // Linux gives the file the mode of the socket, less the umask, so other users never have
    // access.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    let listening = rustix::net::listen(&socket, BACKLOG).map_err(io::Error::from);
    // The path is locked here, so `SocketFile::drop` must not do the cleanup.
    let file = listening.and_then(|()| SocketFile::at(path)).inspect_err(|_| {
        if let Err(error) = fs::remove_file(path) {
            warn!(%error, path = %path.display(), "could not remove an unusable socket");
        }
    })?;
    Ok((file, socket.into()))
}

/// The file of a socket. Dropping it removes the file, unless another socket has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    /// Returns the file of a listening socket, if it has one.
    pub(crate) fn of(listener: &UnixListener) -> Option<Self> {
        Self::at(listener.local_addr().ok()?.as_pathname()?).ok()
    }

    /// Returns the socket file at a path.
    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) })
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the file in place, for another process to remove.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| self.id == (metadata.dev(), metadata.ino()))
    }

    fn remove(&self) -> Result<(), SocketError> {
        // Another process may be about to put its own socket there.
        let _locked = lock(&self.path)?;
        if self.is_ours() { unlink(&self.path) } else { Ok(()) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours()
            && let Err(error) = self.remove()
        {
            // The stale socket is replaced by the next `start` of the group, or removed by
            // `delete`.
            warn!(error = %ErrorChain(&error), path = %self.path.display(), "could not remove socket");
        }
    }
}

/// Returns whether the peer of a connection has our own user and group.
pub(super) fn is_own_user(stream: &tokio::net::UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| {
        peer.uid() == rustix::process::geteuid().as_raw() && peer.gid() == rustix::process::getegid().as_raw()
    })
}
