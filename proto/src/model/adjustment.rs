//! Adjustments: the changes to a container that is being created.

use super::{
    Args, CdiDevice, ChangeList, ChangeMap, Device, EnvVar, Hooks, IoPriority, MemoryPolicy, Mount, Namespace,
    NetDevice, Rdt, Resources, Rlimit, Scheduler, Seccomp, Unknown,
};

/// The changes of a plugin to a container that is being created (`ContainerAdjustment` on the
/// wire).
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
    /// Changes to annotations.
    pub annotations: ChangeMap<String>,
    /// Changes to mounts, by destination.
    pub mounts: ChangeList<Mount>,
    /// Changes to environment variables, by name.
    pub env: ChangeList<EnvVar>,
    /// OCI hooks that are added.
    pub hooks: Option<Hooks>,
    /// The Linux-specific part.
    pub linux: Option<LinuxAdjustment>,
    /// Resource limits of the process that are added.
    pub rlimits: Vec<Rlimit>,
    /// CDI devices that are added.
    pub cdi_devices: Vec<CdiDevice>,
    /// The change to the command and its arguments.
    pub args: Args,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Adjustment {
    /// Returns the Linux-specific part, which is created if missing.
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

    /// Returns the resources of the container, which are created if missing.
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

    /// Returns the OCI hooks, which are created if missing.
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

/// The Linux-specific part of an [`Adjustment`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxAdjustment {
    /// Changes to device nodes, by path.
    pub devices: ChangeList<Device>,
    /// New resources. Only fields that are set change. Device rules are added.
    pub resources: Option<Resources>,
    /// The cgroup of the container. Empty for no change.
    pub cgroups_path: String,
    /// The adjustment of the score for the OOM killer, from -1000 to 1000.
    pub oom_score_adj: Option<i64>,
    /// The I/O priority of the process.
    pub io_priority: Option<IoPriority>,
    /// The seccomp policy.
    pub seccomp_policy: Option<Seccomp>,
    /// Changes to namespaces, by kind.
    pub namespaces: ChangeList<Namespace>,
    /// Changes to kernel parameters.
    pub sysctl: ChangeMap<String>,
    /// Changes to the network devices that are moved into the container, by name on the host.
    pub net_devices: ChangeMap<NetDevice>,
    /// The scheduling of the process.
    pub scheduler: Option<Scheduler>,
    /// The share of caches and memory bandwidth (Intel RDT).
    pub rdt: Option<Rdt>,
    /// The NUMA memory policy of the process.
    pub memory_policy: Option<MemoryPolicy>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}
