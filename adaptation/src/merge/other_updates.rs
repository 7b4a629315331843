use std::collections::HashMap;

use nri_proto::{Eviction, LinuxUpdate, PluginId, Resources, Update};

use super::Applied;
use super::Conflict;
use super::Dropped;
use super::MergeError;
use super::Touch;
use super::claims::Claiming;
use super::notes::ChangeNotes;
use super::resources;

/// An eviction, with the plugin that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedEviction {
    /// The plugin that asked for the eviction.
    pub plugin: PluginId,
    /// The container to evict, and the reason.
    pub eviction: Eviction,
}

impl AskedEviction {
    pub(super) fn all(plugin: &PluginId, evictions: Vec<Eviction>) -> impl Iterator<Item = Self> {
        evictions.into_iter().map(|eviction| Self { plugin: plugin.clone(), eviction })
    }
}

/// Updates of containers other than the one that the request is about: one update for each
/// container, in the order in which plugins first mentioned the containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Updates {
    list: Vec<Update>,
    places: HashMap<String, usize>,
}

impl Updates {
    /// Adds an update whose fields have been claimed.
    pub(super) fn add(&mut self, update: Update, applied: &mut Applied) {
        let Update { container_id, linux, ignore_failure, unknown: _ } = update;
        let entry = self.entry(&container_id, ignore_failure);
        let target = entry.linux.get_or_insert_default().resources.get_or_insert_default();
        let notes = &mut ChangeNotes::of(&container_id, &mut applied.changes);
        apply(linux, target, 0, &container_id, notes, &mut applied.dropped);
    }

    pub(super) fn list(&self) -> &[Update] {
        &self.list
    }

    pub(super) fn into_list(self) -> Vec<Update> {
        self.list
    }

    /// Returns the merged update of a container. Its failure may be ignored only if each plugin
    /// says so.
    fn entry(&mut self, container_id: &str, ignore_failure: bool) -> &mut Update {
        let place = *self.places.entry(container_id.to_owned()).or_insert(self.list.len());
        if place == self.list.len() {
            let linux = LinuxUpdate { resources: Some(resources::nothing_set()), ..LinuxUpdate::default() };
            let container_id = container_id.to_owned();
            self.list.push(Update { container_id, linux: Some(linux), ignore_failure, ..Update::default() });
        }
        let entry = &mut self.list[place];
        entry.ignore_failure &= ignore_failure;
        entry
    }
}

/// Claims the fields that updates touch. Returns for each update the conflict that caused it to be
/// dropped, if any: an update that may fail does not refuse the whole reply.
pub(super) fn claim<'a>(
    claiming: &mut Claiming<'_, 'a>,
    updates: &'a [Update],
    created: Option<&str>,
) -> Result<Vec<Option<Conflict>>, MergeError> {
    let mut conflicts = Vec::with_capacity(updates.len());
    for update in updates {
        if created == Some(&*update.container_id) {
            let (plugin, container) = (claiming.plugin().clone(), update.container_id.clone());
            return Err(MergeError::UpdateDuringCreation { plugin, container });
        }
        conflicts.push(match claiming.claim(&update.container_id, &Touch::of_update(update)) {
            Ok(()) => None,
            Err(conflict) if update.ignore_failure => Some(conflict),
            Err(conflict) => return Err(conflict.into()),
        });
    }
    Ok(conflicts)
}

/// Returns the updates whose claims succeeded, and adds the others to `dropped`.
pub(super) fn claimed(
    updates: Vec<Update>,
    conflicts: Vec<Option<Conflict>>,
    dropped: &mut Vec<Dropped>,
) -> Vec<Update> {
    let kept = |(update, conflict): (Update, Option<Conflict>)| match conflict {
        Some(conflict) => {
            dropped.push(Dropped::Update(conflict));
            None
        }
        None => Some(update),
    };
    updates.into_iter().zip(conflicts).filter_map(kept).collect()
}

/// Applies an update to `target`. `n_limits` is the number of huge page limits before any plugin
/// was asked. Limits that plugins added since are not searched for the former value: a second
/// change to one of them is a conflict, and there may be very many.
pub(super) fn apply(
    linux: Option<LinuxUpdate>,
    target: &mut Resources,
    n_limits: usize,
    container_id: &str,
    notes: &mut ChangeNotes<'_>,
    dropped: &mut Vec<Dropped>,
) {
    let Some(LinuxUpdate { resources: Some(mut resources), unknown: _ }) = linux else { return };
    if !std::mem::take(&mut resources.devices).is_empty() {
        dropped.push(Dropped::DeviceRules { container: container_id.to_owned() });
    }
    resources::apply(&resources, target, n_limits, notes);
}
