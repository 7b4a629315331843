//! Limits that are set again.
//!
//! `runc update`, and what is like it, leaves a limit as it is that it is not told of. So one that there was none of before is lifted by
//! a value that stands for none.

use serde_json::{Map, Value, json};

/// Limits, and those that there is no word for to lift them.
#[derive(Debug, PartialEq)]
pub(super) struct Again {
    /// As `linux.resources` of a spec.
    pub(super) resources: Value,
    pub(super) left: Vec<String>,
}

/// What stands for no limit.
#[derive(Clone, Copy)]
enum NoLimit {
    Is(i64),
    /// It has another meaning in cgroups of version 2. What they have without a limit is this, in this file.
    IsOrFile(i64, &'static str, &'static str),
    /// There is no word for it.
    Unsayable,
}

const NONE: [(&str, &str, NoLimit); 10] = [
    ("memory", "limit", NoLimit::Is(-1)),
    ("memory", "swap", NoLimit::Is(-1)),
    ("memory", "reservation", NoLimit::IsOrFile(-1, "memory.low", "0")),
    ("cpu", "shares", NoLimit::IsOrFile(1024, "cpu.weight", "100")),
    ("cpu", "quota", NoLimit::Is(-1)),
    ("cpu", "period", NoLimit::Is(100_000)),
    ("pids", "limit", NoLimit::Is(-1)),
    ("cpu", "cpus", NoLimit::Unsayable),
    ("cpu", "mems", NoLimit::Unsayable),
    ("cpu", "realtimeRuntime", NoLimit::Unsayable),
];

/// What is in a cgroup of version 2 that nobody has limited.
const FILES: [(&str, &str); 13] = [
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

/// Returns `wanted` with a word for each limit that is in `tried` and not in it.
pub(super) fn again(wanted: &Value, tried: &Value, cgroup_v2: bool) -> Again {
    let mut again = Again { resources: wanted.clone(), left: vec![] };
    let is_lifted = |section: &str, key: &str| is_set(tried, section, key) && !is_set(wanted, section, key);
    for (section, key, none) in NONE.into_iter().filter(|(section, key, _)| is_lifted(section, key)) {
        match none {
            // Runtimes lift it with that of memory, and know whether this kernel has it.
            NoLimit::Is(_) if key == "swap" && is_lifted(section, "limit") => {}
            NoLimit::Is(number) => again.set(section, key, json!(number)),
            NoLimit::IsOrFile(_, file, value) if cgroup_v2 => again.set("unified", file, json!(value)),
            NoLimit::IsOrFile(number, ..) => again.set(section, key, json!(number)),
            NoLimit::Unsayable => again.left.push(format!("{section}.{key}")),
        }
    }
    // Without them nothing can have come of files, and runtimes refuse them.
    let files = tried.get("unified").filter(|_| cgroup_v2).and_then(Value::as_object).into_iter().flatten();
    for file in files.map(|(file, _)| file).filter(|file| is_lifted("unified", file)) {
        match none_in(file) {
            Some(value) => again.set("unified", file, json!(value)),
            None => again.left.push(file.clone()),
        }
    }
    again
}

fn none_in(file: &str) -> Option<&'static str> {
    let is_hugetlb = file.starts_with("hugetlb.") && file.ends_with(".max");
    let known = FILES.into_iter().find(|(known, _)| *known == file).map(|(_, value)| value);
    known.or_else(|| is_hugetlb.then_some("max"))
}

fn is_set(resources: &Value, section: &str, key: &str) -> bool {
    !matches!(resources.get(section).and_then(|section| section.get(key)), None | Some(Value::Null))
}

impl Again {
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

    fn check(wanted: Value, tried: Value, cgroup_v2: bool, expected: Value, left: &[&str]) {
        let left = left.iter().map(ToString::to_string).collect();
        assert_eq!(again(&wanted, &tried, cgroup_v2), Again { resources: expected, left });
    }

    #[test]
    fn what_was_not_limited_is_lifted() {
        let tried =
            json!({"cpu": {"shares": 9, "quota": 1, "period": 2}, "pids": {"limit": 7}, "memory": {"reservation": 3}});
        let expected = json!({"memory": {"reservation": -1}, "cpu": {"shares": 1024, "quota": -1, "period": 100_000}, "pids": {"limit": -1}});
        check(json!({}), tried.clone(), false, expected, &[]);
        // There a reservation without an end would be all of the machine's memory.
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
