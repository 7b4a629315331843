//! Creates the socket file.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::BindError;
use super::group;
use super::lock::{self, Lock};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// The file of a socket. Dropping it removes the file, unless another file is at the path by then.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

/// Creates a listening socket. Replaces a stale one. If a group is given, its processes can
/// connect.
pub(super) fn bind(path: PathBuf, gid: Option<u32>) -> Result<(SocketFile, UnixListener), BindError> {
    secure(&path, gid)?;
    let _locked = lock(&path)?;
    remove_stale(&path)?;
    let failed = |source| BindError::Listen { path: path.clone(), source };
    let (file, socket) = create(&path).map_err(failed)?;
    if let Some(gid) = gid {
        group::open_socket(&path, gid)?;
    }
    rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed(errno.into()))?;
    Ok((file, socket.into()))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Creates the directory of the socket if it does not exist, and checks that it is safe. If a group
/// is given, opens the directory for the group.
fn secure(path: &Path, gid: Option<u32>) -> Result<(), BindError> {
    let dir = directory_of(path);
    let missing: Vec<_> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| BindError::MakeDirectory { dir: dir.to_owned(), source })?;
    let metadata = fs::metadata(dir).map_err(|source| BindError::OpenDirectory { dir: dir.to_owned(), source })?;
    if metadata.uid() != 0 && metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(BindError::ForeignDirectory { dir: dir.to_owned(), uid: metadata.uid() });
    }
    let mode = Mode::from_raw_mode(metadata.mode());
    if mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX) {
        return Err(BindError::WritableDirectory { dir: dir.to_owned(), mode: mode.as_raw_mode() & 0o7777 });
    }
    match gid {
        Some(gid) if missing.is_empty() => group::open_existing(dir, path, gid),
        Some(gid) => missing.into_iter().rev().try_for_each(|dir| group::open_directory(dir, gid)),
        None => Ok(()),
    }
}

/// Locks the path, so that no other runtime binds it until the lock is dropped. Returns `None` for
/// a path that cannot be a socket's.
fn lock(path: &Path) -> Result<Option<Lock>, BindError> {
    // Such a path needs no lock, because binding it fails in any case.
    if path.file_name().is_none() || SocketAddrUnix::new(path).is_err() {
        return Ok(None);
    }
    let locked = Lock::take(path, lock::LIMIT);
    locked.map(Some).map_err(|source| BindError::Lock { path: path.to_owned(), source })
}

fn remove_stale(path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(BindError::Inspect { path: path.to_owned(), source }),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(BindError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match is_live(path) {
        Ok(true) => Err(BindError::InUse { path: path.to_owned() }),
        Ok(false) => fs::remove_file(path).map_err(|source| BindError::RemoveStale { path: path.to_owned(), source }),
        Err(errno) => Err(BindError::Probe { path: path.to_owned(), source: errno.into() }),
    }
}

/// Returns whether a process listens on a socket, by connecting to it.
fn is_live(path: &Path) -> Result<bool, Errno> {
    let address = SocketAddrUnix::new(path)?;
    match rustix::net::connect(&socket()?, &address) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        // The queue of connections is full, or the socket has another type. In both cases the
        // socket is in use.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Creates the file of a socket. Nobody can connect before the socket listens.
fn create(path: &Path) -> io::Result<(SocketFile, OwnedFd)> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket()?;
    // Linux creates the file with the permissions of the socket, minus the umask. So others can
    // never open the file, not even for a moment, and the umask of the process stays unchanged: it
    // is shared by all threads.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    let metadata = fs::symlink_metadata(path)?;
    Ok((SocketFile { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) }, socket))
}

pub(super) fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| self.id == (metadata.dev(), metadata.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours()
            && let Err(error) = fs::remove_file(&self.path)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, path = %self.path.display(), "could not remove the socket");
        }
    }
}
