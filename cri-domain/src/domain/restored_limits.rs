//! Computes the limits that undo a failed update.
//!
//! `runc update` and similar commands leave a limit unchanged if the request does not name it. A
//! limit that did not exist before the update is therefore reset with an explicit value.

use serde_json::{Map, Value, json};

/// Limits to send to the runtime, and the limits that cannot be reset.
#[derive(Debug, PartialEq)]
pub(super) struct RestoredLimits {
    /// The limits, as `linux.resources` of a spec.
    pub(super) resources: Value,
    /// The limits that cannot be reset, as their paths in `linux.resources`.
    pub(super) not_restored: Vec<String>,
}

/// The way to reset one limit.
#[derive(Clone, Copy)]
enum NoLimit {
    /// Sets the field of the limit to this value.
    Value(i64),
    /// Sets the field of the limit to this value, with cgroups of version 1. With version 2 the
    /// value means something else, so this text is written to this file of the cgroup instead.
    ValueOrFile(i64, &'static str, &'static str),
    /// The limit cannot be reset, because no value of the field stands for "no limit".
    NotExpressible,
}

/// The limits of `linux.resources` by section and key, and how each of them is reset.
const RESET_VALUES: [(&str, &str, NoLimit); 10] = [
    ("memory", "limit", NoLimit::Value(-1)),
    ("memory", "swap", NoLimit::Value(-1)),
    ("memory", "reservation", NoLimit::ValueOrFile(-1, "memory.low", "0")),
    ("cpu", "shares", NoLimit::ValueOrFile(1024, "cpu.weight", "100")),
    ("cpu", "quota", NoLimit::Value(-1)),
    ("cpu", "period", NoLimit::Value(100_000)),
    ("pids", "limit", NoLimit::Value(-1)),
    ("cpu", "cpus", NoLimit::NotExpressible),
    ("cpu", "mems", NoLimit::NotExpressible),
    ("cpu", "realtimeRuntime", NoLimit::NotExpressible),
];

/// The contents of files of cgroups of version 2 without a limit.
const RESET_FILES: [(&str, &str); 13] = [
    ("memory.max", "max"),
    ("memory.high", "max"),
    ("memory.low", "0"),
    ("memory.min", "0"),
    ("memory.swap.max", "max"),
    ("memory.swap.high", "max"),
    ("memory.oom.group", "0"),
    ("cpu.max", "max 100000"),
    ("cpu.weight", "100"),
    ("cpu.idle", "0"),
    ("cpu.uclamp.min", "0"),
    ("cpu.uclamp.max", "max"),
    ("pids.max", "max"),
];

/// Returns `wanted`, and resets each limit that is in `tried` but not in `wanted`.
pub(super) fn restored_limits(wanted: &Value, tried: &Value, cgroup_v2: bool) -> RestoredLimits {
    let mut restored = RestoredLimits { resources: wanted.clone(), not_restored: vec![] };
    let is_reset = |section: &str, key: &str| is_set(tried, section, key) && !is_set(wanted, section, key);
    for (section, key, no_limit) in RESET_VALUES.into_iter().filter(|(section, key, _)| is_reset(section, key)) {
        match no_limit {
            // Runtimes reset the limit of swap with that of memory, and know whether this kernel
            // has it.
            NoLimit::Value(_) if key == "swap" && is_reset(section, "limit") => {}
            NoLimit::Value(number) => restored.set(section, key, json!(number)),
            NoLimit::ValueOrFile(_, file, value) if cgroup_v2 => restored.set("unified", file, json!(value)),
            NoLimit::ValueOrFile(number, ..) => restored.set(section, key, json!(number)),
            NoLimit::NotExpressible => restored.not_restored.push(format!("{section}.{key}")),
        }
    }
    // With cgroups of version 1 runtimes refuse files, so the update has set none.
    let files = tried.get("unified").filter(|_| cgroup_v2).and_then(Value::as_object).into_iter().flatten();
    for file in files.map(|(file, _)| file).filter(|file| is_reset("unified", file)) {
        match reset_value(file) {
            Some(value) => restored.set("unified", file, json!(value)),
            None => restored.not_restored.push(file.clone()),
        }
    }
    restored
}

fn reset_value(file: &str) -> Option<&'static str> {
    let is_hugetlb = file.starts_with("hugetlb.") && file.ends_with(".max");
    let known = RESET_FILES.into_iter().find(|(known, _)| *known == file).map(|(_, value)| value);
    known.or_else(|| is_hugetlb.then_some("max"))
}

fn is_set(resources: &Value, section: &str, key: &str) -> bool {
    !matches!(resources.get(section).and_then(|section| section.get(key)), None | Some(Value::Null))
}

impl RestoredLimits {
    fn set(&mut self, section: &str, key: &str, value: Value) {
        let Some(resources) = self.resources.as_object_mut() else { return };
        let section = resources.entry(section).or_insert_with(|| Value::Object(Map::new()));
        if let Some(section) = section.as_object_mut() {
            section.insert(key.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: Value, tried: Value, cgroup_v2: bool, expected: Value, not_restored: &[&str]) {
        let not_restored = not_restored.iter().map(ToString::to_string).collect();
        assert_eq!(restored_limits(&wanted, &tried, cgroup_v2), RestoredLimits { resources: expected, not_restored });
    }

    #[test]
    fn what_was_not_limited_is_lifted() {
        let tried =
            json!({"cpu": {"shares": 9, "quota": 1, "period": 2}, "pids": {"limit": 7}, "memory": {"reservation": 3}});
        let expected = json!({"memory": {"reservation": -1}, "cpu": {"shares": 1024, "quota": -1, "period": 100_000}, "pids": {"limit": -1}});
        check(json!({}), tried.clone(), false, expected, &[]);
        // With cgroups of version 2, a reservation of -1 would reserve all memory of the machine.
        let expected = json!({
            "unified": {"memory.low": "0", "cpu.weight": "100"}, "cpu": {"quota": -1, "period": 100_000}, "pids": {"limit": -1},
        });
        check(json!({}), tried, true, expected, &[]);
    }

    #[test]
    fn what_was_limited_is_so_again() {
        let before = json!({"cpu": {"shares": 2}, "unified": {"memory.high": "5"}, "future": true});
        let tried = json!({"cpu": {"shares": 9}, "unified": {"memory.high": "7"}, "future": false});
        check(before.clone(), tried, true, before, &[]);
    }

    #[test]
    fn swap_is_lifted_with_memory_by_the_runtime_and_alone_by_its_own_word() {
        let tried = json!({"memory": {"limit": 9, "swap": 9}});
        check(json!({}), tried.clone(), false, json!({"memory": {"limit": -1}}), &[]);
        let before = json!({"memory": {"limit": 5}});
        check(before, tried, false, json!({"memory": {"limit": 5, "swap": -1}}), &[]);
    }

    #[test]
    fn a_file_is_lifted_by_what_it_has_without_a_limit_and_others_are_told() {
        let tried = json!({"unified": {"memory.high": "5", "hugetlb.2MB.max": "0", "x.y": "1"}, "cpu": {"cpus": "0"}});
        let expected = json!({"unified": {"memory.high": "max", "hugetlb.2MB.max": "max"}});
        check(json!({}), tried.clone(), true, expected, &["cpu.cpus", "x.y"]);
        check(json!({}), tried, false, json!({}), &["cpu.cpus"]);
    }
}
