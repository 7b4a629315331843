//! Turns any adjustment into a valid one: with existing names, and numbers within their bounds.

use nri_proto::{
    Adjustment, Change, ChangeList, ChangeMap, Cpu, Device, DeviceRule, Hook, Hooks, HugepageLimit, IoPriority,
    IoPriorityClass, Keyed, LinuxAdjustment, Memory, MemoryPolicy, MemoryPolicyFlag, MemoryPolicyMode, Mount,
    Namespace, Resources, Rlimit, Scheduler, SchedulerFlag, SchedulerPolicy, Seccomp, Syscall, SyscallArg,
};

use crate::merging::fold::{name, rename, rename_keys};

/// Lists with white space, as in a file of the kernel, among others.
const LISTS: [&str; 6] = ["", "0", "0-3,7", "1,2", "0-3,7\n", " 1"];
/// The bits of a mode that encode the kind of file: none, those of Unix, or those of Go's
/// `os.FileMode`.
const KINDS: [u32; 3] = [0, 0o2_0000, 1 << 26 | 1 << 21];

pub(super) fn adjustment(adjustment: &mut Adjustment) {
    let Adjustment { annotations: _, mounts, env: _, hooks, linux, rlimits, cdi_devices, args: _, unknown: _ } =
        adjustment;
    rename(mounts, &["/a", "/b/c", "/proc", "/e", "/b"]);
    values(mounts, mount);
    hooks.iter_mut().for_each(all_hooks);
    for Rlimit { kind, hard, soft, unknown: _ } in rlimits {
        one_of(kind, &["RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_AS"]);
        *hard = (*hard).max(*soft);
    }
    cdi_devices.iter_mut().for_each(|device| device.name = format!("vendor.com/class={}", device.name));
    cdi_devices.retain(|device| !device.name.ends_with('='));
    linux.iter_mut().for_each(self::linux);
}

fn one_of(text: &mut String, names: &[&str]) {
    *text = name(text, names).to_owned();
}

/// Changes each value, but not its key.
fn values<T: Keyed + Clone>(changes: &mut ChangeList<T>, change: impl Fn(&mut T)) {
    let mut changed = ChangeList::new();
    let with = |value: &T| {
        let mut value = value.clone();
        change(&mut value);
        value
    };
    for (key, change) in changes.iter() {
        match change {
            Change::Set(value) => _ = changed.set(with(value)),
            Change::Replace(value) => _ = changed.replace(with(value)),
            Change::Remove => changed.remove(key),
        }
    }
    *changes = changed;
}

fn values_by_name<T: Clone>(changes: &mut ChangeMap<T>, change: impl Fn(&mut T)) {
    let mut changed = ChangeMap::new();
    for (key, mut value) in std::mem::take(changes) {
        match &mut value {
            Change::Set(value) | Change::Replace(value) => change(value),
            Change::Remove => {}
        }
        match value {
            Change::Set(value) => _ = changed.set(key, value),
            Change::Replace(value) => _ = changed.replace(key, value),
            Change::Remove => changed.remove(key),
        }
    }
    *changes = changed;
}

fn mount(mount: &mut Mount) {
    one_of(&mut mount.source, &["/", "/proc", "/nowhere", "tmpfs", ""]);
    // Few machines have a mount that propagates, so such options are rare.
    let often = ["ro", "rbind", "rprivate", "nosuid", "size=1", "x", "ro", "rbind", "rprivate", "nodev", "y"];
    let options = [&often[..], &often[..], &["rshared", "rslave"]].concat();
    mount.options.iter_mut().for_each(|option| one_of(option, &options));
}

fn all_hooks(hooks: &mut Hooks) {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } = hooks;
    for hooks in [prestart, create_runtime, create_container, start_container, poststart, poststop] {
        for Hook { path, args: _, env: _, timeout, unknown: _ } in hooks {
            one_of(path, &["/bin/a", "/b"]);
            *timeout = timeout.map(|seconds| seconds.rem_euclid(10));
        }
    }
}

