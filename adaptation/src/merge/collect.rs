//! Adds a plugin's adjustment to the adjustments of the plugins before it.

use std::mem::take;

use nri_proto::{Adjustment, Hooks, LinuxAdjustment, Rdt};

use super::notes::ChangeNotes;
use super::resources;
use super::view::add_hooks;

/// Returns an adjustment that changes nothing, in the form in which upstream gives it to
/// validators: with empty hooks and resources messages.
pub(super) fn nothing_adjusted() -> Adjustment {
    Adjustment {
        hooks: Some(Hooks::default()),
        linux: Some(LinuxAdjustment { resources: Some(resources::nothing_set()), ..LinuxAdjustment::default() }),
        ..Adjustment::default()
    }
}

/// Adds a later adjustment to the result, and leaves the later one empty. Where both change a
/// field, the later plugin has claimed the field, so its value wins.
pub(super) fn add(result: &mut Adjustment, later: &mut Adjustment) {
    let Adjustment { annotations, mounts, env, hooks, linux, rlimits, cdi_devices, args, unknown: _ } = later;
    result.annotations.then(take(annotations));
    result.mounts.then(take(mounts));
    result.env.then(take(env));
    result.args.then(take(args));
    if let Some(hooks) = take(hooks) {
        add_hooks(hooks, result.hooks.get_or_insert_default());
    }
    if let Some(linux) = linux {
        add_linux(result.linux.get_or_insert_default(), linux);
    }
    result.rlimits.append(rlimits);
    result.cdi_devices.append(cdi_devices);
}

fn add_linux(result: &mut LinuxAdjustment, later: &mut LinuxAdjustment) {
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
        rdt,
        memory_policy,
        unknown: _,
    } = later;
    result.devices.then(take(devices));
    if let Some(resources) = resources {
        resources::apply(resources, result.resources.get_or_insert_default(), 0, &mut ChangeNotes::none());
    }
    if !cgroups_path.is_empty() {
        result.cgroups_path = take(cgroups_path);
    }
    set(take(oom_score_adj), &mut result.oom_score_adj);
    set(take(io_priority), &mut result.io_priority);
    set(take(seccomp_policy), &mut result.seccomp_policy);
    result.namespaces.then(take(namespaces));
    result.sysctl.then(take(sysctl));
    result.net_devices.then(take(net_devices));
    set(take(scheduler), &mut result.scheduler);
    // Upstream's validators find an empty RDT message once any plugin has adjusted a Linux field.
    add_rdt(result.rdt.get_or_insert_default(), take(rdt).unwrap_or_default());
    set(take(memory_policy), &mut result.memory_policy);
}

/// Sets `target` if there is a new value.
fn set<T>(new: Option<T>, target: &mut Option<T>) {
    if new.is_some() {
        *target = new;
    }
}

/// Adds a later RDT adjustment. Setting a value cancels an earlier removal.
fn add_rdt(result: &mut Rdt, later: Rdt) {
    let Rdt { clos_id, schemata, enable_monitoring, remove, unknown: _ } = later;
    if remove {
        *result = Rdt { remove: true, ..Rdt::default() };
    }
    if clos_id.is_some() || schemata.is_some() || enable_monitoring.is_some() {
        result.remove = false;
    }
    set(clos_id, &mut result.clos_id);
    set(schemata, &mut result.schemata);
    set(enable_monitoring, &mut result.enable_monitoring);
}
