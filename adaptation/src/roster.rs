//! The plugins that there are, in the order in which they are asked.

use std::sync::Arc;

use nri_proto::{Event, PluginId};

use crate::admission::AdmitError;
use crate::entry::{Entry, Origin};
use crate::health::State;

/// The plugins at one moment. It is never changed, only replaced.
#[derive(Default)]
pub(crate) struct Roster {
    entries: Vec<Arc<Entry>>,
}

impl Roster {
    /// All of them.
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Those that subscribed to `event` and see pods of this namespace, with their places.
    pub(crate) fn subscribed<'r>(
        &'r self,
        event: Event,
        namespace: &'r str,
    ) -> impl Iterator<Item = (usize, &'r Arc<Entry>)> {
        self.entries.iter().enumerate().filter(move |(_, entry)| entry.is_asked(event, namespace))
    }

    /// Whether there are any of them.
    pub(crate) fn has_subscriber(&self, event: Event, namespace: &str) -> bool {
        self.subscribed(event, namespace).next().is_some()
    }

    /// Whether there is a plugin of this id.
    pub(crate) fn has(&self, id: &PluginId) -> bool {
        self.entries.binary_search_by(|entry| entry.id.cmp(id)).is_ok()
    }

    /// Whether this very plugin is there.
    pub(crate) fn contains(&self, entry: &Arc<Entry>) -> bool {
        self.entries.iter().any(|other| Arc::ptr_eq(other, entry))
    }

    /// Whether there is none of this id, or one that gives way to it: that came in the same way, or is closed.
    pub(crate) fn check_place(&self, id: &PluginId, origin: Origin) -> Result<(), AdmitError> {
        let Ok(at) = self.entries.binary_search_by(|entry| entry.id.cmp(id)) else { return Ok(()) };
        let there = &self.entries[at];
        if there.origin == origin || there.state() == State::Closed {
            return Ok(());
        }
        Err(AdmitError::Taken { plugin: id.clone(), origin: there.origin.to_string() })
    }

    /// Whether one of this id may be added, if there may be so many.
    pub(crate) fn has_room_for(&self, id: &PluginId, limit: usize) -> bool {
        self.entries.len() < limit || self.has(id)
    }

    /// With one more. One that has the same id gives way, and is returned.
    pub(crate) fn with(&self, entry: &Arc<Entry>) -> (Self, Option<Arc<Entry>>) {
        let mut entries = self.entries.clone();
        let replaced = match entries.binary_search_by(|other| other.id.cmp(&entry.id)) {
            Ok(at) => Some(std::mem::replace(&mut entries[at], Arc::clone(entry))),
            Err(at) => {
                entries.insert(at, Arc::clone(entry));
                None
            }
        };
        (Self { entries }, replaced)
    }

    /// Without this one, if it is there.
    pub(crate) fn without(&self, entry: &Arc<Entry>) -> Option<Self> {
        let at = self.entries.iter().position(|other| Arc::ptr_eq(other, entry))?;
        let mut entries = self.entries.clone();
        entries.remove(at);
        Some(Self { entries })
    }
}
