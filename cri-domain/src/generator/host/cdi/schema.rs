//! What is in a file. Annotations are for people, and newer members not for us.

use serde::Deserialize;

use super::edits::ContainerEdits;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CdiFile {
    /// Such as `vendor.com/class`.
    pub(super) kind: String,
    pub(super) devices: Vec<CdiFileDevice>,
    #[serde(default)]
    pub(super) container_edits: ContainerEdits,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CdiFileDevice {
    pub(super) name: String,
    #[serde(default)]
    pub(super) container_edits: ContainerEdits,
}
