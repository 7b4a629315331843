//! Pods and containers as NRI sees them, from [records](crate::model).
//!
//! These are functions without failure: what is not in a record, or is not what OCI says it is, is not shown.
//!
//! | what | from |
//! |---|---|
//! | ids, names, namespace, uid, runtime handler | record and config |
//! | labels | the server's own, then config |
//! | annotations | spec, then config but for those that plugins removed, key by key |
//! | args, env, mounts, resources, OOM score | spec; without a spec, config |
//! | hooks, rlimits, user, devices, namespaces, cgroup, sysctls, network devices, scheduler, I/O priority, RDT, seccomp policy | spec |
//! | classes of block I/O and RDT, image | config |
//! | CDI devices | config with those that plugins gave it, and annotations of config |
//! | seccomp profile | config, else the deprecated path, else what the server does for containers without; none for privileged ones |
//! | state, process, times, exit code, reason, message, addresses | status |

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

/// What the server is set to, as far as it shows in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What a container gets that asks for no seccomp profile (containerd's `unset_seccomp_profile`); none if it gets none.
    pub unset_seccomp_profile: Option<nri_proto::SecurityProfile>,
    /// Whether a plugin may put a container into a cgroup that is not below its pod's. Otherwise it may not put one of a pod whose
    /// [`cgroup_parent`](crate::model::PodConfig::cgroup_parent) is empty anywhere.
    pub any_cgroup: bool,
}

/// Those of `first`, and those of `then` that it does not have.
fn layered(first: BTreeMap<String, String>, then: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut layered = then.clone();
    layered.extend(first);
    layered
}

#[cfg(test)]
mod tests;
