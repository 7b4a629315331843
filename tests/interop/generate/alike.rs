//! Undoes general differences on both sides. Each step is a row of `docs/differences.md`.

use nri_proto::{Adjustment, Change, ChangeMap, LinuxAdjustment, Memory, Resources};
use nri_tests::generating::Case;
use serde_json::{Map, Value};

/// The changes of a case that lead to general differences.
pub(super) struct Alike<'a> {
    adjustment: &'a Adjustment,
    /// The paths of members that differ, as JSON pointers.
    differ: Vec<String>,
    /// The numbers of devices that are added or removed: kind, major, minor.
    devices: Vec<[Value; 3]>,
}

impl<'a> Alike<'a> {
    pub(super) fn of(case: &'a Case) -> Self {
        let adjustment = &case.adjustment;
        let mut alike = Self { adjustment, differ: vec![], devices: vec![] };
        alike.replaced("/annotations", &adjustment.annotations);
        // "arguments that are replaced": Go keeps the marker.
        if matches!(adjustment.args.change(), Some(Change::Replace(_) | Change::Remove)) {
            alike.differ.push("/process/args".to_owned());
        }
        if let Some(linux) = &adjustment.linux {
            alike.linux(linux, &case.spec);
        }
        alike
    }

    fn linux(&mut self, linux: &LinuxAdjustment, spec: &Value) {
        self.replaced("/linux/sysctl", &linux.sysctl);
        self.replaced("/linux/netDevices", &linux.net_devices);
        // "the default errno of a seccomp policy".
        if linux.seccomp_policy.is_some() {
            self.differ.push("/linux/seccomp/defaultErrnoRet".to_owned());
        }
        // "rules for devices".
        for (path, change) in linux.devices.iter() {
            if let Some(device) = change.value() {
                let numbers = [device.major, device.minor].map(Value::from);
                let [major, minor] = numbers;
                self.devices.push([device.kind.as_str().into(), major, minor]);
            }
            let there = spec.pointer("/linux/devices").and_then(Value::as_array).into_iter().flatten();
            let at_path = there.filter(|device| device["path"] == path);
            self.devices.extend(at_path.map(|device| ["type", "major", "minor"].map(|key| device[key].clone())));
        }
        if let Some(Resources { memory, pids, .. }) = &linux.resources {
            self.memory(memory.as_ref());
            // "no limit of processes".
            if pids.as_ref().is_some_and(|pids| pids.limit == -1) {
                self.differ.push("/linux/resources/pids".to_owned());
            }
        }
    }

    /// "memory": Go applies the limit alone.
    fn memory(&mut self, memory: Option<&Memory>) {
        let Some(Memory {
            limit: _,
            reservation,
            swap,
            kernel,
            kernel_tcp,
            swappiness,
            disable_oom_killer,
            use_hierarchy,
            unknown: _,
        }) = memory
        else {
            return;
        };
        for (is_set, key) in [
            (reservation.is_some(), "reservation"),
            (swap.is_some(), "swap"),
            (kernel.is_some(), "kernel"),
            (kernel_tcp.is_some(), "kernelTCP"),
            (swappiness.is_some(), "swappiness"),
            (disable_oom_killer.is_some(), "disableOOMKiller"),
            (use_hierarchy.is_some(), "useHierarchy"),
        ] {
            if is_set {
                self.differ.push(format!("/linux/resources/memory/{key}"));
            }
        }
    }

    /// "a key that is removed and set": in Go, chance decides.
    fn replaced<T>(&mut self, map: &str, changes: &ChangeMap<T>) {
        let keys = changes.iter().filter(|(_, change)| matches!(change, Change::Replace(_)));
        self.differ.extend(keys.map(|(key, _)| format!("{map}/{}", key.replace('~', "~0").replace('/', "~1"))));
    }

