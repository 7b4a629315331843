//! The manifests of this workspace, as data.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

pub(crate) struct Workspace {
    pub(crate) dir: PathBuf,
    pub(crate) root: Table,
    pub(crate) members: Vec<Member>,
}

pub(crate) struct Member {
    /// The path from the root, with slashes: `cmd/crid`.
    pub(crate) folder: String,
    pub(crate) toml: Table,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the tests lie below the root")?.to_owned();
        let mut workspace = Self { root: read_toml(&dir.join("Cargo.toml"))?, dir, members: Vec::new() };
        let listed = workspace.table("members").and_then(Value::as_array).context("members are a list")?;
        let folders = listed.iter().map(|folder| folder.as_str().map(str::to_owned).context("a member is a path"));
        for folder in folders.collect::<Result<Vec<_>>>()? {
            let toml = read_toml(&workspace.dir.join(&folder).join("Cargo.toml"))?;
            workspace.members.push(Member { folder, toml });
        }
        Ok(workspace)
    }

    /// Reads a file, by its path from the root.
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        read(&self.dir.join(path))
    }

    /// Returns the entry of a name in `[workspace.dependencies]`.
    pub(crate) fn shared_dependency(&self, name: &str) -> Option<&Value> {
        self.table("dependencies")?.get(name)
    }

    fn table(&self, key: &str) -> Option<&Value> {
        self.root.get("workspace")?.get(key)
    }
}

impl Member {
    pub(crate) fn package(&self) -> &str {
        self.toml.get("package").and_then(|package| package.get("name")).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

fn read_toml(path: &Path) -> Result<Table> {
    read(path)?.parse().with_context(|| format!("could not parse {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}
