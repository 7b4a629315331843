//! Opens the socket and its directory for the group that the operator names.
//!
//! The group is set first, while the file is still closed to every group. Peers are still judged by
//! their credentials: the group lets a process reach the socket, and nothing else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, fchown};
use std::path::Path;

use super::BindError;

const SOCKET_MODE: u32 = 0o660;
const DIRECTORY_MODE: u32 = 0o750;
/// The mode of a directory that was created for a socket without a group.
const CLOSED_MODE: u32 = 0o700;

/// Lets a group connect to a socket on which nobody listens yet. Others cannot replace the file,
/// because the directory is safe.
pub(super) fn open_socket(path: &Path, gid: u32) -> Result<(), BindError> {
    let open = || {
        chown(path, None, Some(gid))?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))
    };
    open().map_err(|source| BindError::Group { path: path.to_owned(), gid, source })
}

/// Lets a group look up files in a directory, if the directory is of the runtime's own user and has
/// a mode that this module or the creation of a socket has given it. A directory of another kind is
/// left as it is.
pub(super) fn open_directory(dir: &Path, gid: u32) -> Result<(), BindError> {
    let open = || -> io::Result<()> {
        let directory = File::open(dir)?;
        let metadata = directory.metadata()?;
        let mode = metadata.mode() & 0o7777;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || ![CLOSED_MODE, DIRECTORY_MODE].contains(&mode) {
            return Ok(());
        }
        fchown(&directory, None, Some(gid))?;
        directory.set_permissions(fs::Permissions::from_mode(DIRECTORY_MODE))
    };
    open().map_err(|source| BindError::Group { path: dir.to_owned(), gid, source })
}
