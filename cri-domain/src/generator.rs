//! Applies an [`Adjustment`] to an OCI runtime spec: a JSON document in, a JSON document out.
//!
//! Members that the adjustment does not mention keep their values and their order, including
//! members that OCI does not define. An adjustment is applied as a whole or not at all; the error
//! names the field. The same input always gives the same bytes. The document may lack any member.
//!
//! ```
//! use cri_domain::generator::{Host, adjust};
//! use nri_proto::{Adjustment, EnvVar};
//! use serde_json::json;
//!
//! let env = ["PATH=/bin", "HTTP_PROXY=http://proxy"];
//! let mut spec = json!({"ociVersion": "1.3.0", "process": {"env": env}});
//! let mut adjustment = Adjustment::default();
//! adjustment.env.remove("HTTP_PROXY");
//! adjustment.env.set(EnvVar::new("GOMAXPROCS", "4"))?;
//!
//! adjust(&mut spec, &adjustment, &Host::default())?;
//! assert_eq!(spec["process"]["env"], json!(["PATH=/bin", "GOMAXPROCS=4"]));
//!
//! // A name cannot have an equals sign in it, and then nothing changes.
//! let before = spec.clone();
//! adjustment.env.set(EnvVar::new("A=B", "1"))?;
//! let error = adjust(&mut spec, &adjustment, &Host::default()).unwrap_err();
//! assert_eq!(error.to_string(), r#"cannot adjust Env "A=B": the name has an equals sign"#);
//! assert_eq!(spec, before);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`adjust_json`] applies an adjustment from text to text. [`Host`] has the functions through
//! which the generator queries the machine and the operator, and [`host`] has implementations for a
//! real machine. [`diff`] describes how two specs differ.
//!
//! # Order
//!
//! Annotations, env, args, hooks, CDI devices, devices, cgroup, OOM score, I/O priority, scheduler,
//! seccomp, namespaces, sysctls, network devices, memory policy, resources, classes, RDT, mounts,
//! rlimits. An adjustment can therefore change what a CDI device has added. In each list and map,
//! removals come before additions.
//!
//! # Files
//!
//! - `error.rs` has the errors, `document.rs` accesses JSON documents, `check.rs` checks values.
//! - `host.rs` has the functions that query the machine, and implementations of them.
//! - `resources.rs` applies limits of CPU, memory, huge pages and processes, and cgroup files.
//! - `annotations.rs`, `cdi_devices.rs`, `devices.rs`, `env.rs`, `hooks.rs`, `memory_policy.rs`,
//!   `mounts.rs`, `namespaces.rs`, `net_devices.rs`, `process.rs`, `rdt.rs`, `rlimits.rs`,
//!   `seccomp.rs` and `sysctl.rs` each apply one part of an adjustment.
//! - `diff.rs` describes how two specs differ.

mod annotations;
mod cdi_devices;
mod check;
mod devices;
pub mod diff;
mod document;
mod env;
mod error;
mod hooks;
pub mod host;
mod memory_policy;
mod mounts;
mod namespaces;
mod net_devices;
mod process;
mod rdt;
mod resources;
mod rlimits;
mod seccomp;
mod sysctl;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use nri_proto::{Adjustment, Field, LinuxAdjustment, Resources};
use serde_json::Value;

use self::document::Object;
pub use self::error::{HostError, SpecError};
pub use self::host::Host;

/// The parts of an adjustment or update that were not applied as requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Fields that were requested and that the host does not support: classes without a resolver,
    /// CDI devices without an injector, limits of huge pages on a machine without huge pages.
    pub ignored: Vec<Field>,
    /// Limits that were requested together with the file of cgroups of version 2 that sets the same
    /// limit. The file takes effect, because runtimes write files last.
    pub overridden: Vec<Field>,
}

/// Applies an adjustment to a spec. On an error the spec is unchanged.
pub fn adjust(spec: &mut Value, adjustment: &Adjustment, host: &Host) -> Result<ApplyReport, SpecError> {
    if *adjustment == Adjustment::default() {
        return Ok(ApplyReport::default());
    }
    let mut draft = spec.clone();
    let adjusted = edit(&mut draft, adjustment, host)?;
    *spec = draft;
    Ok(adjusted)
}

