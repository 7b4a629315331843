//! Renames entries to a few names, so that the entries of different replies meet.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use nri_proto::{
    Adjustment, Change, ChangeList, ChangeMap, Container, Keyed, LinuxAdjustment, LinuxContainer, Resources,
};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "/e", "f.g"];
/// The names are in their canonical spelling.
const SYSCTLS: [&str; 6] = ["a", "b", "c", "d", "e.h", "f.g"];

/// Returns one of `names`, always the same one for the same text.
pub(crate) fn name<'a>(text: &str, names: &[&'a str]) -> &'a str {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    names[usize::try_from(hasher.finish() >> 32).unwrap_or(0) % names.len()]
}

fn key(text: &mut String) {
    *text = name(text, &KEYS).to_owned();
}

pub(super) fn adjustment(adjustment: &mut Adjustment) {
    let Adjustment { annotations, mounts, env, hooks: _, linux, rlimits, cdi_devices, args: _, unknown: _ } =
        adjustment;
    changes_by_name(annotations);
    changes(mounts);
    changes(env);
    rlimits.iter_mut().for_each(|rlimit| key(&mut rlimit.kind));
    cdi_devices.iter_mut().for_each(|device| key(&mut device.name));
    if let Some(LinuxAdjustment { devices, resources, namespaces, sysctl, net_devices, .. }) = linux {
        changes(devices);
        changes(namespaces);
        rename_keys(sysctl, &SYSCTLS);
        changes_by_name(net_devices);
        resources.iter_mut().for_each(self::resources);
    }
}

pub(super) fn resources(resources: &mut Resources) {
    resources.hugepage_limits.iter_mut().for_each(|limit| key(&mut limit.page_size));
    by_name(&mut resources.unified);
}

pub(super) fn container(container: &mut Container) {
    by_name(&mut container.annotations);
    container.mounts.iter_mut().for_each(|mount| key(&mut mount.destination));
    container.rlimits.iter_mut().for_each(|rlimit| key(&mut rlimit.kind));
    // Some lack the `=`.
    for variable in &mut container.env {
        match variable.split_once('=') {
            Some((before, after)) => *variable = format!("{}={after}", name(before, &KEYS)),
            None if variable.len() > 2 => *variable = format!("{}={variable}", name(variable, &KEYS)),
            None => key(variable),
        }
    }
    if let Some(LinuxContainer { devices, namespaces, sysctl, net_devices, resources, .. }) = &mut container.linux {
        devices.iter_mut().for_each(|device| key(&mut device.path));
        namespaces.iter_mut().for_each(|namespace| key(&mut namespace.kind));
        by_names(sysctl, &SYSCTLS);
        by_name(net_devices);
        resources.iter_mut().for_each(self::resources);
    }
}

fn by_name<T>(map: &mut BTreeMap<String, T>) {
    by_names(map, &KEYS);
}

fn by_names<T>(map: &mut BTreeMap<String, T>, names: &[&str]) {
    *map = std::mem::take(map).into_iter().map(|(text, value)| (name(&text, names).to_owned(), value)).collect();
}

fn changes<T: Keyed + Clone>(changes: &mut ChangeList<T>) {
    rename(changes, &KEYS);
}

fn changes_by_name<T: Clone>(changes: &mut ChangeMap<T>) {
    rename_keys(changes, &KEYS);
}

/// Renames each entry to one of these names. None of them begins with a dash, so all can be set.
pub(crate) fn rename<T: Keyed + Clone>(changes: &mut ChangeList<T>, names: &[&str]) {
    let mut folded = ChangeList::new();
    for (text, change) in changes.iter() {
        let key = name(text, names).to_owned();
        let with_key = |value: &T| {
            let mut value = value.clone();
            value.set_key(key.clone());
            value
        };
        match change {
            Change::Set(value) => _ = folded.set(with_key(value)),
            Change::Replace(value) => _ = folded.replace(with_key(value)),
            Change::Remove => folded.remove(key),
        }
    }
    *changes = folded;
}

/// Like [`rename`], for a map.
pub(crate) fn rename_keys<T: Clone>(changes: &mut ChangeMap<T>, names: &[&str]) {
    let mut folded = ChangeMap::new();
    for (text, change) in changes.iter() {
        let key = name(text, names);
        match change {
            Change::Set(value) => _ = folded.set(key, value.clone()),
            Change::Replace(value) => _ = folded.replace(key, value.clone()),
            Change::Remove => folded.remove(key),
        }
    }
    *changes = folded;
}
