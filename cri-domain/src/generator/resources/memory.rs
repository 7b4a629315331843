use nri_proto::{Field, Memory, Resources};
use serde_json::Value;

use crate::generator::document::{self, Object};
use crate::generator::{SpecError, check};

const PATH: [&str; 3] = ["linux", "resources", "memory"];

/// Adjusts limits of memory. A limit of 0 is ignored, because CRI servers show it for a limit that
/// is not set; runtimes would read a swap limit of 0 as no limit. If memory is limited and swap is
/// not, swap gets the same limit, as in Go. Otherwise a container could swap because a plugin
/// limits its memory.
pub(super) fn adjust(spec: &mut Object, memory: &Memory) -> Result<(), SpecError> {
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
    let amounts = [
        (Field::MemLimit, limit),
        (Field::MemReservation, reservation),
        (Field::MemSwapLimit, swap),
        (Field::MemKernelLimit, kernel),
        (Field::MemTCPLimit, kernel_tcp),
    ];
    for (field, amount) in amounts {
        check::field(field, "").require(amount.is_none_or(|amount| amount >= -1), "the value is less than -1")?;
    }
    let swappiness_fits = swappiness.is_none_or(|swappiness| swappiness <= 100);
    check::field(Field::MemSwappiness, "").require(swappiness_fits, "the value is more than 100")?;
    let limit = limit.filter(|limit| *limit != 0);
    let members = [
        ("limit", limit.into()),
        ("reservation", (*reservation).into()),
        ("swap", swap.filter(|swap| *swap != 0).or(limit).into()),
        ("kernel", (*kernel).into()),
        ("kernelTCP", (*kernel_tcp).into()),
        ("swappiness", (*swappiness).into()),
        ("disableOOMKiller", (*disable_oom_killer).into()),
        ("useHierarchy", (*use_hierarchy).into()),
    ];
    document::set_present(spec, &PATH, members)
}

/// Returns the limits of an update with the limit of swap that follows from a new limit of memory,
/// or `None` if none follows. The current limit of swap is kept if it is not less than the new
/// limit of memory. If both limits were equal, the container may not swap, and both get the new
/// value.
pub(super) fn with_swap(spec: &mut Object, resources: &Resources) -> Result<Option<Resources>, SpecError> {
    let Some(Memory { limit: Some(limit), swap: None | Some(0), .. }) = resources.memory else { return Ok(None) };
    let Some(memory) = document::find_object(spec, &PATH)? else { return Ok(None) };
    let amount = |key| memory.get(key).and_then(Value::as_i64).filter(|amount| *amount != 0);
    let (Some(known), true) = (amount("swap"), limit != 0) else { return Ok(None) };
    let is_both = amount("limit") == Some(known);
    let is_enough = !is_both && (known < 0 || limit >= 0 && known >= limit);
    let mut resources = resources.clone();
    resources.memory_mut().swap = Some(if is_enough { known } else { limit });
    Ok(Some(resources))
}

#[cfg(test)]
mod tests {
    use nri_proto::LinuxAdjustment;
    use serde_json::json;

    use super::*;
    use crate::generator::testing::{check_linux, check_linux_refused};

    fn with(memory: Memory) -> impl FnOnce(&mut LinuxAdjustment) {
        |it| it.resources = Some(Resources { memory: Some(memory), ..Resources::default() })
    }

    #[test]
    fn all_eight_fields_are_applied() {
        let memory = Memory {
            limit: Some(100),
            reservation: Some(50),
            swap: Some(200),
            kernel: Some(-1),
            kernel_tcp: Some(7),
            swappiness: Some(0),
            disable_oom_killer: Some(false),
            use_hierarchy: Some(true),
            ..Memory::default()
        };
        check_linux(
            json!({"linux": {"resources": {"memory": {"checkBeforeUpdate": true, "swap": 1}}}}),
            with(memory),
            json!({"linux": {"resources": {"memory": {
                "checkBeforeUpdate": true, "swap": 200, "limit": 100, "reservation": 50, "kernel": -1, "kernelTCP": 7,
                "swappiness": 0, "disableOOMKiller": false, "useHierarchy": true,
            }}}}),
        );
    }

    #[test]
    fn a_limit_is_that_of_memory_and_swap_unless_swap_has_its_own() {
        let limit = Memory { limit: Some(100), ..Memory::default() };
        check_linux(json!({}), with(limit), json!({"linux": {"resources": {"memory": {"limit": 100, "swap": 100}}}}));
        let swap = Memory { swap: Some(-1), ..Memory::default() };
        check_linux(json!({}), with(swap), json!({"linux": {"resources": {"memory": {"swap": -1}}}}));
        let nothing = Memory { limit: Some(100), swap: Some(0), ..Memory::default() };
        check_linux(json!({}), with(nothing), json!({"linux": {"resources": {"memory": {"limit": 100, "swap": 100}}}}));
        check_linux(json!({}), with(Memory { swap: Some(0), ..Memory::default() }), json!({}));
    }

    fn check_update(memory: Value, limit: i64, swap: Option<i64>, expected: i64) {
        let mut spec = json!({"linux": {"resources": {"memory": memory}}});
        let memory = Memory { limit: Some(limit), swap, ..Memory::default() };
        let resources = Resources { memory: Some(memory), ..Resources::default() };
        crate::generator::update(&mut spec, &resources, &crate::generator::Host::default()).unwrap();
        let memory = &spec["linux"]["resources"]["memory"];
        assert_eq!((&memory["limit"], &memory["swap"]), (&json!(limit), &json!(expected)));
    }

    #[test]
    fn an_update_of_memory_leaves_swap_unless_it_would_be_less() {
        let check = |limit, swap, expected| check_update(json!({"limit": 100, "swap": 300}), limit, swap, expected);
        check(50, None, 300);
        check(200, None, 300);
        check(200, Some(0), 300);
        check(200, Some(250), 250);
        check(400, None, 400);
        check(-1, None, -1);
        check_update(json!({"swap": -1}), 50, None, -1);
        check_update(json!({"limit": 100, "swap": -1}), 50, None, -1);
    }

    /// Otherwise a container that may not swap could swap as soon as its limit of memory is
    /// lowered.
    #[test]
    fn where_nothing_is_swapped_nothing_is_when_memory_is_updated() {
        for both in [100, -1] {
            let before = json!({"limit": both, "swap": both});
            check_update(before.clone(), 50, None, 50);
            check_update(before.clone(), 200, None, 200);
            check_update(before.clone(), -1, None, -1);
            check_update(before, 50, Some(80), 80);
        }
        check_update(json!({"limit": 100}), 50, None, 50);
        check_update(json!({}), 50, None, 50);
    }

    #[test]
    fn a_limit_of_nothing_is_none() {
        check_linux(json!({}), with(Memory { limit: Some(0), ..Memory::default() }), json!({}));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        check_linux_refused(
            with(Memory { limit: Some(-2), ..Memory::default() }),
            "MemLimit: the value is less than -1",
        );
        check_linux_refused(
            with(Memory { swap: Some(i64::MIN), ..Memory::default() }),
            "MemSwapLimit: the value is less than -1",
        );
        check_linux_refused(
            with(Memory { swappiness: Some(101), ..Memory::default() }),
            "MemSwappiness: the value is more than 100",
        );
    }
}
