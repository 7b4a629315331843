mod accepting;
mod binding;
mod grouping;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

/// Returns a path in a new directory, which is removed when the first value is dropped.
fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    (directory, path)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Returns the error of a bind, with its cause.
#[track_caller]
fn refused(path: &Path) -> String {
    let error = Socket::bind(path).expect_err("it was bound");
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
