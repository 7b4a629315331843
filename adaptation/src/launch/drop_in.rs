//! The configuration of a launched plugin.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nri_proto::PluginId;
use rustix::fs::OFlags;

use super::error::StartError;
use super::trust::{self, FileId};

/// The largest configuration. A message that brings it to the plugin could not be larger either.
const MAX_CONFIG: u64 = 4 << 20;

/// Reads what a plugin is configured with: the first of `10-logger.conf` and `logger.conf` that is
/// there, verbatim.
///
/// Neither the directory nor the file may be changed by others than root and the runtime's own
/// user. Nor may the way to a directory that is not there: others could have taken it away.
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

/// Reads a file, if it is there. It is opened before its path is checked, so that what is read is
/// what was checked.
fn read_file(path: &Path) -> Result<Option<String>, StartError> {
    let unread = |source| StartError::ReadConfig { path: path.to_owned(), source };
    let untrusted = |source| StartError::UntrustedConfig { path: path.to_owned(), source };
    let file = match open(path) {
        // It may be a link to where others have taken the file away.
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

/// Opens a file to read it. A FIFO that nobody writes to does not hold up the caller.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    File::options().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests;
