//! The lock on the path of a socket. Its holder may check who listens on the socket, and may
//! replace the file.
//!
//! A file of mode 0600 beside the socket is locked. The directory itself cannot serve as the lock:
//! everybody who may open a file may lock it, and others may be able to open the directory. The
//! lock file is removed before it is unlocked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use tracing::warn;

/// How long to wait for the lock. A holder needs it for a few system calls that do not block.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// The pause between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// The lock on the path of a socket. Dropping it removes the lock file and unlocks the path.
#[derive(Debug)]
pub(super) struct Lock {
    /// The locked file. It is unlocked when it is closed, after [`Drop`] has removed the file.
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the path of a socket, whose directory must exist. Waits for at most `limit`.
    pub(super) fn take(socket: &Path, limit: Duration) -> io::Result<Self> {
        let path = path_of(socket);
        let over = Instant::now() + limit;
        loop {
            let file = open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The previous holder may have removed the file after it was opened here. Then the
                // lock is on a file that is no longer at the path.
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

/// Returns the path of the lock file of a socket.
pub(super) fn path_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Opens or creates the lock file. Refuses a file that other users may open, because they could
/// hold the lock.
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
