//! Undoes general differences. Each step is a row of `docs/differences.md`.

use nri_proto::api::{Container, ContainerAdjustment, LinuxNamespace, LinuxRdt, Mount, OwningPlugins};
use nri_tests::merging::Case;

use super::merged::{Done, Merged, Seen};

/// Returns our result of a case in the form in which Go shows it.
pub(super) fn ours(case: &Case, mut merged: Merged) -> Merged {
    merged.dropped = 0;
    for (place, seen) in merged.seen.iter_mut().enumerate() {
        if let (Case::Create(request, _), Seen::Container(container)) = (case, seen) {
            see_as_go(container, request.container.linux.rdt.as_ref(), touches_namespaces(case, place));
        }
    }
    if let Ok(Done { adjustment, updates: _, owners }) = &mut merged.result {
        adjustment.iter_mut().for_each(|adjustment| {
            forget_removals(adjustment);
            order_removals(&mut adjustment.mounts);
        });
        owners.iter_mut().for_each(forget_empty);
    }
    merged
}

/// Returns Go's result of a case in our order, and without the parts that Go need not pass on.
pub(super) fn theirs(case: &Case, mut merged: Merged) -> Merged {
    for (place, seen) in merged.seen.iter_mut().enumerate() {
        if let Seen::Container(container) = seen
            && touches_namespaces(case, place)
            && let Some(linux) = container.linux.as_mut()
        {
            linux.namespaces.sort_by(|one, other| one.type_.cmp(&other.type_));
        }
    }
    if let Ok(Done { adjustment, updates: _, owners }) = &mut merged.result {
        adjustment.iter_mut().for_each(|adjustment| {
            empty_removals(adjustment);
            order_removals(&mut adjustment.mounts);
        });
        owners.iter_mut().for_each(forget_empty);
    }
    merged
}

/// Returns whether one of the first `n_replies` replies has namespaces.
fn touches_namespaces(case: &Case, n_replies: usize) -> bool {
    let Case::Create(_, replies) = case else { return false };
    replies[..n_replies].iter().any(|reply| !reply.adjust.linux.namespaces.is_empty())
}

/// "rdt adjustments", "namespaces and mount removals", "a container in two namespaces of one kind".
fn see_as_go(container: &mut Container, rdt: Option<&LinuxRdt>, touched_namespaces: bool) {
    let Some(linux) = container.linux.as_mut() else { return };
    linux.rdt = rdt.cloned().into();
    if touched_namespaces {
        // Of several namespaces of one kind, the last is kept.
        linux.namespaces.reverse();
        linux.namespaces.sort_by(|one, other| one.type_.cmp(&other.type_));
        linux.namespaces.dedup_by(|one, other| one.type_ == other.type_);
    }
}

fn is_removal(key: &str) -> bool {
    key.starts_with('-')
}

/// "removal of an environment variable or device", "a removed entry that is set by a later plugin".
fn forget_removals(adjustment: &mut ContainerAdjustment) {
    adjustment.env.retain(|variable| !is_removal(&variable.key));
    if let Some(linux) = adjustment.linux.as_mut() {
        linux.devices.retain(|device| !is_removal(&device.path));
    }
}

/// "other fields of a removal marker".
fn empty_removals(adjustment: &mut ContainerAdjustment) {
    for mount in adjustment.mounts.iter_mut().filter(|mount| is_removal(&mount.destination)) {
        *mount = Mount { destination: std::mem::take(&mut mount.destination), ..Mount::default() };
    }
    let namespaces = adjustment.linux.as_mut().map(|linux| &mut linux.namespaces);
    for namespace in namespaces.into_iter().flatten().filter(|namespace| is_removal(&namespace.type_)) {
        *namespace = LinuxNamespace { type_: std::mem::take(&mut namespace.type_), ..LinuxNamespace::default() };
    }
}

/// "namespaces and mount removals", "one removal asked for by several plugins", "a removed entry
/// that is set by a later plugin".
fn order_removals(mounts: &mut Vec<Mount>) {
    let (mut removals, others): (Vec<Mount>, Vec<Mount>) =
        std::mem::take(mounts).into_iter().partition(|mount| is_removal(&mount.destination));
    removals.sort_by(|one, other| one.destination.cmp(&other.destination));
    removals.dedup();
    *mounts = removals.into_iter().chain(others).collect();
}

/// Removes the empty tables that Go leaves behind.
pub(super) fn forget_empty(owners: &mut OwningPlugins) {
    for fields in owners.owners.values_mut() {
        fields.compound.retain(|_, entries| !entries.owners.is_empty());
    }
    owners.owners.retain(|_, fields| !fields.simple.is_empty() || !fields.compound.is_empty());
}
