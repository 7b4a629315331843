use std::collections::BTreeMap;

use super::{Device, Keyed, NetDevice, Resources, Scheduler, Seccomp, SecurityProfile, Unknown, Unnamed};

/// The part of a [`Container`](super::Container) that only Linux has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxContainer {
    /// The namespaces of the container.
    pub namespaces: Vec<Namespace>,
    /// The device nodes in it.
    pub devices: Vec<Device>,
    /// What it may use.
    pub resources: Option<Resources>,
    /// How readily it is killed when memory runs out, from -1000 to 1000.
    pub oom_score_adj: Option<i64>,
    /// The cgroup of the container.
    pub cgroups_path: String,
    /// The I/O priority of the process.
    pub io_priority: Option<IoPriority>,
    /// Where its seccomp policy comes from.
    pub seccomp_profile: Option<SecurityProfile>,
    /// The seccomp policy itself.
    pub seccomp_policy: Option<Seccomp>,
    /// Kernel parameters of its namespaces.
    pub sysctl: BTreeMap<String, String>,
    /// Network devices that are moved into it, by their names on the host.
    pub net_devices: BTreeMap<String, NetDevice>,
    /// How the process is scheduled.
    pub scheduler: Option<Scheduler>,
    /// Its share of caches and memory bandwidth.
    pub rdt: Option<Rdt>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// A namespace of a pod or container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// What is separate in it, such as `network`.
    pub kind: String,
    /// The file of an existing one to join; empty for a new one.
    pub path: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Namespace {
    /// The existing namespace of that file; a new one if `path` is empty.
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

/// The I/O priority of a container's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoPriority {
    /// Which come first.
    pub class: IoPriorityClass,
    /// Who comes first within a class; lower numbers do.
    pub priority: i32,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl IoPriority {
    /// A priority within a class.
    pub fn new(class: IoPriorityClass, priority: i32) -> Self {
        Self { class, priority, unknown: Unknown::default() }
    }
}

/// The class of an [`IoPriority`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IoPriorityClass {
    /// None is set.
    #[default]
    None,
    /// Before all others.
    RealTime,
    /// In turn.
    BestEffort,
    /// Only if nobody else wants the disk.
    Idle,
    /// A class that we do not know yet.
    Unnamed(Unnamed<Self>),
}

/// The share of caches and memory bandwidth of a container (Intel RDT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rdt {
    /// The class of service.
    pub clos_id: Option<String>,
    /// The lines of the class's schemata file.
    pub schemata: Option<Vec<String>>,
    /// Whether the container's use is measured.
    pub enable_monitoring: Option<bool>,
    /// Asks to drop what was set before; only means something in an adjustment.
    pub remove: bool,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Rdt {
    /// Drops what was set before.
    pub fn removal() -> Self {
        Self { remove: true, ..Self::default() }
    }
}
