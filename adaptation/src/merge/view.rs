//! Shows the next plugin what the plugins before it changed.

use std::collections::{BTreeMap, HashMap};

use nri_proto::{
    Adjustment, Args, ChangeList, ChangeMap, Container, EnvVar, Field, Hooks, Keyed, LinuxAdjustment, LinuxContainer,
    Rdt, Rlimit,
};

use super::notes::ChangeNotes;
use super::packing::Pack;
use super::resources::{self, set, set_text};

/// Adds the empty messages that upstream adds to a container before the first plugin is shown it.
pub(super) fn normalise(container: &mut Container) {
    container.hooks.get_or_insert_default();
    let linux = container.linux.get_or_insert_default();
    resources::normalise(linux.resources.get_or_insert_default());
}

/// Applies an adjustment to the container, except `rdt`, which depends on the original value.
pub(super) fn adjust(container: &mut Container, adjustment: &Adjustment, notes: &mut ChangeNotes<'_>) {
    let Adjustment { annotations, mounts, env, hooks, linux, rlimits, cdi_devices, args, unknown: _ } = adjustment;
    change_map(Field::Annotations, annotations, &mut container.annotations, notes);
    change_list(Field::Mounts, mounts, &mut container.mounts, notes);
    change_list(Field::Env, env, &mut container.env, notes);
    change_args(args, &mut container.args, notes);
    if let Some(hooks) = hooks {
        add_hooks(hooks.clone(), container.hooks.get_or_insert_default());
        if *hooks != Hooks::default() {
            notes.take(Field::OciHooks, "", None, Some(hooks));
        }
    }
    if let Some(linux) = linux {
        adjust_linux(container.linux.get_or_insert_default(), linux, notes);
    }
    add_rlimits(rlimits, &mut container.rlimits, notes);
    // CDI devices are not shown: they are names that the runtime resolves later.
    for device in cdi_devices {
        notes.take(Field::CdiDevices, &device.name, None, Some(&*device.name));
    }
}

/// Appends hooks to the hooks in `target`.
pub(super) fn add_hooks(hooks: Hooks, target: &mut Hooks) {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } = hooks;
    target.prestart.extend(prestart);
    target.create_runtime.extend(create_runtime);
    target.create_container.extend(create_container);
    target.start_container.extend(start_container);
    target.poststart.extend(poststart);
    target.poststop.extend(poststop);
}

/// Returns the RDT settings that a container shows, given its original settings and the merged
/// adjustment of all plugins.
pub(super) fn rdt(original: Option<&Rdt>, result: Rdt) -> Option<Rdt> {
    let Rdt { clos_id, schemata, enable_monitoring, remove, unknown: _ } = result;
    if remove {
        return None;
    }
    if clos_id.is_none() && schemata.is_none() && enable_monitoring.is_none() {
        return original.cloned();
    }
    let mut shown = original.cloned().unwrap_or_default();
    shown.clos_id = clos_id.or(shown.clos_id);
    shown.schemata = schemata.or(shown.schemata);
    shown.enable_monitoring = enable_monitoring.or(shown.enable_monitoring);
    Some(shown)
}

fn adjust_linux(container: &mut LinuxContainer, adjustment: &LinuxAdjustment, notes: &mut ChangeNotes<'_>) {
    let LinuxAdjustment {
        devices,
        resources,
        cgroups_path,
        oom_score_adj,
        io_priority,
        seccomp_policy,
        namespaces,
        sysctl,
        net_devices,
        scheduler,
        rdt: _,
        memory_policy,
        unknown: _,
    } = adjustment;
    change_list(Field::Devices, devices, &mut container.devices, notes);
    if let Some(resources) = resources {
        let target = container.resources.get_or_insert_default();
        resources::apply(resources, target, target.hugepage_limits.len(), notes);
    }
    set_text(Field::CgroupsPath, cgroups_path, &mut container.cgroups_path, notes);
    set(Field::OomScoreAdj, oom_score_adj.as_ref(), &mut container.oom_score_adj, notes);
    set(Field::IoPriority, io_priority.as_ref(), &mut container.io_priority, notes);
    set(Field::SeccompPolicy, seccomp_policy.as_ref(), &mut container.seccomp_policy, notes);
    change_list(Field::Namespace, namespaces, &mut container.namespaces, notes);
    change_map(Field::Sysctl, sysctl, &mut container.sysctl, notes);
    change_map(Field::LinuxNetDevices, net_devices, &mut container.net_devices, notes);
    set(Field::LinuxSched, scheduler.as_ref(), &mut container.scheduler, notes);
    // A container has no field that shows a memory policy.
    set(Field::MemoryPolicy, memory_policy.as_ref(), &mut None, notes);
}

