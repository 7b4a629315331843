//! A lock on the path of a socket: who has it may look who listens there, and replace the file.
//!
//! The lock is on a file beside the socket, of mode 0600. Whoever may open a file may lock it, so
//! the directory itself, which others may be able to read, is no place for a lock. The file is
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

/// How long a lock is waited for. It is held for a few system calls that do not wait.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// How often a lock that somebody has is tried.
const PAUSE: Duration = Duration::from_millis(5);

/// The lock on the path of a socket, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    /// Closed, and so unlocked, after [`Drop`] has removed it.
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the path of a socket, whose directory must be there. Waits for at most `limit`.
    pub(super) fn take(socket: &Path, limit: Duration) -> io::Result<Self> {
        let path = path_of(socket);
        let over = Instant::now() + limit;
        loop {
            let file = open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Whoever had the lock may have removed the file since it was opened here.
                Ok(()) if is_at(&file, &path)? => return Ok(Self { _file: file, path }),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
                Err(errno) => return Err(errno.into()),
            }
            if Instant::now() >= over {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("it stayed locked for {limit:?}")));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            let error = &error as &dyn std::error::Error;
            warn!(error, path = %self.path.display(), "could not remove a lock file");
        }
    }
}

/// Where the lock for a socket is.
pub(super) fn path_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Opens the file, or makes it. One that others may open would let them hold the lock.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).write(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    if metadata.is_file() && is_ours {
        return Ok(file);
    }
    let what = format!("{} is no lock file of ours alone: remove it", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
