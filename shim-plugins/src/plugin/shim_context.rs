//! The container and the containerd that a shim runs for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The container, the bundle and the containerd that a shim runs for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimContext {
    /// The id of the container, or of the first container if the shim serves a group.
    pub id: String,
    /// The namespace of the container.
    pub namespace: String,
    /// The bundle: the directory with the files of the container.
    pub bundle: PathBuf,
    /// The gRPC address of containerd.
    pub grpc_address: String,
    /// The ttrpc address of containerd, which receives events.
    ///
    /// Every containerd sends this address. If it is empty, events wait until the shim ends.
    pub ttrpc_address: String,
    /// The version of containerd, if containerd sends it.
    pub containerd_version: Option<String>,
    /// Whether containerd asks for debug output.
    pub debug: bool,
}
