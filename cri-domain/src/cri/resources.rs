use std::collections::BTreeSet;

use nri_proto::{Cpu, Field, HugepageLimit, Memory, Resources};

use super::v1;
use crate::limits;

/// Converts the limits of a message. In the message, 0 means that a limit is not set; the result
/// leaves such a limit unset.
///
/// NRI has no OOM score among its limits. Invalid numbers, such as negative shares, are left unset.
pub fn resources(message: &v1::LinuxContainerResources) -> Resources {
    let v1::LinuxContainerResources {
        cpu_period,
        cpu_quota,
        cpu_shares,
        memory_limit_in_bytes,
        oom_score_adj: _,
        cpuset_cpus,
        cpuset_mems,
        hugepage_limits,
        unified,
        memory_swap_limit_in_bytes,
    } = message;
    let cpu = Cpu {
        shares: amount(*cpu_shares),
        quota: set(*cpu_quota),
        period: amount(*cpu_period),
        cpus: cpuset_cpus.clone(),
        mems: cpuset_mems.clone(),
        ..Cpu::default()
    };
    let memory =
        Memory { limit: set(*memory_limit_in_bytes), swap: set(*memory_swap_limit_in_bytes), ..Memory::default() };
    Resources {
        memory: Some(memory).filter(|memory| *memory != Memory::default()),
        cpu: Some(cpu).filter(|cpu| *cpu != Cpu::default()),
        hugepage_limits: hugepages(hugepage_limits),
        unified: unified.clone(),
        ..Resources::default()
    }
}

fn set(number: i64) -> Option<i64> {
    Some(number).filter(|number| *number != 0)
}

fn amount(number: i64) -> Option<u64> {
    set(number)?.try_into().ok()
}

/// Converts limits of huge pages. If a page size occurs several times, the last limit is used.
fn hugepages(limits: &[v1::HugepageLimit]) -> Vec<HugepageLimit> {
    let mut known = BTreeSet::new();
    let mut last: Vec<HugepageLimit> = limits
        .iter()
        .rev()
        .filter(|limit| known.insert(limit.page_size.as_str()))
        .map(|v1::HugepageLimit { page_size, limit }| HugepageLimit {
            page_size: page_size.clone(),
            limit: *limit,
            ..HugepageLimit::default()
        })
        .collect();
    last.reverse();
    last
}

/// The result of [`limit`]: a message with new limits.
#[derive(Clone, Debug, PartialEq)]
pub struct CriLimits {
    /// The message with the limits that the CRI can express.
    pub message: v1::LinuxContainerResources,
    /// The limits that the CRI cannot express. Apply them to the OCI spec
    /// ([`generator::update`](crate::generator::update)).
    pub unsupported: Vec<Field>,
}

/// The limits that a message can express.
const MESSAGE_FIELDS: [Field; 9] = [
    Field::MemLimit,
    Field::MemSwapLimit,
    Field::CPUShares,
    Field::CPUQuota,
    Field::CPUPeriod,
    Field::CPUSetCPUs,
    Field::CPUSetMems,
    Field::HugepageLimits,
    Field::CgroupsUnified,
];

/// Sets limits in a message. All other fields of the message are unchanged.
pub fn limit(mut message: v1::LinuxContainerResources, resources: &Resources) -> CriLimits {
    let missing = limits::fields(resources).into_iter().filter(|field| !MESSAGE_FIELDS.contains(field));
    let mut unsupported: Vec<Field> = missing.collect();
    if let Some(memory) = &resources.memory {
        put(&mut message.memory_limit_in_bytes, memory.limit);
        put(&mut message.memory_swap_limit_in_bytes, memory.swap);
    }
    if let Some(cpu) = &resources.cpu {
        put(&mut message.cpu_quota, cpu.quota);
        for (field, place, amount) in [
            (Field::CPUShares, &mut message.cpu_shares, cpu.shares),
            (Field::CPUPeriod, &mut message.cpu_period, cpu.period),
        ] {
            match amount.map(i64::try_from).transpose() {
                Ok(amount) => put(place, amount),
                Err(_) => unsupported.push(field),
            }
        }
        for (place, list) in [(&mut message.cpuset_cpus, &cpu.cpus), (&mut message.cpuset_mems, &cpu.mems)] {
            if !list.is_empty() {
                place.clone_from(list);
            }
        }
    }
    resources.hugepage_limits.iter().for_each(|limit| limit_hugepages(&mut message, limit));
    message.unified.extend(resources.unified.clone());
    CriLimits { message, unsupported }
}

fn put(place: &mut i64, number: Option<i64>) {
    *place = number.unwrap_or(*place);
}

fn limit_hugepages(message: &mut v1::LinuxContainerResources, limit: &HugepageLimit) {
    let HugepageLimit { page_size, limit, unknown: _ } = limit;
    match message.hugepage_limits.iter_mut().rfind(|known| known.page_size == *page_size) {
        Some(known) => known.limit = *limit,
        None => message.hugepage_limits.push(v1::HugepageLimit { page_size: page_size.clone(), limit: *limit }),
    }
}
