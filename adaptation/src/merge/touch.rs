use nri_proto::{
    Adjustment, Args, Change, ChangeList, ChangeMap, Cpu, Field, Hooks, Keyed, LinuxAdjustment, Memory, Namespace, Rdt,
    Resources, Update,
};
use smallvec::SmallVec;

/// One access of a reply to a field of a container, or to an entry of the field.
///
/// ```
/// use nri_adaptation::merge::Touch;
/// use nri_proto::{Adjustment, EnvVar, Field};
///
/// let mut adjustment = Adjustment::default();
/// adjustment.annotations.set("a", "1")?;
/// adjustment.env.set(EnvVar::new("B", "2"))?;
///
/// let touched: Vec<_> = Touch::of_adjustment(&adjustment).iter().map(|touch| (touch.field, touch.key)).collect();
/// assert_eq!(touched, [(Field::Annotations, "a"), (Field::Env, "B")]);
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    /// The field. Device rules, for which upstream has no field, are [`Field::Devices`].
    pub field: Field,
    /// The key of the entry, such as the name of an environment variable. Empty if the field has no
    /// entries.
    pub key: &'a str,
    pub(super) act: ClaimKind,
}

/// How a touch changes the claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimKind {
    /// The plugin becomes the owner. A conflict if the field has an owner already, even this
    /// plugin.
    Claim,
    /// The plugin removes the value, even of another owner. Only this plugin may then claim the
    /// field.
    Clear,
    /// Like `Clear`, if a plugin has set the field. Otherwise no effect.
    ClearIfSet,
    /// The plugin becomes one of several owners.
    Share,
    /// The field is not claimed.
    Pass,
}

impl<'a> Touch<'a> {
    /// Returns the fields that an adjustment touches, in the order in which they are claimed.
    ///
    /// The same entry may occur twice: first cleared and then claimed.
    pub fn of_adjustment(adjustment: &'a Adjustment) -> Vec<Self> {
        Self::list_of_adjustment(adjustment).into_vec()
    }

    /// Returns the same fields as [`Touch::of_adjustment`], without an allocation if they are few.
    pub(super) fn list_of_adjustment(adjustment: &'a Adjustment) -> TouchList<'a> {
        let Adjustment { annotations, mounts, env, hooks, linux, rlimits, cdi_devices, args, unknown: _ } = adjustment;
        let mut touches = Touches(TouchList::new());
        touches.map(Field::Annotations, annotations);
        touches.list(Field::Mounts, mounts);
        touches.list(Field::Env, env);
        touches.args(args);
        touches.hooks(hooks.as_ref());
        if let Some(linux) = linux {
            touches.linux(linux);
        }
        for rlimit in rlimits {
            touches.add(Field::Rlimits, &rlimit.kind, ClaimKind::Claim);
        }
        for device in cdi_devices {
            touches.add(Field::CdiDevices, &device.name, ClaimKind::Claim);
        }
        touches.0
    }

    /// Returns the fields that an update touches, in the order in which they are claimed.
    pub fn of_update(update: &'a Update) -> Vec<Self> {
        let mut touches = Touches(TouchList::new());
        if let Some(resources) = update.resources() {
            touches.resources(resources);
        }
        // Device rules of an update are dropped.
        touches.0.retain(|touch| touch.act != ClaimKind::Pass);
        touches.0.into_vec()
    }
}

/// The fields that a reply touches. Most replies touch few fields, which fit inline without an
/// allocation.
pub(super) type TouchList<'a> = SmallVec<[Touch<'a>; 16]>;

struct Touches<'a>(TouchList<'a>);

impl<'a> Touches<'a> {
    /// Adds a touched field. Not inlined, because a reply touches only few of the many fields.
    #[inline(never)]
    fn add(&mut self, field: Field, key: &'a str, act: ClaimKind) {
        self.0.push(Touch { field, key, act });
    }

    /// Claims `field` if it is set.
    fn simple<T>(&mut self, field: Field, value: Option<&T>) {
        if value.is_some() {
            self.add(field, "", ClaimKind::Claim);
        }
    }

    /// Claims `field` if it is not empty.
    fn text(&mut self, field: Field, value: &str) {
        if !value.is_empty() {
            self.add(field, "", ClaimKind::Claim);
        }
    }

    fn map<T>(&mut self, field: Field, changes: &'a ChangeMap<T>) {
        for (key, change) in changes.iter() {
            if change.is_removal() {
                self.add(field, key, ClaimKind::Clear);
            }
            if change.value().is_some() {
                self.add(field, key, ClaimKind::Claim);
            }
        }
    }

    /// Adds the changes of a list. Removing an entry that only the runtime has set claims nothing,
    /// as upstream does.
    fn list<T: Keyed>(&mut self, field: Field, changes: &'a ChangeList<T>) {
        for (key, _) in changes.iter().filter(|(_, change)| change.is_removal()) {
            self.add(field, key, ClaimKind::ClearIfSet);
        }
        for (key, _) in changes.iter().filter(|(_, change)| change.value().is_some()) {
            self.add(field, key, ClaimKind::Claim);
        }
    }

