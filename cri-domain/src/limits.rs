//! Limits, field by field.

use nri_proto::{Cpu, Field, Memory, Pids, Resources};

/// Returns the fields that are set. Rules for devices are [`Field::Devices`].
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

#[cfg(test)]
mod tests {
    use super::*;

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
