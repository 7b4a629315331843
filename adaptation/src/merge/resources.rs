//! Changes resources: those of a new container, of the result, or of an update.

use std::collections::{BTreeMap, HashMap};

use nri_proto::{Cpu, Field, HugepageLimit, Memory, Resources};

use super::Value;
use super::changed::Notes;

/// Sets in `target` what is set in `resources`. Limits for huge pages and rules for devices are added.
pub(super) fn apply(resources: &Resources, target: &mut Resources, notes: &mut Notes<'_>) {
    let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids, unknown: _ } =
        resources;
    if let Some(memory) = memory {
        apply_memory(memory, target.memory.get_or_insert_default(), notes);
    }
    if let Some(cpu) = cpu {
        apply_cpu(cpu, target.cpu.get_or_insert_default(), notes);
    }
    add_hugepage_limits(hugepage_limits, &mut target.hugepage_limits, notes);
    if !devices.is_empty() {
        target.devices.extend_from_slice(devices);
        notes.take(Field::Devices, "", None, Some(devices));
    }
    apply_unified(unified, &mut target.unified, notes);
    set(Field::BlockioClass, blockio_class.as_ref(), &mut target.blockio_class, notes);
    set(Field::RdtClass, rdt_class.as_ref(), &mut target.rdt_class, notes);
    if let Some(pids) = pids {
        let before = target.pids.replace(pids.clone());
        notes.take(Field::PidsLimit, "", before.map(|pids| pids.limit), Some(&pids.limit));
    }
}

/// Returns resources in which nothing is set, as upstream shows them: with the messages that are often looked into.
pub(super) fn nothing_set() -> Resources {
    let mut resources = Resources::default();
    normalise(&mut resources);
    resources
}

/// Adds the messages that upstream adds.
pub(super) fn normalise(resources: &mut Resources) {
    resources.memory.get_or_insert_default();
    resources.cpu.get_or_insert_default();
}

/// Sets `target` if there is a new value.
pub(super) fn set<T: Clone + Into<Value>>(
    field: Field,
    new: Option<&T>,
    target: &mut Option<T>,
    notes: &mut Notes<'_>,
) {
    if let Some(new) = new {
        let before = target.replace(new.clone());
        notes.take(field, "", before, Some(new));
    }
}

/// Sets `target` if the new text is not empty: that means "not set" where the wire has no wrapper.
pub(super) fn set_text(field: Field, new: &String, target: &mut String, notes: &mut Notes<'_>) {
    if !new.is_empty() {
        let before = std::mem::replace(target, new.clone());
        notes.take(field, "", Some(before).filter(|text| !text.is_empty()), Some(new));
    }
}

fn apply_memory(memory: &Memory, target: &mut Memory, notes: &mut Notes<'_>) {
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
    set(Field::MemLimit, limit.as_ref(), &mut target.limit, notes);
    set(Field::MemReservation, reservation.as_ref(), &mut target.reservation, notes);
    set(Field::MemSwapLimit, swap.as_ref(), &mut target.swap, notes);
    set(Field::MemKernelLimit, kernel.as_ref(), &mut target.kernel, notes);
    set(Field::MemTCPLimit, kernel_tcp.as_ref(), &mut target.kernel_tcp, notes);
    set(Field::MemSwappiness, swappiness.as_ref(), &mut target.swappiness, notes);
    set(Field::MemDisableOomKiller, disable_oom_killer.as_ref(), &mut target.disable_oom_killer, notes);
    set(Field::MemUseHierarchy, use_hierarchy.as_ref(), &mut target.use_hierarchy, notes);
}

fn apply_cpu(cpu: &Cpu, target: &mut Cpu, notes: &mut Notes<'_>) {
    let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
    set(Field::CPUShares, shares.as_ref(), &mut target.shares, notes);
    set(Field::CPUQuota, quota.as_ref(), &mut target.quota, notes);
    set(Field::CPUPeriod, period.as_ref(), &mut target.period, notes);
    set(Field::CPURealtimeRuntime, realtime_runtime.as_ref(), &mut target.realtime_runtime, notes);
    set(Field::CPURealtimePeriod, realtime_period.as_ref(), &mut target.realtime_period, notes);
    set_text(Field::CPUSetCPUs, cpus, &mut target.cpus, notes);
    set_text(Field::CPUSetMems, mems, &mut target.mems, notes);
}

fn add_hugepage_limits(limits: &[HugepageLimit], target: &mut Vec<HugepageLimit>, notes: &mut Notes<'_>) {
    if limits.is_empty() {
        return;
    }
    let before: HashMap<&str, u64> = target.iter().map(|limit| (&*limit.page_size, limit.limit)).collect();
    for HugepageLimit { page_size, limit, unknown: _ } in limits {
        notes.take(Field::HugepageLimits, page_size, before.get(&**page_size).copied(), Some(limit));
    }
    target.extend_from_slice(limits);
}

fn apply_unified(unified: &BTreeMap<String, String>, target: &mut BTreeMap<String, String>, notes: &mut Notes<'_>) {
    for (key, value) in unified {
        let before = target.insert(key.clone(), value.clone());
        notes.take(Field::CgroupsUnified, key, before, Some(value));
    }
}
