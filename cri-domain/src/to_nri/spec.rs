//! Converts parts of an OCI spec.

use std::collections::BTreeMap;

use nri_proto::{
    Cpu, Device, DeviceRule, Hook, Hooks, HugepageLimit, IoPriority, IoPriorityClass, Memory, Mount, Namespace,
    NetDevice, Pids, Rdt, Resources, Rlimit, Scheduler, SchedulerFlag, SchedulerPolicy, User,
};
use serde_json::Value;

use super::json::{all, flag, map, section, signed, small, smaller, some_text, text, texts, unsigned};

pub(super) fn mounts(spec: &Value) -> Vec<Mount> {
    all(spec, "mounts", |mount| {
        Some(Mount {
            destination: text(mount, "destination"),
            kind: text(mount, "type"),
            source: text(mount, "source"),
            options: texts(mount, "options"),
            ..Mount::default()
        })
    })
}

/// Converts the `hooks` of a spec.
pub fn hooks(hooks: &Value) -> Hooks {
    let list = |key| {
        all(hooks, key, |hook| {
            Some(Hook {
                path: text(hook, "path"),
                args: texts(hook, "args"),
                env: texts(hook, "env"),
                timeout: signed(hook, "timeout"),
                ..Hook::default()
            })
        })
    };
    Hooks {
        prestart: list("prestart"),
        create_runtime: list("createRuntime"),
        create_container: list("createContainer"),
        start_container: list("startContainer"),
        poststart: list("poststart"),
        poststop: list("poststop"),
        ..Hooks::default()
    }
}

pub(super) fn rlimits(process: &Value) -> Vec<Rlimit> {
    all(process, "rlimits", |limit| {
        Some(Rlimit::new(text(limit, "type"), unsigned(limit, "soft")?, unsigned(limit, "hard")?))
    })
}

/// Converts a user. The result is `None` if an id is invalid, because a default of 0 would be root.
pub(super) fn user(user: &Value) -> Option<User> {
    let id = |key| if user.get(key).is_none() { Some(0) } else { small(user, key) };
    Some(User {
        uid: id("uid")?,
        gid: id("gid")?,
        additional_gids: all(user, "additionalGids", |gid| gid.as_u64()?.try_into().ok()),
        ..User::default()
    })
}

pub(super) fn namespaces(linux: &Value) -> Vec<Namespace> {
    all(linux, "namespaces", |namespace| Some(Namespace::new(some_text(namespace, "type")?, text(namespace, "path"))))
}

pub(super) fn devices(linux: &Value) -> Vec<Device> {
    all(linux, "devices", |device| {
        Some(Device {
            path: text(device, "path"),
            kind: text(device, "type"),
            major: signed(device, "major").unwrap_or_default(),
            minor: signed(device, "minor").unwrap_or_default(),
            file_mode: small(device, "fileMode"),
            uid: small(device, "uid"),
            gid: small(device, "gid"),
            ..Device::default()
        })
    })
}

pub(super) fn net_devices(linux: &Value) -> BTreeMap<String, NetDevice> {
    let devices = linux.get("netDevices").and_then(Value::as_object).into_iter().flatten();
    devices.map(|(name, device)| (name.clone(), NetDevice::named(text(device, "name")))).collect()
}

pub(super) fn rdt(rdt: &Value) -> Rdt {
    Rdt {
        clos_id: some_text(rdt, "closID"),
        schemata: rdt.get("schemata").map(|_| texts(rdt, "schemata")),
        enable_monitoring: flag(rdt, "enableMonitoring"),
        ..Rdt::default()
    }
}

pub(super) fn io_priority(priority: &Value) -> Option<IoPriority> {
    let class = match priority.get("class")?.as_str()? {
        "IOPRIO_CLASS_RT" => IoPriorityClass::RealTime,
        "IOPRIO_CLASS_BE" => IoPriorityClass::BestEffort,
        "IOPRIO_CLASS_IDLE" => IoPriorityClass::Idle,
        _ => return None,
    };
    Some(IoPriority::new(class, smaller(priority, "priority").unwrap_or_default()))
}

