//! Determines which containers share a shim.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

/// Annotations whose value is the name of a group, in order of precedence.
const GROUPS: [&str; 2] = ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"];

/// The part of an OCI spec that names the group.
#[derive(Deserialize)]
struct AnnotatedSpec {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Returns the group of the container in a bundle: the group that its annotations name, such as its
/// pod, or the id of the container.
///
/// Without a readable `config.json` the container is its own group, because `delete` is also called
/// when little of the bundle is left.
pub(crate) fn group(bundle: &Path, id: &str) -> String {
    let spec: Option<AnnotatedSpec> =
        File::open(bundle.join("config.json")).ok().and_then(|file| serde_json::from_reader(BufReader::new(file)).ok());
    let annotations = spec.map(|spec| spec.annotations).unwrap_or_default();
    GROUPS.iter().find_map(|key| annotations.get(*key)).map_or(id, String::as_str).to_owned()
}
