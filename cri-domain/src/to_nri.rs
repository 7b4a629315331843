//! Converts records of the [`model`](crate::model) to pods and containers of `nri-proto`.
//!
//! The conversions never fail. A value that is missing in a record, or that does not have the type
//! that OCI defines, is left out.
//!
//! | value | source, the first one that has the value |
//! |---|---|
//! | state, process, times, exit code, reason, message, addresses | status |
//! | ids, names, namespace, uid, runtime handler | record and config |
//! | labels | the record, then the config |
//! | annotations | per key: the spec, then the config without removed annotations |
//! | args, env, mounts, resources, OOM score | the spec if there is one, else the config |
//! | hooks, rlimits, user, devices, namespaces, cgroup, sysctls, network devices | the spec |
//! | scheduler, I/O priority, RDT, seccomp policy | the spec |
//! | classes of block I/O and RDT, image | the config |
//! | CDI devices | the config, with annotations of the config |
//! | seccomp profile | privileged: none; else the config, then [`ServerSettings`] |
//!
//! Files, lowest first:
//!
//! - `json.rs` reads members of a JSON document.
//! - `spec.rs` converts parts of an OCI spec.
//! - `seccomp.rs` converts seccomp profiles and policies.
//! - `pod.rs` converts pods.
//! - `container.rs` converts containers.
//!
//! [`ServerSettings`]: crate::model::ServerSettings

mod container;
mod json;
mod pod;
mod seccomp;
mod spec;

use std::collections::BTreeMap;

pub use self::container::container;
pub use self::pod::pod;
pub use self::seccomp::profile;
pub use self::spec::{hooks, resources};

/// Merges two maps. Entries of `first` take precedence over those of `then`.
fn merge_maps(first: BTreeMap<String, String>, then: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut merged = then.clone();
    merged.extend(first);
    merged
}

#[cfg(test)]
mod tests;