pub(super) fn scheduler(scheduler: &Value) -> Option<Scheduler> {
    let policy = match scheduler.get("policy")?.as_str()? {
        "SCHED_OTHER" => SchedulerPolicy::Other,
        "SCHED_FIFO" => SchedulerPolicy::Fifo,
        "SCHED_RR" => SchedulerPolicy::RoundRobin,
        "SCHED_BATCH" => SchedulerPolicy::Batch,
        "SCHED_ISO" => SchedulerPolicy::Iso,
        "SCHED_IDLE" => SchedulerPolicy::Idle,
        "SCHED_DEADLINE" => SchedulerPolicy::Deadline,
        _ => return None,
    };
    Some(Scheduler {
        policy,
        nice: smaller(scheduler, "nice").unwrap_or_default(),
        priority: smaller(scheduler, "priority").unwrap_or_default(),
        flags: all(scheduler, "flags", |flag| scheduler_flag(flag.as_str()?)),
        runtime: unsigned(scheduler, "runtime").unwrap_or_default(),
        deadline: unsigned(scheduler, "deadline").unwrap_or_default(),
        period: unsigned(scheduler, "period").unwrap_or_default(),
        ..Scheduler::default()
    })
}

fn scheduler_flag(flag: &str) -> Option<SchedulerFlag> {
    Some(match flag {
        "SCHED_FLAG_RESET_ON_FORK" => SchedulerFlag::ResetOnFork,
        "SCHED_FLAG_RECLAIM" => SchedulerFlag::Reclaim,
        "SCHED_FLAG_DL_OVERRUN" => SchedulerFlag::DeadlineOverrun,
        "SCHED_FLAG_KEEP_POLICY" => SchedulerFlag::KeepPolicy,
        "SCHED_FLAG_KEEP_PARAMS" => SchedulerFlag::KeepParams,
        "SCHED_FLAG_UTIL_CLAMP_MIN" => SchedulerFlag::UtilClampMin,
        "SCHED_FLAG_UTIL_CLAMP_MAX" => SchedulerFlag::UtilClampMax,
        _ => return None,
    })
}

/// Converts the `linux.resources` of a spec. Names of classes are not part of a spec.
pub fn resources(resources: &Value) -> Resources {
    Resources {
        memory: section(resources, "memory").map(memory),
        cpu: section(resources, "cpu").map(cpu),
        hugepage_limits: all(resources, "hugepageLimits", |limit| {
            Some(HugepageLimit {
                page_size: text(limit, "pageSize"),
                limit: unsigned(limit, "limit")?,
                ..HugepageLimit::default()
            })
        }),
        unified: map(resources, "unified"),
        devices: all(resources, "devices", |rule| {
            Some(DeviceRule {
                allow: flag(rule, "allow").unwrap_or_default(),
                kind: text(rule, "type"),
                major: signed(rule, "major"),
                minor: signed(rule, "minor"),
                access: text(rule, "access"),
                ..DeviceRule::default()
            })
        }),
        pids: section(resources, "pids")
            .and_then(|pids| signed(pids, "limit"))
            .map(|limit| Pids { limit, ..Pids::default() }),
        ..Resources::default()
    }
}

fn memory(memory: &Value) -> Memory {
    Memory {
        limit: signed(memory, "limit"),
        reservation: signed(memory, "reservation"),
        swap: signed(memory, "swap"),
        kernel: signed(memory, "kernel"),
        kernel_tcp: signed(memory, "kernelTCP"),
        swappiness: unsigned(memory, "swappiness"),
        disable_oom_killer: flag(memory, "disableOOMKiller"),
        use_hierarchy: flag(memory, "useHierarchy"),
        ..Memory::default()
    }
}

fn cpu(cpu: &Value) -> Cpu {
    Cpu {
        shares: unsigned(cpu, "shares"),
        quota: signed(cpu, "quota"),
        period: unsigned(cpu, "period"),
        realtime_runtime: signed(cpu, "realtimeRuntime"),
        realtime_period: unsigned(cpu, "realtimePeriod"),
        cpus: text(cpu, "cpus"),
        mems: text(cpu, "mems"),
        ..Cpu::default()
    }
}
