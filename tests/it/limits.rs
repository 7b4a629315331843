//! Limits, from the model into a spec and back.

use std::collections::BTreeMap;

use cri_domain::generator::{Host, update};
use cri_domain::to_nri;
use nri_proto::{Cpu, HugepageLimit, Memory, Resources, TakeUnknown as _, Update};
use nri_tests::generating;
use proptest::prelude::*;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn limits_that_are_set_are_the_limits_that_plugins_see(adjustment in generating::adjustment()) {
        let limits = adjustment.linux.and_then(|linux| linux.resources).unwrap_or_default();
        let mut spec = json!({});
        update(&mut spec, &limits, &Host::default()).unwrap();
        let seen = to_nri::resources(spec.pointer("/linux/resources").unwrap_or(&Value::Null));
        prop_assert_eq!(seen, expected(limits));
    }
}

/// Returns the limits as the spec shows them. Empty values are unset, a limit of memory also limits
/// swap, and a spec has no names of classes. CPU shares are clamped to the range of the kernel, and
/// lists are trimmed.
fn expected(mut limits: Resources) -> Resources {
    let mut update = Update::new("", limits.clone());
    update.take_unknown();
    limits.clone_from(update.resources().unwrap());
    limits.blockio_class = None;
    limits.rdt_class = None;
    if let Some(memory) = &mut limits.memory {
        let some = |amount: Option<i64>| amount.filter(|amount| *amount != 0);
        memory.limit = some(memory.limit);
        memory.swap = some(memory.swap).or(memory.limit);
    }
    if let Some(Cpu { shares, cpus, mems, .. }) = &mut limits.cpu {
        *shares = shares.map(|shares| if shares == 0 { 0 } else { shares.clamp(2, 262_144) });
        for list in [cpus, mems] {
            *list = list.trim().to_owned();
        }
    }
    limits.memory = limits.memory.filter(|memory| *memory != Memory::default());
    limits.cpu = limits.cpu.filter(|cpu| *cpu != Cpu::default());
    limits.hugepage_limits = last_of_each_size(&limits.hugepage_limits);
    limits
}

fn last_of_each_size(limits: &[HugepageLimit]) -> Vec<HugepageLimit> {
    let last: BTreeMap<&str, u64> = limits.iter().map(|limit| (limit.page_size.as_str(), limit.limit)).collect();
    let mut seen: Vec<HugepageLimit> = vec![];
    for limit in limits {
        if seen.iter().all(|known| known.page_size != limit.page_size) {
            seen.push(HugepageLimit { limit: last[limit.page_size.as_str()], ..limit.clone() });
        }
    }
    seen
}
