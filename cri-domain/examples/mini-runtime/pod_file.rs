use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The JSON file that describes the pod to run.
///
/// ```json
/// {"name": "web", "containers": [{"name": "app", "args": ["sh", "-c", "echo hello"]}]}
/// ```
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodFile {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) containers: Vec<ContainerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContainerFile {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: Vec<String>,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
    /// The limit of memory, in bytes.
    #[serde(default)]
    pub(crate) memory_limit: Option<i64>,
}

impl PodFile {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} does not describe a pod", path.display()))
    }
}
