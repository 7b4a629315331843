use std::collections::BTreeSet;

use nri_proto::{Cpu, Field, HugepageLimit, Memory, Resources};

use super::v1;
use crate::limits;

/// Returns the limits of a message. Zero is what is not set there; to say so here, nothing is set.
///
/// An OOM score has no place among NRI's limits, and numbers that cannot be meant (negative shares) are not set.
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

/// The last limit of a size counts.
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

/// What comes of limits in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// The message.
    pub message: v1::LinuxContainerResources,
    /// What was to be set and has no place in it. The CRI cannot say it: apply it to the OCI spec
    /// ([`generator::update`](crate::generator::update)).
    pub unsupported: Vec<Field>,
}

/// Sets limits in a message. What is not set stays, also what NRI has no word for.
pub fn limit(mut message: v1::LinuxContainerResources, resources: &Resources) -> Limited {
    let mut unsupported = vec![];
    for field in limits::fields(resources) {
        if !set_one(&mut message, resources, field) {
            unsupported.push(field);
        }
    }
    Limited { message, unsupported }
}

/// Says whether there is a place for it.
fn set_one(message: &mut v1::LinuxContainerResources, resources: &Resources, field: Field) -> bool {
    let memory = resources.memory.as_ref();
    let cpu = resources.cpu.as_ref();
    let unsigned = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
    let (place, number) = match field {
        Field::MemLimit => (&mut message.memory_limit_in_bytes, memory.and_then(|it| it.limit)),
        Field::MemSwapLimit => (&mut message.memory_swap_limit_in_bytes, memory.and_then(|it| it.swap)),
        Field::CPUShares => (&mut message.cpu_shares, cpu.and_then(|it| unsigned(it.shares))),
        Field::CPUQuota => (&mut message.cpu_quota, cpu.and_then(|it| it.quota)),
        Field::CPUPeriod => (&mut message.cpu_period, cpu.and_then(|it| unsigned(it.period))),
        Field::CPUSetCPUs => {
            message.cpuset_cpus = cpu.map(|it| it.cpus.clone()).unwrap_or_default();
            return true;
        }
        Field::CPUSetMems => {
            message.cpuset_mems = cpu.map(|it| it.mems.clone()).unwrap_or_default();
            return true;
        }
        Field::HugepageLimits => {
            resources.hugepage_limits.iter().for_each(|limit| limit_hugepages(message, limit));
            return true;
        }
        Field::CgroupsUnified => {
            message.unified.extend(resources.unified.clone());
            return true;
        }
        _ => return false,
    };
    // A number that is too large for the message has no place in it.
    let Some(number) = number else { return false };
    *place = number;
    true
}

fn limit_hugepages(message: &mut v1::LinuxContainerResources, limit: &HugepageLimit) {
    let HugepageLimit { page_size, limit, unknown: _ } = limit;
    match message.hugepage_limits.iter_mut().rfind(|known| known.page_size == *page_size) {
        Some(known) => known.limit = *limit,
        None => message.hugepage_limits.push(v1::HugepageLimit { page_size: page_size.clone(), limit: *limit }),
    }
}
