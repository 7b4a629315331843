//! Undoes on both sides what differs everywhere. Each step is a row of `docs/differences.md`.

use nri_proto::api::{Container, ContainerAdjustment, Mount, OwningPlugins};

use super::merged::{Done, Merged, Seen};

/// Returns what must be the same on both sides.
pub(super) fn alike(mut merged: Merged) -> Merged {
    merged.dropped = 0;
    for seen in &mut merged.seen {
        if let Seen::Container(container) = seen {
            see_alike(container);
        }
    }
    if let Ok(Done { adjustment, updates: _, owners }) = &mut merged.result {
        adjustment.as_mut().map(adjust_alike);
        owners.as_mut().map(own_alike);
    }
    merged
}

/// "rdt adjustments", "namespaces and mount removals", "a container in two namespaces of one kind".
fn see_alike(container: &mut Container) {
    if let Some(linux) = container.linux.as_mut() {
        linux.rdt.take();
        // Of those of one kind the last is kept.
        linux.namespaces.reverse();
        linux.namespaces.sort_by(|one, other| one.type_.cmp(&other.type_));
        linux.namespaces.dedup_by(|one, other| one.type_ == other.type_);
    }
}

/// "removal of an environment variable or device", "one removal asked for by several plugins", "a removed entry that is
/// set by a later plugin".
fn adjust_alike(adjustment: &mut ContainerAdjustment) {
    let is_removal = |key: &str| key.starts_with('-');
    adjustment.env.retain(|variable| !is_removal(&variable.key));
    if let Some(linux) = adjustment.linux.as_mut() {
        linux.devices.retain(|device| !is_removal(&device.path));
    }
    let (mut removals, others): (Vec<Mount>, Vec<Mount>) =
        std::mem::take(&mut adjustment.mounts).into_iter().partition(|mount| is_removal(&mount.destination));
    removals.sort_by(|one, other| one.destination.cmp(&other.destination));
    removals.dedup();
    adjustment.mounts = removals.into_iter().chain(others).collect();
}

/// Go leaves empty tables behind, which say nothing.
fn own_alike(owners: &mut OwningPlugins) {
    for fields in owners.owners.values_mut() {
        fields.compound.retain(|_, entries| !entries.owners.is_empty());
    }
    owners.owners.retain(|_, fields| !fields.simple.is_empty() || !fields.compound.is_empty());
}
