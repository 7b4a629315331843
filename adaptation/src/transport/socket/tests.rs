mod accepting;
mod binding;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

/// A path in a directory of its own, which is removed in the end.
fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    (directory, path)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// The error of a bind, with its cause.
#[track_caller]
fn refused(path: &Path) -> String {
    let error = Socket::bind(path).expect_err("it was bound");
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
