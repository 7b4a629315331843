use nri_proto::{Field, MemoryPolicy, MemoryPolicyFlag, MemoryPolicyMode};
use serde_json::Value;

use super::document::{self, Object, new_object};
use super::{SpecError, check};

pub(super) fn adjust(spec: &mut Object, policy: &MemoryPolicy) -> Result<(), SpecError> {
    let MemoryPolicy { mode, nodes, flags, unknown: _ } = policy;
    let checked = check::field(Field::MemoryPolicy, "");
    let mode = mode_name(*mode).ok_or_else(|| checked.refuse("the mode is unknown"))?;
    let nodes = checked.number_list(nodes)?;
    let flags =
        flags.iter().map(|flag| flag_name(*flag).map(Value::from).ok_or_else(|| checked.refuse("a flag is unknown")));
    let flags = flags.collect::<Result<Vec<_>, _>>()?;
    let policy = new_object([("mode", mode.into()), ("nodes", nodes.into()), ("flags", flags.into())]);
    document::set(spec, &["linux"], "memoryPolicy", policy)
}

fn mode_name(mode: MemoryPolicyMode) -> Option<&'static str> {
    Some(match mode {
        MemoryPolicyMode::Default => "MPOL_DEFAULT",
        MemoryPolicyMode::Preferred => "MPOL_PREFERRED",
        MemoryPolicyMode::Bind => "MPOL_BIND",
        MemoryPolicyMode::Interleave => "MPOL_INTERLEAVE",
        MemoryPolicyMode::Local => "MPOL_LOCAL",
        MemoryPolicyMode::PreferredMany => "MPOL_PREFERRED_MANY",
        MemoryPolicyMode::WeightedInterleave => "MPOL_WEIGHTED_INTERLEAVE",
        MemoryPolicyMode::Unnamed(_) => return None,
    })
}

fn flag_name(flag: MemoryPolicyFlag) -> Option<&'static str> {
    Some(match flag {
        MemoryPolicyFlag::StaticNodes => "MPOL_F_STATIC_NODES",
        MemoryPolicyFlag::RelativeNodes => "MPOL_F_RELATIVE_NODES",
        MemoryPolicyFlag::NumaBalancing => "MPOL_F_NUMA_BALANCING",
        MemoryPolicyFlag::Unnamed(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check_linux, check_linux_refused};
    use super::*;

    #[test]
    fn a_memory_policy_is_replaced_as_a_whole_without_the_white_space_around_its_nodes() {
        let policy = MemoryPolicy {
            mode: MemoryPolicyMode::Bind,
            nodes: " 0-1,3\n".to_owned(),
            flags: vec![MemoryPolicyFlag::StaticNodes],
            ..MemoryPolicy::default()
        };
        check_linux(
            json!({"linux": {"memoryPolicy": {"mode": "MPOL_LOCAL", "future": 1}}}),
            |it| it.memory_policy = Some(policy),
            json!({"linux": {"memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0-1,3", "flags": ["MPOL_F_STATIC_NODES"]}}}),
        );
        let nowhere = MemoryPolicy { nodes: "all".to_owned(), ..MemoryPolicy::default() };
        let expected = "MemoryPolicy: this is not a list of numbers such as 0-3,7";
        check_linux_refused(|it| it.memory_policy = Some(nowhere), expected);
    }
}
