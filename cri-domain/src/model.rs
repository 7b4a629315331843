//! What a CRI server knows of its pods and containers, in plain values.
//!
//! A record has three parts, and what NRI is shown is made of them in [`words`](crate::to_nri) with one precedence: what is
//! (the *status*) counts before what was made (the OCI *spec*), and that before what was asked for (the *config*). So plugins
//! see a container as it is, with what they and others changed in it.
//!
//! Who something is (ids, names, namespaces) is the exception: it is the config's and the record's own and never the spec's,
//! which plugins can change.

mod container;
mod pod;
mod settings;

pub use self::container::{ContainerConfig, ContainerRecord, ContainerStatus, Exit, SeccompRequest};
pub use self::pod::{PodConfig, PodRecord, PodRef, PodState, PodStatus};
pub use self::settings::ServerSettings;
