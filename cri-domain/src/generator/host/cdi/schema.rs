//! What is in a file. Annotations are for people, and newer members not for us.

use serde::Deserialize;

use super::edits::Edits;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File {
    /// Such as `vendor.com/class`.
    pub(super) kind: String,
    pub(super) devices: Vec<Device>,
    #[serde(default)]
    pub(super) container_edits: Edits,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) name: String,
    #[serde(default)]
    pub(super) container_edits: Edits,
}
