//! Converts messages of the Container Runtime Interface, `runtime.v1`, from and to the model
//! (feature `cri`).
//!
//! [`v1`] has the messages and fields that NRI can express. Its `.proto` file uses the field
//! numbers of Kubernetes, so a server with other generated types can encode its messages and decode
//! them as these. Decoding skips all other fields.
//!
//! ```
//! use cri_domain::cri;
//! use prost::Message as _;
//!
//! // The bytes that the server received.
//! let name = "web".to_owned();
//! let metadata = cri::v1::PodSandboxMetadata { name, ..Default::default() };
//! let bytes = cri::v1::PodSandboxConfig {
//!     metadata: Some(metadata),
//!     ..Default::default()
//! }
//! .encode_to_vec();
//!
//! let config = cri::pod_config(&cri::v1::PodSandboxConfig::decode(&bytes[..])?, "kata");
//! assert_eq!((&*config.name, &*config.runtime_handler), ("web", "kata"));
//! # Ok::<(), prost::DecodeError>(())
//! ```
//!
//! Files, lowest first:
//!
//! - `resources.rs` converts limits.
//! - `pod.rs` converts pods.
//! - `container.rs` converts containers.

mod container;
mod pod;
mod resources;
#[cfg(test)]
mod tests;

pub use self::container::{container_config, container_status, profile, to_container_status, to_profile};
pub use self::pod::{pod_config, pod_status, to_pod_status};
pub use self::resources::{CriLimits, limit, resources};

/// The messages of the CRI, generated from `cri.proto`.
#[allow(missing_docs, unused_qualifications, reason = "this is generated")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
}