/// Applies an adjustment to a spec, from JSON text to JSON text.
pub fn adjust_json(spec: &str, adjustment: &Adjustment, host: &Host) -> Result<(String, ApplyReport), SpecError> {
    let mut draft = serde_json::from_str(spec).map_err(SpecError::Read)?;
    let adjusted = edit(&mut draft, adjustment, host)?;
    Ok((draft.to_string(), adjusted))
}

/// Applies new limits to the spec of a container that exists. Limits that are not set are
/// unchanged. On an error the spec is unchanged.
///
/// A new limit of memory does not change that of swap, unless it is higher: then the limit of swap
/// is raised to the same value. If the spec has no limit of swap, or an equal one because the
/// container may not swap, both limits get the new value, as for a container that is created.
///
/// ```
/// use cri_domain::generator::{Host, update};
/// use nri_proto::{Memory, Resources};
/// use serde_json::json;
///
/// let before = json!({"memory": {"limit": 100, "swap": 300}, "pids": {"limit": 9}});
/// let mut spec = json!({"linux": {"resources": before}});
/// let memory = Memory { limit: Some(200), ..Memory::default() };
/// let resources = Resources { memory: Some(memory), ..Resources::default() };
/// update(&mut spec, &resources, &Host::default())?;
/// let after = json!({"memory": {"limit": 200, "swap": 300}, "pids": {"limit": 9}});
/// assert_eq!(spec["linux"]["resources"], after);
/// # Ok::<(), cri_domain::generator::SpecError>(())
/// ```
pub fn update(spec: &mut Value, resources: &Resources, host: &Host) -> Result<ApplyReport, SpecError> {
    let mut draft = spec.clone();
    let mut adjusted = ApplyReport::default();
    let document = document::root(&mut draft)?;
    resources::update(document, resources, host, &mut adjusted)?;
    *spec = draft;
    Ok(adjusted)
}

/// Applies an adjustment in place. On an error the spec may be partly adjusted.
fn edit(spec: &mut Value, adjustment: &Adjustment, host: &Host) -> Result<ApplyReport, SpecError> {
    let Adjustment { annotations, mounts, env, hooks, linux, rlimits, cdi_devices, args, unknown: _ } = adjustment;
    let mut adjusted = ApplyReport::default();
    let document = document::root(spec)?;
    annotations::adjust(document, annotations, host)?;
    env::adjust(document, env)?;
    process::adjust_args(document, args)?;
    if let Some(hooks) = hooks {
        hooks::adjust(document, hooks)?;
    }
    if !cdi_devices.is_empty() {
        cdi_devices::adjust(spec, cdi_devices, host, &mut adjusted)?;
    }
    let document = document::root(spec)?;
    if let Some(linux) = linux {
        adjust_linux(document, linux, host, &mut adjusted)?;
    }
    mounts::adjust(document, mounts, host)?;
    rlimits::adjust(document, rlimits)?;
    Ok(adjusted)
}

fn adjust_linux(
    spec: &mut Object,
    linux: &LinuxAdjustment,
    host: &Host,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    let LinuxAdjustment {
        devices,
        resources,
        cgroups_path,
        oom_score_adj,
        io_priority,
        seccomp_policy,
        namespaces,
        sysctl,
        net_devices,
        scheduler,
        rdt,
        memory_policy,
        unknown: _,
    } = linux;
    devices::adjust(spec, devices)?;
    process::adjust_cgroup(spec, cgroups_path, host)?;
    process::adjust_oom_score(spec, *oom_score_adj)?;
    if let Some(priority) = io_priority {
        process::adjust_io_priority(spec, priority)?;
    }
    if let Some(scheduler) = scheduler {
        process::adjust_scheduler(spec, scheduler)?;
    }
    if let Some(policy) = seccomp_policy {
        seccomp::adjust(spec, policy)?;
    }
    namespaces::adjust(spec, namespaces)?;
    sysctl::adjust(spec, sysctl, host)?;
    sysctl::check_moved(spec, namespaces, host)?;
    net_devices::adjust(spec, net_devices)?;
    if let Some(policy) = memory_policy {
        memory_policy::adjust(spec, policy)?;
    }
    if let Some(resources) = resources {
        resources::adjust(spec, resources, host, adjusted)?;
    }
    if let Some(rdt) = rdt {
        rdt::adjust(spec, rdt)?;
    }
    Ok(())
}
