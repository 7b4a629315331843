use super::Unnamed;

/// What a plugin can own in a container, by the names that upstream has in its errors.
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
    /// None: the number means nothing.
    #[default]
    None,
    /// An annotation.
    Annotations,
    /// A mount, by its destination.
    Mounts,
    /// The OCI hooks. Several plugins may own them.
    OciHooks,
    /// A device node, by its path.
    Devices,
    /// A CDI device, by its name.
    CdiDevices,
    /// An environment variable.
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
    /// The limit of processes and threads.
    PidsLimit,
    /// The limit for huge pages, by their size.
    HugepageLimits,
    /// The class of block I/O.
    BlockioClass,
    /// The class of caches and memory bandwidth.
    RdtClass,
    /// A file of cgroup v2.
    CgroupsUnified,
    /// The cgroup.
    CgroupsPath,
    /// How readily it is killed when memory runs out.
    OomScoreAdj,
    /// A resource limit of the process, by its kind.
    Rlimits,
    /// The I/O priority.
    IoPriority,
    /// The seccomp policy.
    SeccompPolicy,
    /// A namespace, by its kind.
    Namespace,
    /// A kernel parameter.
    Sysctl,
    /// A network device, by its name on the host.
    LinuxNetDevices,
    /// How the process is scheduled.
    LinuxSched,
    /// [`Rdt::clos_id`](super::Rdt::clos_id).
    RdtClosID,
    /// [`Rdt::schemata`](super::Rdt::schemata).
    RdtSchemata,
    /// [`Rdt::enable_monitoring`](super::Rdt::enable_monitoring).
    RdtEnableMonitoring,
    /// Where memory comes from.
    MemoryPolicy,
    /// A field that we do not know yet.
    Unnamed(Unnamed<Self>),
}

impl Field {
    /// Says whether each entry of it has an owner of its own.
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
