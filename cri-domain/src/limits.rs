//! Limits of a container, field by field.

use nri_proto::{Cpu, Field, HugepageLimit, Memory, Pids, Resources};

/// Returns the fields that are set. Device rules count as [`Field::Devices`].
pub fn fields(resources: &Resources) -> Vec<Field> {
    let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids, unknown: _ } =
        resources;
    let mut set = vec![];
    memory.iter().for_each(|memory| add_memory(memory, &mut set));
    cpu.iter().for_each(|cpu| add_cpu(cpu, &mut set));
    let rest = [
        (!hugepage_limits.is_empty(), Field::HugepageLimits),
        (blockio_class.is_some(), Field::BlockioClass),
        (rdt_class.is_some(), Field::RdtClass),
        (!unified.is_empty(), Field::CgroupsUnified),
        (!devices.is_empty(), Field::Devices),
        (pids.as_ref().is_some_and(|Pids { limit: _, unknown: _ }| true), Field::PidsLimit),
    ];
    add(rest, &mut set);
    set
}

fn add<const N: usize>(fields: [(bool, Field); N], set: &mut Vec<Field>) {
    set.extend(fields.into_iter().filter_map(|(is_set, field)| is_set.then_some(field)));
}

fn add_memory(memory: &Memory, set: &mut Vec<Field>) {
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
    let fields = [
        (limit.is_some(), Field::MemLimit),
        (reservation.is_some(), Field::MemReservation),
        (swap.is_some(), Field::MemSwapLimit),
        (kernel.is_some(), Field::MemKernelLimit),
        (kernel_tcp.is_some(), Field::MemTCPLimit),
        (swappiness.is_some(), Field::MemSwappiness),
        (disable_oom_killer.is_some(), Field::MemDisableOomKiller),
        (use_hierarchy.is_some(), Field::MemUseHierarchy),
    ];
    add(fields, set);
}

fn add_cpu(cpu: &Cpu, set: &mut Vec<Field>) {
    let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
    let fields = [
        (shares.is_some(), Field::CPUShares),
        (quota.is_some(), Field::CPUQuota),
        (period.is_some(), Field::CPUPeriod),
        (realtime_runtime.is_some(), Field::CPURealtimeRuntime),
        (realtime_period.is_some(), Field::CPURealtimePeriod),
        (!cpus.is_empty(), Field::CPUSetCPUs),
        (!mems.is_empty(), Field::CPUSetMems),
    ];
    add(fields, set);
}

/// A limit, and the file of cgroups of version 2 that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLimit {
    pub(crate) field: Field,
    pub(crate) file: String,
    /// The value of the limit. It is only compared.
    value: String,
}

/// Returns the limits that are set and have a file in cgroups of version 2. As in runtimes, 0 means
/// no limit.
pub(crate) fn file_limits(resources: &Resources) -> Vec<FileLimit> {
    let (memory, cpu) = (resources.memory.as_ref(), resources.cpu.as_ref());
    let number = |number: Option<i128>| number.filter(|number| *number != 0).map(|number| number.to_string());
    let memory = |of: fn(&Memory) -> Option<i64>| number(memory.and_then(of).map(i128::from));
    let list = |of: fn(&Cpu) -> &String| cpu.map(of).filter(|list| !list.is_empty()).cloned();
    let named = [
        (Field::MemLimit, "memory.max", memory(|it| it.limit)),
        (Field::MemReservation, "memory.low", memory(|it| it.reservation)),
        (Field::MemSwapLimit, "memory.swap.max", memory(|it| it.swap)),
        (Field::CPUShares, "cpu.weight", number(cpu.and_then(|it| it.shares).map(i128::from))),
        (Field::CPUQuota, "cpu.max", number(cpu.and_then(|it| it.quota).map(i128::from))),
        (Field::CPUPeriod, "cpu.max", number(cpu.and_then(|it| it.period).map(i128::from))),
        (Field::CPUSetCPUs, "cpuset.cpus", list(|it| &it.cpus)),
        (Field::CPUSetMems, "cpuset.mems", list(|it| &it.mems)),
        (Field::PidsLimit, "pids.max", number(resources.pids.as_ref().map(|pids| pids.limit.into()))),
    ];
    let named = named.into_iter().filter_map(|(field, file, value)| Some((field, file.to_owned(), value?)));
    let hugepages = resources.hugepage_limits.iter().map(|HugepageLimit { page_size, limit, unknown: _ }| {
        (Field::HugepageLimits, format!("hugetlb.{page_size}.max"), limit.to_string())
    });
    named.chain(hugepages).map(|(field, file, value)| FileLimit { field, file, value }).collect()
}

/// Removes files from merged limits if the kubelet requested the file and a plugin changed the
/// field of the same limit. Runtimes write files after fields, so the file would override the
/// plugin.
pub(crate) fn remove_stale_files(asked: &Resources, merged: &mut Resources) {
    let known = file_limits(asked);
    for changed in file_limits(merged).into_iter().filter(|it| !known.contains(it)) {
        let FileLimit { file, .. } = changed;
        if merged.unified.get(&file) == asked.unified.get(&file) {
            merged.unified.remove(&file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified(file: &str, value: &str) -> Resources {
        Resources { unified: [(file.to_owned(), value.to_owned())].into(), ..Resources::default() }
    }

    #[test]
    fn a_field_that_a_plugin_changed_counts_before_a_file_that_the_kubelet_asked_for() {
        let check = |asked: &Resources, change: fn(&mut Resources), file: &str, expected: Option<&str>| {
            let mut merged = asked.clone();
            change(&mut merged);
            remove_stale_files(asked, &mut merged);
            assert_eq!(merged.unified.get(file).map(String::as_str), expected, "{merged:?}");
        };
        let mut asked = unified("memory.max", "100");
        asked.memory_mut().limit = Some(100);
        check(&asked, |it| it.memory_mut().limit = Some(50), "memory.max", None);
        check(&asked, |it| it.cpu_mut().shares = Some(50), "memory.max", Some("100"));
        // A file that a plugin sets always takes effect.
        let both = |it: &mut Resources| {
            it.memory_mut().limit = Some(50);
            it.unified.insert("memory.max".to_owned(), "70".to_owned());
        };
        check(&asked, both, "memory.max", Some("70"));
        // The kubelet limits swap through a file, and a limit of memory does not change that.
        let swap = unified("memory.swap.max", "0");
        check(&swap, |it| it.memory_mut().limit = Some(50), "memory.swap.max", Some("0"));
        check(&swap, |it| it.memory_mut().swap = Some(50), "memory.swap.max", None);
        check(&unified("cpu.max", "max"), |it| it.cpu_mut().quota = Some(5000), "cpu.max", None);
        let hugepages = |it: &mut Resources| {
            it.hugepage_limits.push(HugepageLimit { page_size: "2MB".to_owned(), limit: 1, ..HugepageLimit::default() })
        };
        check(&unified("hugetlb.2MB.max", "0"), hugepages, "hugetlb.2MB.max", None);
    }

    #[test]
    fn what_is_set_is_told_and_nothing_else() {
        assert_eq!(fields(&Resources::default()), []);
        let mut resources = Resources::default();
        resources.memory_mut().swap = Some(0);
        resources.cpu_mut().cpus = "0".to_owned();
        resources.limit_pids(-1);
        resources.rdt_class = Some(String::new());
        let expected = [Field::MemSwapLimit, Field::CPUSetCPUs, Field::RdtClass, Field::PidsLimit];
        assert_eq!(fields(&resources), expected);
    }
}
