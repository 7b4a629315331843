//! Opens the socket and its directory for the group that the operator names.
//!
//! The group is set first, while the file is still closed to every group. Peers are still judged by
//! their credentials: the group lets a process reach the socket, and nothing else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, fchown};
use std::path::Path;

use tracing::warn;

use super::BindError;
use super::lock;

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

/// Lets a group look up files in a directory that was created for the socket.
pub(super) fn open_directory(dir: &Path, gid: u32) -> Result<(), BindError> {
    let open = || {
        let directory = File::open(dir)?;
        fchown(&directory, None, Some(gid))?;
        directory.set_permissions(fs::Permissions::from_mode(DIRECTORY_MODE))
    };
    open().map_err(|source| BindError::Group { path: dir.to_owned(), gid, source })
}

/// Lets a group look up files in a directory that existed before, if an earlier start has created
/// the directory: it is of the runtime's own user, has the mode of such a directory, and contains
/// only files of the socket. Any other directory is left as it is.
pub(super) fn open_existing(dir: &Path, socket: &Path, gid: u32) -> Result<(), BindError> {
    let group_error = |source| BindError::Group { path: dir.to_owned(), gid, source };
    let metadata = fs::metadata(dir).map_err(group_error)?;
    let mode = metadata.mode() & 0o7777;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_ours && [CLOSED_MODE, DIRECTORY_MODE].contains(&mode) && is_of_socket(dir, socket).map_err(group_error)? {
        return open_directory(dir, gid);
    }
    let is_open = mode & 0o001 != 0 || metadata.gid() == gid && mode & 0o010 != 0;
    if !is_open {
        let mode = format_args!("{mode:04o}");
        warn!(dir = %dir.display(), %mode, gid, "the group of the socket cannot enter its directory: use chgrp and chmod g+x");
    }
    Ok(())
}

/// Returns whether a directory contains nothing but a socket and its lock file.
fn is_of_socket(dir: &Path, socket: &Path) -> io::Result<bool> {
    let lock = lock::path_of(socket);
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if ![socket, &lock].iter().any(|path| path.file_name() == Some(&name)) {
            return Ok(false);
        }
    }
    Ok(true)
}
