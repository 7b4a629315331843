//! The socket of a shim: its name, how it is made, and how it goes.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sha2::{Digest as _, Sha256};
use tracing::warn;

use super::socket_lock::{self, SocketLock};
use crate::plugin::ErrorChain;

/// Where sockets go unless containerd says otherwise.
pub(crate) const DEFAULT_DIR: &str = "/run/containerd/s";

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// Linux has no room for a longer name.
const MAX_PATH: usize = 106;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for a socket.
    #[error("the path {} is longer than the {MAX_PATH} bytes that a socket may have", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },

    /// The directory could not be made.
    #[error("could not make directory {}", dir.display())]
    MakeDirectory {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// Others could put their own socket in its place.
    #[error("directory {} is not ours alone: owner {uid}, mode {mode:04o}", dir.display())]
    UnsafeDirectory {
        /// The directory.
        dir: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permissions.
        mode: u32,
    },

    /// The path could not be locked.
    #[error("could not lock {}", path.display())]
    Lock {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// What is at the path is no socket. It may be of use to somebody.
    #[error("{} is no socket, and will not be removed", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
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

    /// It could not be found out whether somebody listens.
    #[error("could not find out whether somebody listens on {}", path.display())]
    Probe {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The path of the socket for a group of containers: a hash, as in Go's shim, so that any name fits.
pub(crate) fn path(dir: &Path, grpc_address: &str, namespace: &str, group: &str) -> PathBuf {
    let text = if group.contains('/') {
        unambiguous("shim", grpc_address, namespace, group)
    } else {
        format!("{grpc_address}/{namespace}/{group}")
    };
    dir.join(name_of(&text))
}

/// The path of the debug socket for a group of containers, named as in Go's shim, too.
pub(crate) fn debug_path(dir: &Path, grpc_address: &str, namespace: &str, group: &str) -> PathBuf {
    let text = if group.contains('/') {
        unambiguous("debug", grpc_address, namespace, group)
    } else {
        format!("{grpc_address}/{namespace}/{group}/debug")
    };
    dir.join(name_of(&text))
}

/// What is hashed for a group with a slash in its name.
///
/// With Go's shim the socket of the group `a/debug` is the debug socket of the group `a`. The name of a group comes from
/// an annotation, so it can be anything. No address begins with NUL, and so no text that is hashed as in Go.
fn unambiguous(purpose: &str, grpc_address: &str, namespace: &str, group: &str) -> String {
    format!("\0{purpose}\0{grpc_address}\0{namespace}\0{group}")
}

fn name_of(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says whether a file is named as the sockets of shims are.
pub(crate) fn has_name_of_socket(path: &Path) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    path.file_name().is_some_and(|name| name.len() == 64 && name.as_encoded_bytes().iter().all(is_digit))
}

/// The address of a socket at a path.
pub(crate) fn address(path: &Path) -> String {
    format!("unix://{}", path.display())
}

/// The path in an address.
pub(crate) fn path_of(address: &str) -> Option<PathBuf> {
    address.trim().strip_prefix("unix://").map(PathBuf::from)
}

/// What is at the path of a shim's socket.
pub(crate) enum BindOutcome {
    /// A new socket.
    New(SocketFile, UnixListener),
    /// Somebody listens: here is a connection.
    Existing(UnixStream),
}

/// Makes a socket, in place of one that nobody listens on, or connects to who listens.
pub(crate) fn bind(path: &Path) -> Result<BindOutcome, SocketError> {
    if path.as_os_str().len() > MAX_PATH {
        return Err(SocketError::TooLong { path: path.to_owned() });
    }
    secure(path.parent().unwrap_or(Path::new("/")))?;
    // Of two that find a stale socket, the second must not remove what the first put there.
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

/// Removes the socket at a path, if there is one. What is no socket stays.
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

/// Connects to who listens at a path, without waiting for it; `None` if nobody does.
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

/// Removes the socket at a path, unless somebody listens on it, and a lock file that was left by a process that was killed.
///
/// The path may be a wrong one: only a socket is removed, and only from a directory where sockets may be.
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
        // So many wait to be accepted that there must be somebody.
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

/// Checks that nobody else can put a socket into a directory.
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
    // Linux gives the file what the socket has, less the umask: it is never open to others.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    let listening = rustix::net::listen(&socket, BACKLOG).map_err(io::Error::from);
    // The path is locked here, so what fails is not left to `drop`.
    let file = listening.and_then(|()| SocketFile::at(path)).inspect_err(|_| {
        if let Err(error) = fs::remove_file(path) {
            warn!(%error, path = %path.display(), "could not remove a socket that cannot be listened on");
        }
    })?;
    Ok((file, socket.into()))
}

/// The file of a socket. It goes when this is dropped, unless another socket has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    /// The file of a socket that listens, if it has one.
    pub(crate) fn of(listener: &UnixListener) -> Option<Self> {
        Self::at(listener.local_addr().ok()?.as_pathname()?).ok()
    }

    /// The socket that is at a path.
    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the file to somebody else.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl SocketFile {
    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| self.id == (metadata.dev(), metadata.ino()))
    }

    fn remove(&self) -> Result<(), SocketError> {
        // Another may be about to put its own there.
        let _locked = lock(&self.path)?;
        if self.is_ours() { unlink(&self.path) } else { Ok(()) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours()
            && let Err(error) = self.remove()
        {
            // Nobody listens on it then: the next `start` of the group replaces it, and `delete` removes it.
            warn!(error = %ErrorChain(&error), path = %self.path.display(), "the socket stays behind");
        }
    }
}
