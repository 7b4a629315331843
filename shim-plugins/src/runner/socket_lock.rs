//! A lock on the path of a socket, held while a process checks, replaces or removes the socket.
//!
//! The lock is a file beside the socket, of mode 0600. A process that can open a file can lock it,
//! and other users may be able to open the directory, so the directory is not the lock. The file is
//! removed before it is unlocked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use tracing::warn;

/// How long to wait for a lock. A lock is held for a few system calls that do not block.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// The pause between attempts to take a lock that is held.
const PAUSE: Duration = Duration::from_millis(5);

/// A lock on the path of a socket, until it is dropped.
#[derive(Debug)]
pub(super) struct SocketLock {
    /// The locked file. It is unlocked when it is closed, after [`Drop`] has removed it.
    _file: File,
    path: PathBuf,
}

impl SocketLock {
    /// Locks the path of a socket, whose directory must exist. Waits for at most `limit`.
    pub(super) fn take(socket: &Path, limit: Duration) -> io::Result<Self> {
        let path = path_of(socket);
        let over = Instant::now() + limit;
        loop {
            let file = open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The previous owner may have removed the file after it was opened here.
                Ok(()) if is_at(&file, &path)? => return Ok(Self { _file: file, path }),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
                Err(errno) => return Err(errno.into()),
            }
            if Instant::now() >= over {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("still locked after {limit:?}")));
            }
        }
    }
}

impl Drop for SocketLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(%error, path = %self.path.display(), "could not remove lock file");
        }
    }
}

/// Returns the path of the lock file for a socket.
pub(super) fn path_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Opens or creates the lock file. Fails if other users can open it, because they could hold the
/// lock.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).write(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    if metadata.is_file() && is_ours {
        return Ok(file);
    }
    let text = format!("lock file {} is accessible to other users: remove it", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
