//! The members of a CDI file that are used. Annotations and unknown members are ignored.

use serde::Deserialize;

use super::edits::ContainerEdits;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CdiFile {
    /// The vendor and class of the devices, such as `vendor.com/class`.
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