fn linux(linux: &mut LinuxAdjustment) {
    let LinuxAdjustment {
        devices,
        resources,
        cgroups_path: _,
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
    rename(devices, &["/dev/a", "/dev/b", "/dev/c", "/dev/d"]);
    values(devices, device);
    resources.iter_mut().for_each(self::resources);
    *oom_score_adj = oom_score_adj.map(|score| score % 1001);
    io_priority.iter_mut().for_each(self::io_priority);
    seccomp_policy.iter_mut().for_each(seccomp);
    rename(namespaces, &["network", "pid", "mount", "ipc", "uts", "user", "cgroup", "time"]);
    values(namespaces, |Namespace { kind: _, path, unknown: _ }| one_of(path, &["", "/proc/1/ns/x", "/n"]));
    rename_keys(sysctl, &["net.a", "net.b", "kernel/c", "d"]);
    values_by_name(sysctl, |value| value.push_str(name(value, &["", "\n", " "])));
    rename_keys(net_devices, &["eth0", "eth1", "eth2"]);
    values_by_name(net_devices, |device| one_of(&mut device.name, &["", "lan", "wan"]));
    scheduler.iter_mut().for_each(self::scheduler);
    if let Some(id) = rdt.as_mut().and_then(|rdt| rdt.clos_id.as_mut()) {
        one_of(id, &["", "a", "b", "/"]);
    }
    memory_policy.iter_mut().for_each(self::memory_policy);
}

fn device(device: &mut Device) {
    let Device { path: _, kind, major, minor, file_mode, uid: _, gid: _, unknown: _ } = device;
    one_of(kind, &["c", "b", "u", "p"]);
    *major = major.rem_euclid(3);
    *minor = minor.rem_euclid(3);
    *file_mode = file_mode.map(|mode| (mode % 0o1000) | KINDS[mode as usize % KINDS.len()]);
}

fn resources(resources: &mut Resources) {
    let Resources { memory, cpu, hugepage_limits, blockio_class: _, rdt_class: _, unified, devices, pids, unknown: _ } =
        resources;
    memory.iter_mut().for_each(self::memory);
    cpu.iter_mut().for_each(self::cpu);
    for HugepageLimit { page_size, limit: _, unknown: _ } in hugepage_limits {
        one_of(page_size, &["2MB", "1GB", "64KB"]);
    }
    *unified = std::mem::take(unified)
        .into_iter()
        .map(|(file, value)| (name(&file, &["memory.high", "cpu.idle", "io.weight"]).to_owned(), value))
        .collect();
    for DeviceRule { allow: _, kind, major, minor, access, unknown: _ } in devices {
        one_of(kind, &["", "a", "b", "c"]);
        one_of(access, &["", "r", "rw", "rwm"]);
        for number in [major, minor] {
            *number = number.map(|number| number.rem_euclid(4) - 1);
        }
    }
    if let Some(pids) = pids {
        pids.limit = amount(pids.limit);
    }
}

/// Returns a small number, zero, or -1.
fn amount(amount: i64) -> i64 {
    amount.rem_euclid(12) - 1
}

fn memory(memory: &mut Memory) {
    let Memory {
        limit,
        reservation,
        swap,
        kernel,
        kernel_tcp,
        swappiness,
        disable_oom_killer: _,
        use_hierarchy: _,
        unknown: _,
    } = memory;
    for number in [limit, reservation, swap, kernel, kernel_tcp] {
        *number = number.map(amount);
    }
    *swappiness = swappiness.map(|swappiness| swappiness % 101);
}

fn cpu(cpu: &mut Cpu) {
    let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
    *realtime_runtime = realtime_runtime.map(amount);
    // The kernel has a minimum for each, and zero means "not set". Shares out of range are clamped.
    *shares = shares.map(|shares| match shares % 8 {
        few @ (0 | 1) => few,
        2 => 262_145 + shares / 8 % 1000,
        _ => 2 + shares / 8 % 262_143,
    });
    *quota = quota.map(|quota| match amount(quota) {
        quota @ (-1 | 0) => quota,
        quota => 1_000 * quota,
    });
    for period in [period, realtime_period] {
        *period = period.map(|period| [0, 1_000 + period % 999_001][usize::from(period % 8 != 0)]);
    }
    one_of(cpus, &LISTS);
    one_of(mems, &LISTS);
}

fn io_priority(priority: &mut IoPriority) {
    if let IoPriorityClass::Unnamed(_) = priority.class {
        priority.class = IoPriorityClass::Idle;
    }
    priority.priority = priority.priority.rem_euclid(8);
}

fn seccomp(seccomp: &mut Seccomp) {
    let Seccomp {
        default_action,
        default_errno: _,
        architectures,
        flags,
        listener_path,
        listener_metadata: _,
        syscalls,
        unknown: _,
    } = seccomp;
    let actions = ["SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_LOG"];
    one_of(default_action, &actions);
    architectures.iter_mut().for_each(|name| one_of(name, &["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]));
    flags.iter_mut().for_each(|name| one_of(name, &["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_TSYNC"]));
    one_of(listener_path, &["", "/run/agent"]);
    syscalls.retain(|syscall| !syscall.names.is_empty());
    for Syscall { names, action, errno_ret: _, args, unknown: _ } in syscalls {
        names.iter_mut().for_each(|name| one_of(name, &["read", "write", "clone3"]));
        one_of(action, &actions);
        for SyscallArg { index, value: _, value_two: _, op, unknown: _ } in args {
            *index %= 6;
            one_of(op, &["SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"]);
        }
    }
}

fn scheduler(scheduler: &mut Scheduler) {
    if let SchedulerPolicy::Unnamed(_) = scheduler.policy {
        scheduler.policy = SchedulerPolicy::Batch;
    }
    scheduler.nice = scheduler.nice.rem_euclid(40) - 20;
    scheduler.priority = scheduler.priority.rem_euclid(100);
    scheduler.flags.retain(|flag| !matches!(flag, SchedulerFlag::Unnamed(_)));
}

fn memory_policy(policy: &mut MemoryPolicy) {
    if let MemoryPolicyMode::Unnamed(_) = policy.mode {
        policy.mode = MemoryPolicyMode::Local;
    }
    one_of(&mut policy.nodes, &LISTS);
    policy.flags.retain(|flag| !matches!(flag, MemoryPolicyFlag::Unnamed(_)));
}
