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

/// Those of `first`, and those of `then` that it does not have.
fn layered(first: BTreeMap<String, String>, then: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut layered = then.clone();
    layered.extend(first);
    layered
}

#[cfg(test)]
mod tests;
