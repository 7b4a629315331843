//! The spec generator, with specs and adjustments from the input: any bytes that can be decoded, or
//! likely values.

use std::collections::BTreeSet;
use std::sync::Arc;

use cri_domain::generator::host::Allowlist;
use cri_domain::generator::{Host, adjust, adjust_json, update};
use cri_domain::model::{ContainerRecord, ServerSettings};
use cri_domain::to_nri;
use nri_proto::{Adjustment, Change, LinuxAdjustment, Resources, api};
use serde_json::Value;

use super::merges::{likely, message};
use super::script::Script;
use crate::generating;

/// Applies an adjustment. It is applied as a whole or not at all, applying it again changes
/// nothing, all requested changes are there, and everything else stays.
pub fn generates(input: &[u8]) {
    let mut script = Script(input);
    let choice = script.byte();
    let adjustment = if choice & 1 == 0 {
        message::<api::ContainerAdjustment>(&mut script).unwrap_or_default().into()
    } else {
        likely(&generating::adjustment(), &mut script)
    };
    let spec = if choice & 2 == 0 {
        serde_json::from_slice(script.0).unwrap_or_default()
    } else {
        likely(&generating::spec(), &mut script)
    };
    let allow = if choice & 4 == 0 { Allowlist::everything() } else { Allowlist::default() };
    check(&spec, &adjustment, &Host { allow, ..Host::default() });
    check_update(&spec, &adjustment);
    // The result can always be converted to what plugins see.
    let record = ContainerRecord { spec: Some(Arc::new(spec)), ..ContainerRecord::default() };
    _ = to_nri::container(&record, &ServerSettings::default());
}

/// Checks that new limits are applied as a whole or not at all, and that nothing but limits
/// changes.
fn check_update(before: &Value, adjustment: &Adjustment) {
    let Some(resources) = adjustment.linux.as_ref().and_then(|linux| linux.resources.as_ref()) else { return };
    let mut spec = before.clone();
    if update(&mut spec, resources, &Host::default()).is_err() {
        assert_eq!(spec, *before, "refused limits left something behind");
        return;
    }
    check_what_stays(before, &spec);
    check_what_is_forbidden(before, &spec, &Host::default());
    for key in ["annotations", "hooks", "mounts", "process"] {
        assert_eq!(before.get(key), spec.get(key), "{key} changed");
    }
    let once = spec.clone();
    let again = update(&mut spec, &Resources { devices: vec![], ..resources.clone() }, &Host::default());
    assert!(again.is_ok() && spec == once, "the same limits again are others");
}

fn check(before: &Value, adjustment: &Adjustment, host: &Host) {
    let mut spec = before.clone();
    let outcome = adjust(&mut spec, adjustment, host);
    let text = adjust_json(&before.to_string(), adjustment, host);
    let Ok(_) = outcome else {
        assert_eq!(spec, *before, "a refused adjustment left something behind");
        assert!(text.is_err(), "it is refused once and taken once");
        return;
    };
    if let Ok((text, _)) = text {
        assert_eq!(text, spec.to_string(), "it is not the same again");
    } else {
        // An adjustment without changes does not examine the spec.
        assert_eq!(*adjustment, Adjustment::default(), "it is taken once and refused once");
    }
    check_what_stays(before, &spec);
    check_what_is_forbidden(before, &spec, host);
    check_what_is_there(&spec, adjustment);
}

/// Checks that nothing has changed that no plugin may change, or that plugins may change only with
/// permission.
fn check_what_is_forbidden(before: &Value, after: &Value, host: &Host) {
    let those = |spec: &Value, path: &str, start: &str| -> Vec<(String, Value)> {
        let entries = spec.pointer(path).and_then(Value::as_object).into_iter().flatten();
        entries.filter(|(key, _)| key.starts_with(start)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let unified = "/linux/resources/unified";
    assert_eq!(those(before, unified, "cgroup."), those(after, unified, "cgroup."), "a file of no controller changed");
    if host.allow == Allowlist::default() {
        for start in ["io.kubernetes.", "org.systemd.property.", "run.oci."] {
            let of = |spec: &Value| those(spec, "/annotations", start);
            assert_eq!(of(before), of(after), "settings of runtimes changed");
        }
    }
}

/// Checks the members that no adjustment changes.
fn check_what_stays(before: &Value, after: &Value) {
    let adjustable = ["annotations", "process", "hooks", "mounts", "linux"];
    let others = |spec: &Value| -> Vec<(String, Value)> {
        let members = spec.as_object().into_iter().flatten();
        let others = members.filter(|(key, _)| !adjustable.contains(&key.as_str()));
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    assert_eq!(others(before), others(after), "something else changed");
    for key in ["user", "cwd", "capabilities", "terminal"] {
        assert_eq!(before["process"][key], after["process"][key], "process.{key} changed");
    }
    for key in ["maskedPaths", "uidMappings", "personality"] {
        assert_eq!(before["linux"][key], after["linux"][key], "linux.{key} changed");
    }
}

/// Checks that values that were set are present once, and that removed values are absent.
fn check_what_is_there(spec: &Value, adjustment: &Adjustment) {
    let Adjustment { annotations, mounts, env, linux, rlimits, .. } = adjustment;
    for (key, change) in annotations.iter() {
        assert_eq!(spec["annotations"].get(key).and_then(Value::as_str), change.value().map(|value| value.as_str()));
    }
    let destinations = keys(&spec["mounts"], |mount| mount["destination"].as_str());
    check_keys(&destinations, mounts.iter().map(|(key, change)| (key, change.map(|_| ()))));
    let names = keys(&spec["process"]["env"], |entry| entry.as_str()?.split_once('=').map(|(name, _)| name));
    check_keys(&names, env.iter().map(|(key, change)| (key, change.map(|_| ()))));
    let kinds = keys(&spec["process"]["rlimits"], |rlimit| rlimit["type"].as_str());
    check_keys(&kinds, rlimits.iter().map(|rlimit| (rlimit.kind.as_str(), Change::Set(()))));
    if let Some(LinuxAdjustment { devices, namespaces, .. }) = linux {
        let paths = keys(&spec["linux"]["devices"], |device| device["path"].as_str());
        check_keys(&paths, devices.iter().map(|(key, change)| (key, change.map(|_| ()))));
        let kinds = keys(&spec["linux"]["namespaces"], |namespace| namespace["type"].as_str());
        check_keys(&kinds, namespaces.iter().map(|(key, change)| (key, change.map(|_| ()))));
    }
}

fn keys<'v>(list: &'v Value, key: impl Fn(&'v Value) -> Option<&'v str>) -> Vec<&'v str> {
    list.as_array().into_iter().flatten().filter_map(key).collect()
}

fn check_keys<'k>(there: &[&str], changes: impl Iterator<Item = (&'k str, Change<()>)>) {
    let mut seen = BTreeSet::new();
    for (key, change) in changes.filter(|(key, _)| seen.insert(key.to_owned())) {
        let count = there.iter().filter(|known| **known == key).count();
        assert_eq!(count, usize::from(change.value().is_some()), "{key:?} is there {count} times after {change:?}");
    }
}
