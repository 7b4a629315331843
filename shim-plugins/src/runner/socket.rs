//! The socket of a shim: its name, how it is made, and how it goes.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sha2::{Digest as _, Sha256};

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

    /// The directory could not be locked.
    #[error("could not lock directory {}", dir.display())]
    Lock {
        /// The directory.
        dir: PathBuf,
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
    let digest = Sha256::digest(format!("{grpc_address}/{namespace}/{group}"));
    let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    dir.join(name)
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
pub(crate) enum Bound {
    /// A new socket.
    New(SocketFile, UnixListener),
    /// Somebody listens: here is a connection.
    Existing(UnixStream),
}

/// Makes a socket, in place of one that nobody listens on, or connects to who listens.
pub(crate) fn bind(path: &Path) -> Result<Bound, SocketError> {
    if path.as_os_str().len() > MAX_PATH {
        return Err(SocketError::TooLong { path: path.to_owned() });
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    secure(dir)?;
    // Of two that find a stale socket, the second must not remove what the first put there.
    let _locked = lock(dir).map_err(|source| SocketError::Lock { dir: dir.to_owned(), source })?;
    match connect(path).map_err(|source| SocketError::Probe { path: path.to_owned(), source })? {
        Some(stream) => return Ok(Bound::Existing(stream)),
        None => drop(fs::remove_file(path)),
    }
    match listen(path) {
        Ok((file, listener)) => Ok(Bound::New(file, listener)),
        Err(source) => Err(SocketError::Listen { path: path.to_owned(), source }),
    }
}

/// Keeps others out of a directory until the file is dropped. It is held for a few system calls that do not wait.
fn lock(dir: &Path) -> io::Result<File> {
    let file = File::open(dir)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
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

/// Removes the socket at a path, unless somebody listens on it.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    let Some(dir) = path.parent().filter(|dir| dir.exists()) else { return Ok(()) };
    let _locked = lock(dir)?;
    match connect(path) {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(()),
        // So many wait to be accepted that there must be somebody.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn secure(dir: &Path) -> Result<(), SocketError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let metadata = made.and_then(|()| fs::metadata(dir));
    let metadata = metadata.map_err(|source| SocketError::MakeDirectory { dir: dir.to_owned(), source })?;
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
    // The directory is locked here, so what fails is not left to `drop`.
    let file = listening.and_then(|()| SocketFile::at(path)).inspect_err(|_| drop(fs::remove_file(path)))?;
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

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another may be about to put its own there. Where there is no lock to be had, there is no directory either.
        let _locked = self.path.parent().and_then(|dir| lock(dir).ok());
        let is_ours = |metadata: fs::Metadata| self.id == (metadata.dev(), metadata.ino());
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
