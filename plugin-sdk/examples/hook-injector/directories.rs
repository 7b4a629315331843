//! The directories with the definitions of hooks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use nri_plugin::Refusal;
use tracing::warn;

use super::definition::Definition;

/// Directories of hooks. A file overrides files of the same name in the directories before.
#[derive(Debug)]
pub(crate) struct Directories(Vec<PathBuf>);

impl Directories {
    pub(crate) fn from_list(list: &str) -> Self {
        Self(std::env::split_paths(list).collect())
    }

    /// Reads all hooks, ordered by file name. Fails on the first invalid file.
    pub(crate) fn read(&self) -> Result<Vec<Definition>, Refusal> {
        self.files()?.values().map(|file| read(file)).collect()
    }

    /// Reads the valid hooks, ordered by file name. Invalid files are skipped with a warning, so
    /// that a half-written file does not prevent containers from starting.
    pub(crate) fn read_what_can_be(&self) -> Vec<Definition> {
        let files = self.files().unwrap_or_else(|error| {
            warn!(%error, "could not list hooks");
            BTreeMap::new()
        });
        let read_one = |file: &PathBuf| read(file).inspect_err(|error| warn!(%error, "skipping an invalid hook")).ok();
        files.values().filter_map(read_one).collect()
    }

    fn files(&self) -> Result<BTreeMap<OsString, PathBuf>, Refusal> {
        let mut files = BTreeMap::new();
        for directory in &self.0 {
            let entries = match std::fs::read_dir(directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("list", directory, &error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| failed("list", directory, &error))?;
                if Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == "json") {
                    files.insert(entry.file_name(), entry.path());
                }
            }
        }
        Ok(files)
    }
}

fn read(file: &Path) -> Result<Definition, Refusal> {
    let text = std::fs::read_to_string(file).map_err(|error| failed("read", file, &error))?;
    Definition::parse(&text).map_err(|error| failed("read the hook", file, &error))
}

fn failed(act: &str, path: &Path, cause: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(format_args!("could not {act} {}: {cause}", path.display()))
}
