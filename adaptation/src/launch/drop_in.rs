//! The configuration files of launched plugins.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nri_proto::PluginId;
use rustix::fs::OFlags;

use super::error::StartError;
use super::trust::{self, FileId};

/// The largest configuration, in bytes. The message that carries the configuration could not be
/// larger either.
const MAX_CONFIG: u64 = 4 << 20;

/// Reads the configuration of a plugin, verbatim: the file `10-logger.conf`, or else `logger.conf`.
/// Returns an empty text if neither exists.
///
/// Only root and the runtime's own user may be able to change the directory and the file. If the
/// directory does not exist, the same is true of the path to it: otherwise others could have
/// removed the directory.
pub(super) fn read(dir: &Path, id: &PluginId) -> Result<String, StartError> {
    let is_there = trust::check_if_there(dir);
    if !is_there.map_err(|source| StartError::UntrustedConfig { path: dir.to_owned(), source })? {
        return Ok(String::new());
    }
    for name in [id.as_str(), id.name()] {
        let path = dir.join(format!("{name}.conf"));
        match read_file(&path)? {
            Some(config) if config.len() as u64 > MAX_CONFIG => {
                return Err(StartError::LargeConfig { path, limit: MAX_CONFIG });
            }
            Some(config) => return Ok(config),
            None => {}
        }
    }
    Ok(String::new())
}

/// Reads a file if it exists. Opens the file before checking its path, and compares the two, so
/// that the file that is read is the file that was checked.
fn read_file(path: &Path) -> Result<Option<String>, StartError> {
    let unread = |source| StartError::ReadConfig { path: path.to_owned(), source };
    let untrusted = |source| StartError::UntrustedConfig { path: path.to_owned(), source };
    let file = match open(path) {
        // The path may be a symbolic link to a file that others have removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return trust::check_if_there(path).map(|_| None).map_err(untrusted);
        }
        opened => opened.map_err(unread)?,
    };
    let checked = trust::check(path).map_err(untrusted)?;
    let metadata = file.metadata().map_err(unread)?;
    if checked != FileId(metadata.dev(), metadata.ino()) {
        return Err(unread(io::Error::other("it was replaced meanwhile")));
    }
    let mut config = String::new();
    file.take(MAX_CONFIG + 1).read_to_string(&mut config).map_err(unread)?;
    Ok(Some(config))
}

/// Opens a file for reading. Does not block on a FIFO without a writer.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    File::options().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests;
