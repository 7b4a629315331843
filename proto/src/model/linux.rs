//! The Linux-specific part of a container.

use std::collections::BTreeMap;

use super::{Device, Keyed, NetDevice, Resources, Scheduler, Seccomp, SecurityProfile, Unknown, Unnamed};

/// The Linux-specific part of a [`Container`](super::Container).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxContainer {
    /// The namespaces of the container.
    pub namespaces: Vec<Namespace>,
    /// The device nodes in the container.
    pub devices: Vec<Device>,
    /// The resources of the container.
    pub resources: Option<Resources>,
    /// The adjustment of the score for the OOM killer, from -1000 to 1000.
    pub oom_score_adj: Option<i64>,
    /// The cgroup of the container.
    pub cgroups_path: String,
    /// The I/O priority of the process.
    pub io_priority: Option<IoPriority>,
    /// The source of the seccomp policy.
    pub seccomp_profile: Option<SecurityProfile>,
    /// The seccomp policy.
    pub seccomp_policy: Option<Seccomp>,
    /// Kernel parameters in the namespaces of the container, by name.
    pub sysctl: BTreeMap<String, String>,
    /// Network devices that are moved into the container, by name on the host.
    pub net_devices: BTreeMap<String, NetDevice>,
    /// The scheduling of the process.
    pub scheduler: Option<Scheduler>,
    /// The share of caches and memory bandwidth (Intel RDT).
    pub rdt: Option<Rdt>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// A Linux namespace of a pod or container (`LinuxNamespace` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// The kind of namespace, such as `network`.
    pub kind: String,
    /// The file of an existing namespace to join. Empty for a new namespace.
    pub path: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Namespace {
    /// Creates a reference to an existing namespace by its file, or to a new one if `path` is
    /// empty.
    pub fn new(kind: impl Into<String>, path: impl Into<String>) -> Self {
        Self { kind: kind.into(), path: path.into(), unknown: Unknown::default() }
    }
}

impl Keyed for Namespace {
    fn key(&self) -> &str {
        &self.kind
    }

    fn set_key(&mut self, key: String) {
        self.kind = key;
    }
}

/// The I/O priority of a container's process, as in ioprio_set(2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoPriority {
    /// The scheduling class.
    pub class: IoPriorityClass,
    /// The priority within the class. Lower numbers come first.
    pub priority: i32,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl IoPriority {
    /// Creates a priority within a class.
    pub fn new(class: IoPriorityClass, priority: i32) -> Self {
        Self { class, priority, unknown: Unknown::default() }
    }
}

/// The class of an [`IoPriority`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IoPriorityClass {
    /// No class is set.
    #[default]
    None,
    /// Real time: before all other classes.
    RealTime,
    /// Best effort: the class of ordinary processes.
    BestEffort,
    /// Idle: only while no other process uses the disk.
    Idle,
    /// A class that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}

/// The share of caches and memory bandwidth of a container (Intel RDT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rdt {
    /// The id of the class of service.
    pub clos_id: Option<String>,
    /// The lines of the schemata file of the class.
    pub schemata: Option<Vec<String>>,
    /// Whether the usage of the container is monitored.
    pub enable_monitoring: Option<bool>,
    /// Whether earlier settings are removed. Only used in adjustments.
    pub remove: bool,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Rdt {
    /// Creates settings that remove earlier ones.
    pub fn removal() -> Self {
        Self { remove: true, ..Self::default() }
    }
}