    /// Returns the parts of a spec that must be the same on both sides.
    pub(super) fn spec(&self, mut spec: Value) -> Value {
        for path in &self.differ {
            let (parent, key) = path.rsplit_once('/').unwrap();
            if let Some(parent) = spec.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(&key.replace("~1", "/").replace("~0", "~"));
            }
        }
        // "an entry of the environment that is not a variable".
        if !self.adjustment.env.is_empty() {
            let is_variable = |entry: &str| entry.find('=').is_some_and(|at| at > 0);
            change(&mut spec, "/process/env", |env| env.retain(|entry| entry.as_str().is_some_and(is_variable)));
        }
        // "a limit of a kind that the process has already".
        change(&mut spec, "/process/rlimits", collapse);
        change(&mut spec, "/linux/resources/devices", |rules| rules.retain(|rule| !self.is_of_a_device(rule)));
        // Go adds these members to a process that it creates.
        if let Some(process) = spec.pointer_mut("/process").and_then(Value::as_object_mut) {
            process.retain(|key, value| !(key == "cwd" && value == "" || key == "user" && value["uid"] == 0));
        }
        without_empty(spec, "")
    }

    /// Changes Go's spec as only our generator changes the values of an adjustment, and returns the
    /// parts that must be the same on both sides.
    pub(super) fn theirs(&self, mut spec: Value) -> Value {
        // "white space around a list of CPUs or memory nodes, or around the value of a sysctl".
        for path in ["/linux/resources/cpu/cpus", "/linux/resources/cpu/mems", "/linux/memoryPolicy/nodes"] {
            spec.pointer_mut(path).into_iter().for_each(trim);
        }
        let sysctls = spec.pointer_mut("/linux/sysctl").and_then(Value::as_object_mut);
        sysctls.into_iter().flat_map(Map::values_mut).for_each(trim);
        // "CPU shares that the kernel does not accept".
        if let Some(shares) = spec.pointer_mut("/linux/resources/cpu/shares")
            && *shares != 0
        {
            *shares = shares.as_u64().unwrap().clamp(2, 262_144).into();
        }
        // "an OCI hook with a timeout of 0".
        let hooks = spec.pointer_mut("/hooks").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
        for hook in hooks.filter_map(Value::as_array_mut).flatten().filter_map(Value::as_object_mut) {
            hook.retain(|key, value| !(key == "timeout" && *value == 0));
        }
        // "a device's file mode with bits that say the kind of file".
        let devices = spec.pointer_mut("/linux/devices").and_then(Value::as_array_mut);
        for mode in devices.into_iter().flatten().filter_map(|device| device.get_mut("fileMode")) {
            *mode = (mode.as_u64().unwrap() & 0o7777).into();
        }
        self.spec(spec)
    }

    fn is_of_a_device(&self, rule: &Value) -> bool {
        // An unbuffered device is a character device to the kernel.
        let kind = |kind: &Value| if kind == "u" { "c".into() } else { kind.clone() };
        self.devices.iter().any(|[its_kind, major, minor]| {
            kind(&rule["type"]) == kind(its_kind) && rule["major"] == *major && rule["minor"] == *minor
        })
    }
}

/// Changes a list, if the spec has it.
fn change(spec: &mut Value, path: &str, change: impl FnOnce(&mut Vec<Value>)) {
    if let Some(list) = spec.pointer_mut(path).and_then(Value::as_array_mut) {
        change(list);
    }
}

fn trim(value: &mut Value) {
    *value = value.as_str().unwrap().trim_ascii().into();
}

fn collapse(rlimits: &mut Vec<Value>) {
    let mut collapsed: Vec<Value> = vec![];
    for rlimit in rlimits.drain(..) {
        match collapsed.iter_mut().find(|known| known["type"] == rlimit["type"]) {
            Some(known) => *known = rlimit,
            None => collapsed.push(rlimit),
        }
    }
    *rlimits = collapsed;
}

/// Removes empty sections, which Go creates; only a network device may be empty.
fn without_empty(mut value: Value, key: &str) -> Value {
    match &mut value {
        Value::Object(map) => {
            let kept = std::mem::take(map).into_iter().map(|(key, value)| {
                let value = without_empty(value, &key);
                (key, value)
            });
            let is_empty = |value: &Value| match value {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty() && key != "netDevices",
                Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            };
            // Our generator keeps the order of members, and Go's does not.
            let mut kept: Vec<(String, Value)> = kept.filter(|(_, value)| !is_empty(value)).collect();
            kept.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(Map::from_iter(kept))
        }
        Value::Array(list) => std::mem::take(list).into_iter().map(|value| without_empty(value, "")).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
