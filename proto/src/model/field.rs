//! The fields of a container that a plugin can own.

use super::Unnamed;

/// A field of a container that a plugin can own. The names are those of upstream, which are also in
/// its errors.
///
/// ```
/// use nri_proto::Field;
///
/// assert_eq!(Field::MemTCPLimit.to_string(), "MemTCPLimit");
/// assert_eq!(Field::named("Env"), Some(Field::Env));
/// assert!(Field::Env.has_entries() && !Field::Args.has_entries());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// No field.
    #[default]
    None,
    /// An annotation, by its key.
    Annotations,
    /// A mount, by its destination.
    Mounts,
    /// The OCI hooks. Several plugins can own them together.
    OciHooks,
    /// A device node, by its path.
    Devices,
    /// A CDI device, by its name.
    CdiDevices,
    /// An environment variable, by its name.
    Env,
    /// The command and its arguments.
    Args,
    /// [`Memory::limit`](super::Memory::limit).
    MemLimit,
    /// [`Memory::reservation`](super::Memory::reservation).
    MemReservation,
    /// [`Memory::swap`](super::Memory::swap).
    MemSwapLimit,
    /// [`Memory::kernel`](super::Memory::kernel).
    MemKernelLimit,
    /// [`Memory::kernel_tcp`](super::Memory::kernel_tcp).
    MemTCPLimit,
    /// [`Memory::swappiness`](super::Memory::swappiness).
    MemSwappiness,
    /// [`Memory::disable_oom_killer`](super::Memory::disable_oom_killer).
    MemDisableOomKiller,
    /// [`Memory::use_hierarchy`](super::Memory::use_hierarchy).
    MemUseHierarchy,
    /// [`Cpu::shares`](super::Cpu::shares).
    CPUShares,
    /// [`Cpu::quota`](super::Cpu::quota).
    CPUQuota,
    /// [`Cpu::period`](super::Cpu::period).
    CPUPeriod,
    /// [`Cpu::realtime_runtime`](super::Cpu::realtime_runtime).
    CPURealtimeRuntime,
    /// [`Cpu::realtime_period`](super::Cpu::realtime_period).
    CPURealtimePeriod,
    /// [`Cpu::cpus`](super::Cpu::cpus).
    CPUSetCPUs,
    /// [`Cpu::mems`](super::Cpu::mems).
    CPUSetMems,
    /// The limit on processes and threads.
    PidsLimit,
    /// The limit on huge pages, by page size.
    HugepageLimits,
    /// The block I/O class.
    BlockioClass,
    /// The RDT class, for caches and memory bandwidth.
    RdtClass,
    /// A cgroup v2 setting, by the name of its file.
    CgroupsUnified,
    /// The cgroup path.
    CgroupsPath,
    /// The adjustment of the score for the OOM killer.
    OomScoreAdj,
    /// A resource limit of the process, by its kind.
    Rlimits,
    /// The I/O priority.
    IoPriority,
    /// The seccomp policy.
    SeccompPolicy,
    /// A namespace, by its kind.
    Namespace,
    /// A kernel parameter, by its name.
    Sysctl,
    /// A network device, by its name on the host.
    LinuxNetDevices,
    /// The scheduling of the process.
    LinuxSched,
    /// [`Rdt::clos_id`](super::Rdt::clos_id).
    RdtClosID,
    /// [`Rdt::schemata`](super::Rdt::schemata).
    RdtSchemata,
    /// [`Rdt::enable_monitoring`](super::Rdt::enable_monitoring).
    RdtEnableMonitoring,
    /// The NUMA memory policy of the process.
    MemoryPolicy,
    /// A field that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}

impl Field {
    /// Returns whether the field has entries, each with an owner of its own.
    pub fn has_entries(self) -> bool {
        matches!(
            self,
            Self::Annotations
                | Self::Mounts
                | Self::Devices
                | Self::CdiDevices
                | Self::Env
                | Self::HugepageLimits
                | Self::CgroupsUnified
                | Self::Rlimits
                | Self::Namespace
                | Self::Sysctl
                | Self::LinuxNetDevices
        )
    }
}
