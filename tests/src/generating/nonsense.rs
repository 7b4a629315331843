use nri_proto::{
    Adjustment, Cpu, Device, EnvVar, Field, Hook, Hooks, HugepageLimit, LinuxAdjustment, Memory, Mount, Namespace,
    NetDevice, Pids, Resources, Rlimit, Seccomp,
};

/// A field, and a function that gives it an invalid value.
type Nonsense = (Field, fn(&mut Adjustment));

/// The invalid values, by their fields.
pub(super) const NONSENSE: [Nonsense; 21] = [
    (Field::Annotations, |it| _ = it.annotations.replace("", "1")),
    (Field::Env, |it| _ = it.env.replace(EnvVar::new("A=B", "c"))),
    (Field::Env, |it| _ = it.env.replace(EnvVar::new("a", "c\0d"))),
    (Field::Mounts, |it| _ = it.mounts.replace(Mount { destination: "../../etc".to_owned(), ..Mount::default() })),
    (Field::Mounts, |it| _ = it.mounts.replace(Mount { destination: "/a/../b".to_owned(), ..Mount::default() })),
    (Field::OciHooks, |it| {
        let hook = Hook { path: "hook".to_owned(), ..Hook::default() };
        it.hooks = Some(Hooks { poststop: vec![hook], ..Hooks::default() });
    }),
    (Field::Rlimits, |it| it.rlimits = vec![Rlimit { kind: "NOFILE".to_owned(), ..Rlimit::default() }]),
    (Field::Devices, |it| _ = linux(it).devices.replace(device("/dev/x", "zz", 1))),
    (Field::Devices, |it| _ = linux(it).devices.replace(device("/dev/x", "c", -1))),
    (Field::Devices, |it| _ = linux(it).devices.replace(device("dev/x", "c", 1))),
    (Field::CgroupsPath, |it| linux(it).cgroups_path = "/../../..".to_owned()),
    (Field::OomScoreAdj, |it| linux(it).oom_score_adj = Some(1 << 40)),
    (Field::SeccompPolicy, |it| {
        linux(it).seccomp_policy = Some(Seccomp { default_action: "allow".to_owned(), ..Seccomp::default() });
    }),
    (Field::Namespace, |it| {
        _ = linux(it).namespaces.replace(Namespace { kind: "net".to_owned(), ..Namespace::default() });
    }),
    (Field::Sysctl, |it| _ = linux(it).sysctl.replace("a+b=c", "1")),
    (Field::LinuxNetDevices, |it| _ = linux(it).net_devices.replace("a/b", NetDevice::default())),
    (Field::MemSwappiness, |it| {
        resources(it).memory = Some(Memory { swappiness: Some(101), ..Memory::default() });
    }),
    (Field::CPUSetCPUs, |it| resources(it).cpu = Some(Cpu { cpus: "all".to_owned(), ..Cpu::default() })),
    (Field::HugepageLimits, |it| {
        resources(it).hugepage_limits = vec![HugepageLimit { page_size: "2M".to_owned(), ..HugepageLimit::default() }];
    }),
    (Field::CgroupsUnified, |it| _ = resources(it).unified.insert("cgroup.procs".to_owned(), "1".to_owned())),
    (Field::PidsLimit, |it| resources(it).pids = Some(Pids { limit: -2, ..Pids::default() })),
];

fn linux(adjustment: &mut Adjustment) -> &mut LinuxAdjustment {
    adjustment.linux.get_or_insert_default()
}

fn resources(adjustment: &mut Adjustment) -> &mut Resources {
    linux(adjustment).resources.get_or_insert_default()
}

fn device(path: &str, kind: &str, major: i64) -> Device {
    Device { path: path.to_owned(), kind: kind.to_owned(), major, ..Device::default() }
}