fn change_map<T: Clone + Pack>(
    field: Field,
    changes: &ChangeMap<T>,
    map: &mut BTreeMap<String, T>,
    notes: &mut ChangeNotes<'_>,
) {
    for (key, change) in changes.iter() {
        match change.into_value() {
            Some(value) => resources::insert(field, key, value, map, notes),
            None => notes.take(field, key, map.remove(key).as_ref(), None),
        }
    }
}

/// An entry of a list in a container. `T` is the type of the entry in an adjustment.
trait ViewEntry<T>: Sized {
    /// The part of an entry that is noted as its value.
    type Noted: Pack + ?Sized;

    fn key(&self) -> &str;
    /// Returns whether the entry has that key, without searching for the end of the entry's own
    /// key.
    fn is(&self, key: &str) -> bool;
    fn of(value: &T) -> Self;
    fn noted(&self) -> &Self::Noted;
    fn noted_of(value: &T) -> &Self::Noted;
}

impl<T: Keyed + Clone + Pack> ViewEntry<T> for T {
    type Noted = T;

    fn key(&self) -> &str {
        Keyed::key(self)
    }

    fn is(&self, key: &str) -> bool {
        Keyed::key(self) == key
    }

    fn of(value: &T) -> Self {
        value.clone()
    }

    fn noted(&self) -> &T {
        self
    }

    fn noted_of(value: &T) -> &T {
        value
    }
}

/// An environment variable in the form of a container, in which the `=` may be missing.
impl ViewEntry<EnvVar> for String {
    type Noted = str;

    fn key(&self) -> &str {
        self.split_once('=').map_or(self, |(name, _)| name)
    }

    fn is(&self, key: &str) -> bool {
        // The byte is compared first, since most names differ in length.
        let ends = self.as_bytes().get(key.len()).is_none_or(|&next| next == b'=');
        ends && self.starts_with(key) && !key.contains('=')
    }

    fn of(variable: &EnvVar) -> Self {
        [&*variable.name, "=", &*variable.value].concat()
    }

    fn noted(&self) -> &str {
        self.split_once('=').map_or("", |(_, value)| value)
    }

    fn noted_of(variable: &EnvVar) -> &str {
        &variable.value
    }
}

/// Removes changed entries from their places, and appends the new values at the end of the list.
fn change_list<T: Keyed, E: ViewEntry<T>>(
    field: Field,
    changes: &ChangeList<T>,
    list: &mut Vec<E>,
    notes: &mut ChangeNotes<'_>,
) {
    if changes.is_empty() {
        return;
    }
    let mut before = take_changed(changes, list);
    for (key, change) in changes.iter() {
        let (before, after) = (before.as_mut().and_then(|before| before.remove(key)), change.into_value());
        list.extend(after.map(E::of));
        notes.take(field, key, before.as_ref().map(E::noted), after.map(E::noted_of));
    }
}

/// Removes the changed entries from the list and returns them by key. Returns `None` if the list
/// has none of them.
fn take_changed<T: Keyed, E: ViewEntry<T>>(changes: &ChangeList<T>, list: &mut Vec<E>) -> Option<HashMap<String, E>> {
    let keys = changes.keys();
    if !keys.are_in(list, E::is, E::key) {
        return None;
    }
    let gone = list.extract_if(.., |entry| keys.contains(entry.key()));
    Some(gone.map(|entry| (entry.key().to_owned(), entry)).collect())
}

/// Replaces the arguments. A plugin that only removes the arguments leaves none to show, as
/// upstream does.
fn change_args(args: &Args, target: &mut Vec<String>, notes: &mut ChangeNotes<'_>) {
    if let Some(change) = args.change() {
        let after = change.into_value();
        let before = std::mem::replace(target, after.unwrap_or_default().to_vec());
        notes.take(Field::Args, "", Some(&*before).filter(|args| !args.is_empty()), after);
    }
}

fn add_rlimits(rlimits: &[Rlimit], target: &mut Vec<Rlimit>, notes: &mut ChangeNotes<'_>) {
    if rlimits.is_empty() {
        return;
    }
    let before: HashMap<&str, &Rlimit> = target.iter().map(|rlimit| (&*rlimit.kind, rlimit)).collect();
    for rlimit in rlimits {
        notes.take(Field::Rlimits, &rlimit.kind, before.get(&*rlimit.kind).copied(), Some(rlimit));
    }
    target.extend_from_slice(rlimits);
}
