//! Applies an [`Adjustment`] to an OCI runtime spec: a JSON document in, a JSON document out.
//!
//! What an adjustment does not mention stays as it is, in its order, also what nobody here has ever heard of. An
//! adjustment is applied as a whole or, with an error that names the field, not at all, and the same input always gives
//! the same bytes. Nothing is assumed to be in the document.
//!
//! ```
//! use cri_domain::generator::{Host, adjust};
//! use nri_proto::{Adjustment, EnvVar};
//! use serde_json::json;
//!
//! let mut spec = json!({"ociVersion": "1.3.0", "process": {"env": ["PATH=/bin", "HTTP_PROXY=http://proxy"]}});
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
//! [`adjust_json`] does the same from text to text. [`Host`] has what the generator asks the machine and the operator;
//! what is ready for a real machine is in [`host`]. [`diff`] says in words how two specs differ.
//!
//! # Order
//!
//! Annotations, env, args, hooks, CDI devices, devices, cgroup, OOM score, I/O priority, scheduler, seccomp, namespaces,
//! sysctls, network devices, memory policy, resources, classes, RDT, mounts, rlimits. So what a CDI device brings along
//! can be changed by what plugins say. In each list and map removals come before what is set.

mod annotations;
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

/// What was applied, but for what the host has no function for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// What was asked for and could not be done: classes without a resolver, CDI devices without an injector, limits of
    /// huge pages where there are none.
    pub ignored: Vec<Field>,
    /// ContainerLimits that were asked for together with the file of cgroups of version 2 that they are written to. What is said of the file
    /// counts: runtimes write it last.
    pub overridden: Vec<Field>,
}

/// Applies an adjustment to a spec, or leaves the spec as it is.
pub fn adjust(spec: &mut Value, adjustment: &Adjustment, host: &Host) -> Result<ApplyReport, SpecError> {
    if *adjustment == Adjustment::default() {
        return Ok(ApplyReport::default());
    }
    let mut draft = spec.clone();
    let adjusted = edit(&mut draft, adjustment, host)?;
    *spec = draft;
    Ok(adjusted)
}

/// Applies an adjustment to a spec, from text to text.
pub fn adjust_json(spec: &str, adjustment: &Adjustment, host: &Host) -> Result<(String, ApplyReport), SpecError> {
    let mut draft = serde_json::from_str(spec).map_err(SpecError::Read)?;
    let adjusted = edit(&mut draft, adjustment, host)?;
    Ok((draft.to_string(), adjusted))
}

/// Gives a container that exists new limits: those that are set change, and all others stay as they are. It is applied to
/// the spec as a whole, or not at all.
///
/// A limit of memory leaves that of swap, but swap cannot be limited to less than memory: then it is raised with it. Where none
/// is in the spec, or both are the same because nothing is to be swapped, they are limited together, as for a container that is created.
///
/// ```
/// use cri_domain::generator::{Host, update};
/// use nri_proto::{Memory, Resources};
/// use serde_json::json;
///
/// let mut spec = json!({"linux": {"resources": {"memory": {"limit": 100, "swap": 300}, "pids": {"limit": 9}}}});
/// let memory = Memory { limit: Some(200), ..Memory::default() };
/// update(&mut spec, &Resources { memory: Some(memory), ..Resources::default() }, &Host::default())?;
/// assert_eq!(spec["linux"]["resources"], json!({"memory": {"limit": 200, "swap": 300}, "pids": {"limit": 9}}));
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

/// On an error some of it is done.
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
        host::inject(spec, cdi_devices, host, &mut adjusted)?;
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
