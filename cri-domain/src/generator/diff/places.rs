//! The names of places in a spec, and the fields of the protocol that they belong to.

use std::borrow::Cow;

use nri_proto::Field;
use serde_json::Value;

/// Splits an entry of a list into its name and its value.
pub(super) type SplitEntry = fn(&Value) -> Option<(Cow<'_, str>, Value)>;

/// A place in a spec that plugins can change.
#[derive(Clone, Copy)]
pub(super) struct SpecPlace<'p> {
    pub(super) field: Option<Field>,
    /// Another field that sets this place. Its owner is used if `field` has none.
    pub(super) cause: Option<Field>,
    /// The key of the entry, or an empty text if the place is not an entry.
    pub(super) key: &'p str,
    /// The readable name of the kind of entry.
    pub(super) label: Option<&'static str>,
    /// Splits the entries of a list that are identified by name.
    pub(super) split: Option<SplitEntry>,
    /// Whether the place is described by one difference, with all its members.
    pub(super) whole: bool,
}

impl SpecPlace<'_> {
    pub(super) fn of(field: Field) -> Self {
        Self { field: Some(field), cause: None, key: "", label: None, split: None, whole: false }
    }
}

/// The label of a device rule. Its owner is that of the device.
pub(super) const RULE: &str = "device rule";

/// Returns the description of a path, or `None` if plugins cannot change the path.
pub(super) fn place<'p>(path: &'p [String]) -> Option<SpecPlace<'p>> {
    let path: Vec<&'p str> = path.iter().map(String::as_str).collect();
    if let Some(field) = simple(&path) {
        return Some(SpecPlace { cause: cause(field), whole: true, ..SpecPlace::of(field) });
    }
    let entry = |field, label, key| Some(SpecPlace { key, label: Some(label), whole: true, ..SpecPlace::of(field) });
    let list = |split: SplitEntry| {
        Some(SpecPlace { field: None, cause: None, key: "", label: None, split: Some(split), whole: false })
    };
    match path[..] {
        ["annotations", key] => entry(Field::Annotations, "annotation", key),
        ["mounts"] => list(|mount| by("destination", mount)),
        ["mounts", key] => entry(Field::Mounts, "mount", key),
        ["process", "env"] => list(variable),
        ["process", "env", key] => entry(Field::Env, "env", key),
        ["process", "rlimits"] => list(|rlimit| by("type", rlimit)),
        ["process", "rlimits", key] => entry(Field::Rlimits, "rlimit", key),
        ["linux", "devices"] => list(|device| by("path", device)),
        ["linux", "devices", key] => entry(Field::Devices, "device", key),
        ["linux", "resources", "devices"] => list(rule),
        ["linux", "resources", "devices", key] => entry(Field::Devices, RULE, key),
        ["linux", "namespaces"] => list(|namespace| by("type", namespace)),
        ["linux", "namespaces", key] => entry(Field::Namespace, "namespace", key),
        ["linux", "sysctl", key] => entry(Field::Sysctl, "sysctl", key),
        ["linux", "netDevices", key] => entry(Field::LinuxNetDevices, "network device", key),
        ["linux", "resources", "hugepageLimits"] => list(|limit| by("pageSize", limit)),
        ["linux", "resources", "hugepageLimits", key] => entry(Field::HugepageLimits, "hugepage limit", key),
        ["linux", "resources", "unified", key] => entry(Field::CgroupsUnified, "unified", key),
        _ => None,
    }
}

/// Returns the field that sets another field indirectly: a class sets RDT settings, and a limit of
/// memory sets that of swap.
fn cause(field: Field) -> Option<Field> {
    const SETTINGS: [Field; 3] = [Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring];
    let is_of_a_class = SETTINGS.contains(&field).then_some(Field::RdtClass);
    is_of_a_class.or((field == Field::MemSwapLimit).then_some(Field::MemLimit))
}

/// Returns the field of a path that is a single value.
fn simple(path: &[&str]) -> Option<Field> {
    Some(match path {
        ["hooks", _] => Field::OciHooks,
        ["process", "args"] => Field::Args,
        ["process", "oomScoreAdj"] => Field::OomScoreAdj,
        ["process", "ioPriority"] => Field::IoPriority,
        ["process", "scheduler"] => Field::LinuxSched,
        ["linux", "cgroupsPath"] => Field::CgroupsPath,
        ["linux", "seccomp"] => Field::SeccompPolicy,
        ["linux", "memoryPolicy"] => Field::MemoryPolicy,
        ["linux", "intelRdt", "closID"] => Field::RdtClosID,
        ["linux", "intelRdt", "schemata"] => Field::RdtSchemata,
        ["linux", "intelRdt", "enableMonitoring"] => Field::RdtEnableMonitoring,
        ["linux", "resources", "blockIO"] => Field::BlockioClass,
        ["linux", "resources", "pids", "limit"] => Field::PidsLimit,
        ["linux", "resources", "cpu", key] => match *key {
            "shares" => Field::CPUShares,
            "quota" => Field::CPUQuota,
            "period" => Field::CPUPeriod,
            "realtimeRuntime" => Field::CPURealtimeRuntime,
            "realtimePeriod" => Field::CPURealtimePeriod,
            "cpus" => Field::CPUSetCPUs,
            "mems" => Field::CPUSetMems,
            _ => return None,
        },
        ["linux", "resources", "memory", key] => match *key {
            "limit" => Field::MemLimit,
            "reservation" => Field::MemReservation,
            "swap" => Field::MemSwapLimit,
            "kernel" => Field::MemKernelLimit,
            "kernelTCP" => Field::MemTCPLimit,
            "swappiness" => Field::MemSwappiness,
            "disableOOMKiller" => Field::MemDisableOomKiller,
            "useHierarchy" => Field::MemUseHierarchy,
            _ => return None,
        },
        _ => return None,
    })
}

fn by<'v>(key: &str, entry: &'v Value) -> Option<(Cow<'v, str>, Value)> {
    Some((entry.get(key)?.as_str()?.into(), entry.clone()))
}

fn variable(entry: &Value) -> Option<(Cow<'_, str>, Value)> {
    let (name, value) = entry.as_str()?.split_once('=')?;
    Some((name.into(), value.into()))
}

/// Splits a device rule. Its name is the device that it is about, such as `c 1:3`.
fn rule(entry: &Value) -> Option<(Cow<'_, str>, Value)> {
    let denies = if entry.get("allow")?.as_bool()? { "" } else { "deny " };
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or("a");
    let number = |key| entry.get(key).and_then(Value::as_i64).map_or("*".to_owned(), |number| number.to_string());
    Some((format!("{denies}{kind} {}:{}", number("major"), number("minor")).into(), entry.clone()))
}
