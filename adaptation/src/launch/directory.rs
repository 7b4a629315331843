//! Lists the plugin directory.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nri_proto::PluginId;

use super::error::{LaunchError, Unfit, UntrustedPath};
use super::trust;

/// A program in the plugin directory.
#[derive(Clone, Debug)]
pub(super) struct PluginProgram {
    pub(super) id: PluginId,
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// The properties of a file that differ after the program was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
}

/// The contents of the plugin directory at one moment.
#[derive(Debug, Default)]
pub(super) struct DirectoryListing {
    /// The programs, in the order of their file names.
    pub(super) found: Vec<PluginProgram>,
    /// The entries that look like programs but are not launched, by file name.
    pub(super) unfit: Vec<(OsString, Unfit)>,
}

/// Lists the plugin directory. A missing directory counts as empty. At most `limit` programs are
/// found.
pub(super) fn look(dir: &Path, limit: usize) -> Result<DirectoryListing, LaunchError> {
    let names = match names(dir)? {
        Some(names) => names,
        None => return Ok(DirectoryListing::default()),
    };
    let mut look = DirectoryListing::default();
    for name in names {
        match inspect(dir, &name) {
            Ok(None) => {}
            Ok(Some(_)) if look.found.len() == limit => look.unfit.push((name, Unfit::TooMany { limit })),
            Ok(Some(found)) => look.found.push(found),
            Err(unfit) => look.unfit.push((name, unfit)),
        }
    }
    Ok(look)
}

/// Returns the names of the directory's entries, sorted. Returns `None` if the directory is
/// missing.
fn names(dir: &Path) -> Result<Option<Vec<OsString>>, LaunchError> {
    let unread = |source| LaunchError::ReadDirectory { dir: dir.to_owned(), source };
    match fs::metadata(dir) {
        // Missing. Whether others could have removed the directory is checked next: if so, an error
        // keeps the launched plugins running.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        metadata => _ = metadata.map_err(unread)?,
    }
    let is_there = trust::check_if_there(dir);
    if !is_there.map_err(|source| LaunchError::UntrustedDirectory { dir: dir.to_owned(), source })? {
        return Ok(None);
    }
    let entries = fs::read_dir(dir).map_err(unread)?;
    let mut names: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>().map_err(unread)?;
    names.sort();
    Ok(Some(names))
}

/// Returns the program behind a name, or `None` if the entry is not a program. Symbolic links are
/// followed.
fn inspect(dir: &Path, name: &OsString) -> Result<Option<PluginProgram>, Unfit> {
    let path = dir.join(name);
    let metadata = match fs::metadata(&path) {
        // The entry was removed after the directory was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(error) => return Err(taken_away(name, path).unwrap_or(Unfit::Inspect(error))),
        Ok(metadata) => metadata,
    };
    if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
        return taken_away(name, path).map_or(Ok(None), Err);
    }
    let id: PluginId = name.to_string_lossy().parse().map_err(Unfit::Name)?;
    let found = PluginProgram { id, path, stamp: Stamp::of(&metadata) };
    match trust::check(&found.path) {
        Ok(_) => Ok(Some(found)),
        Err(source) => Err(Unfit::Untrusted { found, source }),
    }
}

/// Checks a symbolic link that leads to no program. If others could have removed the program, the
/// entry counts as untrusted, so that a plugin that runs from it is not ended.
fn taken_away(name: &OsStr, path: PathBuf) -> Option<Unfit> {
    if !path.is_symlink() {
        return None;
    }
    let source = trust::check_if_there(&path).err().filter(|error| !matches!(error, UntrustedPath::Inspect { .. }))?;
    let id = name.to_string_lossy().parse().ok()?;
    Some(Unfit::Untrusted { found: PluginProgram { id, path, stamp: Stamp::default() }, source })
}

impl DirectoryListing {
    /// Returns all programs, trusted or not.
    pub(super) fn programs(&self) -> impl Iterator<Item = &PluginProgram> {
        let untrusted = self.unfit.iter().filter_map(|(_, unfit)| match unfit {
            Unfit::Untrusted { found, source: _ } => Some(found),
            Unfit::Name(_) | Unfit::Inspect(_) | Unfit::TooMany { limit: _ } => None,
        });
        self.found.iter().chain(untrusted)
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests;
