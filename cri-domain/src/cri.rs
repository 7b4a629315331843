//! From and to the messages of the Container Runtime Interface, `runtime.v1` (feature `cri`).
//!
//! [`v1`] has what NRI has words for, generated from a `.proto` of our own. A server that has messages of its own reads them as these:
//! the numbers are the same, and what is not here is skipped.
//!
//! ```
//! use cri_domain::cri;
//! use prost::Message as _;
//!
//! // What the server got, as bytes.
//! let bytes = cri::v1::PodSandboxConfig {
//!     metadata: Some(cri::v1::PodSandboxMetadata { name: "web".to_owned(), ..Default::default() }),
//!     ..Default::default()
//! }
//! .encode_to_vec();
//!
//! let config = cri::pod_config(&cri::v1::PodSandboxConfig::decode(&bytes[..])?, "kata");
//! assert_eq!((&*config.name, &*config.runtime_handler), ("web", "kata"));
//! # Ok::<(), prost::DecodeError>(())
//! ```

mod container;
mod pod;
mod resources;
#[cfg(test)]
mod tests;

pub use self::container::{container_config, container_status, profile, to_container_status, to_profile};
pub use self::pod::{pod_config, pod_status, to_pod_status};
pub use self::resources::{CriLimits, limit, resources};

/// The messages.
#[allow(missing_docs, unused_qualifications, reason = "this is generated")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
}
