//! Which containers share a shim.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

/// Annotations whose value is the name of a group, the strongest first.
const GROUPS: [&str; 2] = ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"];

#[derive(Deserialize)]
struct AnnotatedSpec {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The group of the container in a bundle: that of its pod, or its own id.
///
/// A bundle without a readable `config.json` is one for itself: `delete` comes also when little is left.
pub(crate) fn group(bundle: &Path, id: &str) -> String {
    let spec: Option<AnnotatedSpec> =
        File::open(bundle.join("config.json")).ok().and_then(|file| serde_json::from_reader(BufReader::new(file)).ok());
    let annotations = spec.map(|spec| spec.annotations).unwrap_or_default();
    GROUPS.iter().find_map(|key| annotations.get(*key)).map_or(id, String::as_str).to_owned()
}
