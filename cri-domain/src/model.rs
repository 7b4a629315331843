//! The records of a CRI server about its pods and containers, as plain values.
//!
//! A record has three parts: the *status* is the current state, the OCI *spec* is how the object
//! was created, and the *config* is what the kubelet requested. [`to_nri`](crate::to_nri) combines
//! them: the status takes precedence over the spec, and the spec over the config. Plugins therefore
//! see a container with all changes that were made to it.
//!
//! The identity of an object (ids, names, namespaces) comes from the record and its config, never
//! from the spec, because plugins can change the spec.
//!
//! Files:
//!
//! - `pod.rs` has the record of a pod.
//! - `container.rs` has the record of a container.
//! - `settings.rs` has the settings of the server.

mod container;
mod pod;
mod settings;

pub use self::container::{ContainerConfig, ContainerRecord, ContainerStatus, Exit, SeccompRequest};
pub use self::pod::{PodConfig, PodRecord, PodRef, PodState, PodStatus};
pub use self::settings::ServerSettings;
