use super::{
    Args, CdiDevice, ChangeList, ChangeMap, Device, EnvVar, Hooks, IoPriority, MemoryPolicy, Mount, Namespace,
    NetDevice, Rdt, Resources, Rlimit, Scheduler, Seccomp, Unknown,
};

/// What a plugin changes in a container that is being created (`ContainerAdjustment` on the wire).
///
/// ```
/// use nri_proto::{Adjustment, EnvVar, LinuxAdjustment, Memory, Resources, api};
///
/// let mut adjustment = Adjustment::default();
/// adjustment.env.replace(EnvVar::new("GOMEMLIMIT", "64MiB"))?;
/// adjustment.mounts.remove("/var/cache");
/// adjustment.linux = Some(LinuxAdjustment {
///     resources: Some(Resources {
///         memory: Some(Memory { limit: Some(64 << 20), ..Memory::default() }),
///         ..Resources::default()
///     }),
///     ..LinuxAdjustment::default()
/// });
///
/// let message = api::ContainerAdjustment::from(adjustment.clone());
/// assert_eq!(Adjustment::from(message), adjustment);
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Annotations.
    pub annotations: ChangeMap<String>,
    /// Mounts, by their destinations.
    pub mounts: ChangeList<Mount>,
    /// Environment variables, by their names.
    pub env: ChangeList<EnvVar>,
    /// OCI hooks to add.
    pub hooks: Option<Hooks>,
    /// What only Linux has.
    pub linux: Option<LinuxAdjustment>,
    /// Resource limits to add.
    pub rlimits: Vec<Rlimit>,
    /// CDI devices to add.
    pub cdi_devices: Vec<CdiDevice>,
    /// The command and its arguments.
    pub args: Args,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Adjustment {
    /// The part that only Linux has, made if there is none.
    ///
    /// ```
    /// use nri_proto::{Adjustment, Device, NetDevice};
    ///
    /// let mut adjustment = Adjustment::default();
    /// adjustment.linux_mut().devices.set(Device::new("/dev/fuse", "c", 10, 229))?;
    /// adjustment.linux_mut().sysctl.set("net.core.somaxconn", "4096")?;
    /// adjustment.linux_mut().net_devices.set("ens2.100", NetDevice::named("eth1"))?;
    /// adjustment.linux_mut().namespaces.remove("network");
    /// # Ok::<(), nri_proto::DashedKey>(())
    /// ```
    pub fn linux_mut(&mut self) -> &mut LinuxAdjustment {
        self.linux.get_or_insert_default()
    }

    /// What the container may use, made if there is nothing said of it.
    ///
    /// ```
    /// use nri_proto::Adjustment;
    ///
    /// let mut adjustment = Adjustment::default();
    /// adjustment.resources_mut().memory_mut().limit = Some(64 << 20);
    /// adjustment.resources_mut().cpu_mut().cpus = "0-3".to_owned();
    /// adjustment.resources_mut().limit_pids(100);
    /// ```
    pub fn resources_mut(&mut self) -> &mut Resources {
        self.linux_mut().resources.get_or_insert_default()
    }

    /// The OCI hooks, made if there are none.
    ///
    /// ```
    /// use nri_proto::{Adjustment, Hook};
    ///
    /// let mut adjustment = Adjustment::default();
    /// adjustment.hooks_mut().create_runtime.push(Hook::new("/usr/bin/hook", ["hook", "create"]));
    /// ```
    pub fn hooks_mut(&mut self) -> &mut Hooks {
        self.hooks.get_or_insert_default()
    }
}

/// The part of an [`Adjustment`] that only Linux has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxAdjustment {
    /// Device nodes, by their paths.
    pub devices: ChangeList<Device>,
    /// What the container may use. Only what is set changes; rules for devices are added.
    pub resources: Option<Resources>,
    /// The cgroup of the container; empty if it stays.
    pub cgroups_path: String,
    /// How readily it is killed when memory runs out, from -1000 to 1000.
    pub oom_score_adj: Option<i64>,
    /// The I/O priority of the process.
    pub io_priority: Option<IoPriority>,
    /// The seccomp policy.
    pub seccomp_policy: Option<Seccomp>,
    /// Namespaces, by their kinds.
    pub namespaces: ChangeList<Namespace>,
    /// Kernel parameters.
    pub sysctl: ChangeMap<String>,
    /// Network devices that are moved into the container, by their names on the host.
    pub net_devices: ChangeMap<NetDevice>,
    /// How the process is scheduled.
    pub scheduler: Option<Scheduler>,
    /// The share of caches and memory bandwidth.
    pub rdt: Option<Rdt>,
    /// Where memory comes from.
    pub memory_policy: Option<MemoryPolicy>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}
