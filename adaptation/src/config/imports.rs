//! The files that containerd's `config.toml` imports.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use glob::Pattern;
use toml::{Table, Value};

use super::Config;
use super::ConfigError;
use super::LoadError;
use super::containerd::{self, DISABLED_PLUGINS, IMPORTS};
use crate::config::settings::{Fault, KeyPath, Problem};

/// How many files may be read, the main file included.
const MAX_FILES: usize = 256;

/// Reads a file of containerd's and all its imports. Returns `None` if the file is not containerd's
/// or has no imports.
///
/// The order is containerd's: breadth first, each file once. Files that are read later override
/// earlier ones.
pub(super) fn read(path: &Path, text: &str) -> Option<Result<Config, LoadError>> {
    let imports = toml::from_str::<Table>(text).is_ok_and(|file| containerd::owns(&file) && file.contains_key(IMPORTS));
    imports.then(|| read_all(path))
}

fn read_all(main: &Path) -> Result<Config, LoadError> {
    let (mut merged, mut seen) = (Table::new(), HashSet::new());
    let mut pending = VecDeque::from([main.to_owned()]);
    while let Some(path) = pending.pop_front() {
        let unread = |source| LoadError::Read { path: path.clone(), source };
        if !seen.insert(fs::canonicalize(&path).map_err(unread)?) {
            continue;
        }
        if seen.len() > MAX_FILES {
            return Err(LoadError::TooMany { path: main.to_owned(), limit: MAX_FILES });
        }
        let text = fs::read_to_string(&path).map_err(unread)?;
        let read = alone(&text).and_then(|file| Ok((imported(&path, &file)?, file)));
        let (imports, file) = read.map_err(|source| LoadError::Content { path: path.clone(), source })?;
        pending.extend(imports);
        merge_files(&mut merged, file);
    }
    let mut problems = Vec::new();
    let config = containerd::read(merged, &mut problems);
    // Each file is valid by itself, so these problems concern several files and have no line.
    config
        .unless(problems.into_iter().map(Problem::new).collect())
        .map_err(|source| LoadError::Content { path: main.to_owned(), source })
}

/// Reads one file and reports the problems that do not depend on the other files.
fn alone(text: &str) -> Result<Table, ConfigError> {
    let mut table = Table::new();
    Config::from_text(text, |file| {
        let mut problems = Vec::new();
        let config = containerd::read(file.clone(), &mut problems);
        table = file;
        problems.retain(|(_, fault)| !is_about_several(fault));
        (config, problems)
    })?;
    Ok(table)
}

/// Returns whether a problem concerns several keys, which may be in different files.
fn is_about_several(fault: &Fault) -> bool {
    matches!(fault, Fault::Contradicts { .. } | Fault::Undoes { .. } | Fault::CannotConnect { .. })
}

/// Returns the files that a file imports. Relative paths begin at the directory of the importing
/// file.
pub(super) fn imported(path: &Path, file: &Table) -> Result<Vec<PathBuf>, ConfigError> {
    let imports = file.get(IMPORTS).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for import in imports {
        if import.contains('*') {
            let files = matching(dir, import).map_err(|error| {
                let fault = Fault::Value { found: format!("{import:?}"), expected: format!("a pattern: {error}") };
                ConfigError::new(vec![Problem::new((KeyPath::default().of(IMPORTS), fault))])
            })?;
            found.extend(files);
        } else {
            found.push(dir.join(import));
        }
    }
    Ok(found)
}

fn matching(dir: &Path, pattern: &str) -> Result<Vec<PathBuf>, glob::PatternError> {
    let pattern = match Path::new(pattern).is_absolute() {
        true => pattern.to_owned(),
        false => format!("{}/{pattern}", Pattern::escape(&dir.to_string_lossy())),
    };
    // A directory that cannot be read imports nothing, as in containerd.
    Ok(glob::glob(&pattern)?.flatten().collect())
}

/// Merges a file into the files before it. The lists of disabled plugins are joined; all other
/// settings of the later file override.
fn merge_files(into: &mut Table, mut from: Table) {
    if let (Some(Value::Array(all)), Some(Value::Array(more))) =
        (into.get_mut(DISABLED_PLUGINS), from.get_mut(DISABLED_PLUGINS))
    {
        all.append(more);
        from.remove(DISABLED_PLUGINS);
    }
    merge(into, from);
}

/// Merges tables recursively, key by key. Lists are replaced, not joined.
fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            (_, value) => _ = into.insert(key, value),
        }
    }
}
