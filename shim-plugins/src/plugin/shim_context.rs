//! Where a shim runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a shim runs: for which container, in which directory, under which containerd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimContext {
    /// The id of the container, or of the first one if the shim serves a group.
    pub id: String,
    /// The namespace of the container.
    pub namespace: String,
    /// The bundle: the directory in which the shim keeps what belongs to the container.
    pub bundle: PathBuf,
    /// Where containerd serves gRPC.
    pub grpc_address: String,
    /// Where containerd serves ttrpc, and takes events. Every containerd says so; if one does not, it is empty, and events
    /// wait until the shim ends.
    pub ttrpc_address: String,
    /// The version of containerd, if it says so.
    pub containerd_version: Option<String>,
    /// Whether containerd wants to hear more than usual.
    pub debug: bool,
}
