//! Applies changes to resources: those of a new container, of the merged result, or of an update.

use std::collections::{BTreeMap, HashMap};

use nri_proto::{Cpu, Field, HugepageLimit, Memory, Resources};

use super::notes::ChangeNotes;
use super::packing::Pack;

/// Sets in `target` what is set in `resources`. Huge page limits and device rules are appended. The
/// former value of a huge page limit is searched among the first `n_limits` limits.
pub(super) fn apply(resources: &Resources, target: &mut Resources, n_limits: usize, notes: &mut ChangeNotes<'_>) {
    let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids, unknown: _ } =
        resources;
    if let Some(memory) = memory {
        apply_memory(memory, target.memory.get_or_insert_default(), notes);
    }
    if let Some(cpu) = cpu {
        apply_cpu(cpu, target.cpu.get_or_insert_default(), notes);
    }
    add_hugepage_limits(hugepage_limits, &mut target.hugepage_limits, n_limits, notes);
    if !devices.is_empty() {
        notes.take(Field::Devices, "", None, Some(devices.as_slice()));
        target.devices.extend_from_slice(devices);
    }
    for (key, value) in unified {
        insert(Field::CgroupsUnified, key, value, &mut target.unified, notes);
    }
    set(Field::BlockioClass, blockio_class.as_ref(), &mut target.blockio_class, notes);
    set(Field::RdtClass, rdt_class.as_ref(), &mut target.rdt_class, notes);
    if let Some(pids) = pids {
        let before = target.pids.replace(pids.clone());
        notes.take(Field::PidsLimit, "", before.as_ref().map(|pids| &pids.limit), Some(&pids.limit));
    }
}

/// Unsets each resource for which `keep` returns false, given its field and key. Device rules are
/// always kept.
pub(crate) fn retain(resources: &mut Resources, keep: impl Fn(Field, &str) -> bool) {
    let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices: _, pids, unknown: _ } =
        resources;
    if let Some(memory) = memory {
        retain_memory(memory, &keep);
    }
    if let Some(cpu) = cpu {
        retain_cpu(cpu, &keep);
    }
    hugepage_limits.retain(|limit| keep(Field::HugepageLimits, &limit.page_size));
    unified.retain(|key, _| keep(Field::CgroupsUnified, key));
    retain_one(Field::BlockioClass, blockio_class, &keep);
    retain_one(Field::RdtClass, rdt_class, &keep);
    retain_one(Field::PidsLimit, pids, &keep);
}

fn retain_memory(memory: &mut Memory, keep: &impl Fn(Field, &str) -> bool) {
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
    retain_one(Field::MemLimit, limit, keep);
    retain_one(Field::MemReservation, reservation, keep);
    retain_one(Field::MemSwapLimit, swap, keep);
    retain_one(Field::MemKernelLimit, kernel, keep);
    retain_one(Field::MemTCPLimit, kernel_tcp, keep);
    retain_one(Field::MemSwappiness, swappiness, keep);
    retain_one(Field::MemDisableOomKiller, disable_oom_killer, keep);
    retain_one(Field::MemUseHierarchy, use_hierarchy, keep);
}

fn retain_cpu(cpu: &mut Cpu, keep: &impl Fn(Field, &str) -> bool) {
    let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
    retain_one(Field::CPUShares, shares, keep);
    retain_one(Field::CPUQuota, quota, keep);
    retain_one(Field::CPUPeriod, period, keep);
    retain_one(Field::CPURealtimeRuntime, realtime_runtime, keep);
    retain_one(Field::CPURealtimePeriod, realtime_period, keep);
    for (field, list) in [(Field::CPUSetCPUs, cpus), (Field::CPUSetMems, mems)] {
        if !keep(field, "") {
            list.clear();
        }
    }
}

fn retain_one<T>(field: Field, value: &mut Option<T>, keep: &impl Fn(Field, &str) -> bool) {
    value.take_if(|_| !keep(field, ""));
}

/// Returns resources in which nothing is set, in upstream's form: with empty memory and CPU
/// messages.
pub(super) fn nothing_set() -> Resources {
    let mut resources = Resources::default();
    normalise(&mut resources);
    resources
}

/// Adds the empty messages that upstream adds.
pub(super) fn normalise(resources: &mut Resources) {
    resources.memory.get_or_insert_default();
    resources.cpu.get_or_insert_default();
}

/// Sets `target` to a copy of the new value, if there is one.
#[inline]
pub(super) fn set<T: Clone + Pack>(field: Field, new: Option<&T>, target: &mut Option<T>, notes: &mut ChangeNotes<'_>) {
    if let Some(new) = new {
        put(field, new, target, notes);
    }
}

/// Sets `target` to a copy of the new value, and notes the change. Not inlined, because every field
/// is checked for each update, and few are set.
#[inline(never)]
fn put<T: Clone + Pack>(field: Field, new: &T, target: &mut Option<T>, notes: &mut ChangeNotes<'_>) {
    let before = target.replace(new.clone());
    notes.take(field, "", before.as_ref(), Some(new));
}

/// Sets `target` if the new text is not empty. Empty means "not set" for a field without a wrapper
/// message.
#[inline]
pub(super) fn set_text(field: Field, new: &str, target: &mut String, notes: &mut ChangeNotes<'_>) {
    if !new.is_empty() {
        put_text(field, new, target, notes);
    }
}

#[inline(never)]
fn put_text(field: Field, new: &str, target: &mut String, notes: &mut ChangeNotes<'_>) {
    let before = std::mem::replace(target, new.to_owned());
    notes.take(field, "", Some(&*before).filter(|text| !text.is_empty()), Some(new));
}

/// Inserts a copy of a value into a map, and notes the change.
pub(super) fn insert<T: Clone + Pack>(
    field: Field,
    key: &str,
    value: &T,
    map: &mut BTreeMap<String, T>,
    notes: &mut ChangeNotes<'_>,
) {
    let before = map.insert(key.to_owned(), value.clone());
    notes.take(field, key, before.as_ref(), Some(value));
}

fn apply_memory(memory: &Memory, target: &mut Memory, notes: &mut ChangeNotes<'_>) {
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

fn apply_cpu(cpu: &Cpu, target: &mut Cpu, notes: &mut ChangeNotes<'_>) {
    let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
    set(Field::CPUShares, shares.as_ref(), &mut target.shares, notes);
    set(Field::CPUQuota, quota.as_ref(), &mut target.quota, notes);
    set(Field::CPUPeriod, period.as_ref(), &mut target.period, notes);
    set(Field::CPURealtimeRuntime, realtime_runtime.as_ref(), &mut target.realtime_runtime, notes);
    set(Field::CPURealtimePeriod, realtime_period.as_ref(), &mut target.realtime_period, notes);
    set_text(Field::CPUSetCPUs, cpus, &mut target.cpus, notes);
    set_text(Field::CPUSetMems, mems, &mut target.mems, notes);
}

fn add_hugepage_limits(
    limits: &[HugepageLimit],
    target: &mut Vec<HugepageLimit>,
    n_limits: usize,
    notes: &mut ChangeNotes<'_>,
) {
    if limits.is_empty() {
        return;
    }
    let before: HashMap<&str, u64> =
        target.iter().take(n_limits).map(|limit| (&*limit.page_size, limit.limit)).collect();
    for HugepageLimit { page_size, limit, unknown: _ } in limits {
        notes.take(Field::HugepageLimits, page_size, before.get(&**page_size), Some(limit));
    }
    target.extend_from_slice(limits);
}