    /// Adds the changes of the namespaces. A namespace can be touched once: removing one is a
    /// claim, and replacing one is two claims, which always conflict.
    fn namespaces(&mut self, changes: &'a ChangeList<Namespace>) {
        for (key, change) in changes.iter() {
            self.add(Field::Namespace, key, ClaimKind::Claim);
            if matches!(change, Change::Replace(_)) {
                self.add(Field::Namespace, key, ClaimKind::Claim);
            }
        }
    }

    fn args(&mut self, args: &Args) {
        if let Some(change) = args.change() {
            if change.is_removal() {
                self.add(Field::Args, "", ClaimKind::Clear);
            }
            self.add(Field::Args, "", ClaimKind::Claim);
        }
    }

    fn hooks(&mut self, hooks: Option<&Hooks>) {
        let Some(hooks) = hooks else { return };
        let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } =
            hooks;
        let all = [prestart, create_runtime, create_container, start_container, poststart, poststop];
        if all.iter().any(|hooks| !hooks.is_empty()) {
            self.add(Field::OciHooks, "", ClaimKind::Share);
        }
    }

    fn linux(&mut self, linux: &'a LinuxAdjustment) {
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
        self.list(Field::Devices, devices);
        if let Some(resources) = resources {
            self.resources(resources);
        }
        self.text(Field::CgroupsPath, cgroups_path);
        self.simple(Field::OomScoreAdj, oom_score_adj.as_ref());
        self.simple(Field::IoPriority, io_priority.as_ref());
        self.simple(Field::SeccompPolicy, seccomp_policy.as_ref());
        self.namespaces(namespaces);
        self.map(Field::Sysctl, sysctl);
        self.map(Field::LinuxNetDevices, net_devices);
        self.simple(Field::LinuxSched, scheduler.as_ref());
        if let Some(rdt) = rdt {
            self.rdt(rdt);
        }
        self.simple(Field::MemoryPolicy, memory_policy.as_ref());
    }

    fn rdt(&mut self, rdt: &Rdt) {
        let Rdt { clos_id, schemata, enable_monitoring, remove, unknown: _ } = rdt;
        if *remove {
            for field in [Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring] {
                self.add(field, "", ClaimKind::Clear);
            }
        }
        self.simple(Field::RdtClosID, clos_id.as_ref());
        self.simple(Field::RdtSchemata, schemata.as_ref());
        self.simple(Field::RdtEnableMonitoring, enable_monitoring.as_ref());
    }

    fn resources(&mut self, resources: &'a Resources) {
        let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids, unknown: _ } =
            resources;
        if let Some(memory) = memory {
            self.memory(memory);
        }
        if let Some(cpu) = cpu {
            self.cpu(cpu);
        }
        for limit in hugepage_limits {
            self.add(Field::HugepageLimits, &limit.page_size, ClaimKind::Claim);
        }
        if !devices.is_empty() {
            self.add(Field::Devices, "", ClaimKind::Pass);
        }
        for key in unified.keys() {
            self.add(Field::CgroupsUnified, key, ClaimKind::Claim);
        }
        self.simple(Field::BlockioClass, blockio_class.as_ref());
        self.simple(Field::RdtClass, rdt_class.as_ref());
        self.simple(Field::PidsLimit, pids.as_ref());
    }

    fn memory(&mut self, memory: &Memory) {
        let Memory {
            limit,
            reservation,
            swap,
            kernel,
            kernel_tcp,
            swappiness,
            disable_oom_killer,
            use_hierarchy,
            unknown: _,
        } = memory;
        self.simple(Field::MemLimit, limit.as_ref());
        self.simple(Field::MemReservation, reservation.as_ref());
        self.simple(Field::MemSwapLimit, swap.as_ref());
        self.simple(Field::MemKernelLimit, kernel.as_ref());
        self.simple(Field::MemTCPLimit, kernel_tcp.as_ref());
        self.simple(Field::MemSwappiness, swappiness.as_ref());
        self.simple(Field::MemDisableOomKiller, disable_oom_killer.as_ref());
        self.simple(Field::MemUseHierarchy, use_hierarchy.as_ref());
    }

    fn cpu(&mut self, cpu: &Cpu) {
        let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
        self.simple(Field::CPUShares, shares.as_ref());
        self.simple(Field::CPUQuota, quota.as_ref());
        self.simple(Field::CPUPeriod, period.as_ref());
        self.simple(Field::CPURealtimeRuntime, realtime_runtime.as_ref());
        self.simple(Field::CPURealtimePeriod, realtime_period.as_ref());
        self.text(Field::CPUSetCPUs, cpus);
        self.text(Field::CPUSetMems, mems);
    }
}
