//! The progress of a request along a roster: which plugins have seen the request, and which of them
//! is being asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nri_proto::{Event, PluginId};
use parking_lot::Mutex;

use crate::mistake::Mistake;
use crate::session::PluginSession;
use crate::session::roster::Roster;

/// The progress of one request along a roster. Plugins are identified by their place in the roster.
/// Clones share the progress.
#[derive(Clone)]
pub(crate) struct RelayProgress(Arc<Places>);

struct Places {
    current: AtomicUsize,
    /// A bit for each of the first 64 places.
    seen: AtomicU64,
    /// The places from 64 on.
    seen_behind: Mutex<Vec<usize>>,
}

const NOBODY: usize = usize::MAX;
/// Added to the place of a plugin that is asked to validate.
const VALIDATES: usize = 1 << (usize::BITS / 2);

impl RelayProgress {
    /// Returns the progress of a request that no plugin has seen.
    pub(crate) fn new() -> Self {
        let (seen, seen_behind) = (AtomicU64::new(0), Mutex::default());
        Self(Arc::new(Places { current: AtomicUsize::new(NOBODY), seen, seen_behind }))
    }

    /// Sets the plugin that the request waits for.
    pub(crate) fn set_current(&self, place: usize) {
        self.0.current.store(place, Ordering::Relaxed);
    }

    /// Clears the plugin that the request waits for.
    pub(crate) fn clear_current(&self) {
        self.set_current(NOBODY);
    }

    /// Sets the validator that the request waits for.
    pub(crate) fn set_current_validator(&self, place: usize) {
        self.set_current(VALIDATES + place);
    }

    /// Returns the plugin that the request waits for, and the event that the plugin is asked about:
    /// `event`, or the validation of its result.
    pub(crate) fn current<'a>(&self, participants: &'a Roster, event: Event) -> Option<(&'a PluginId, Event)> {
        let current = self.0.current.load(Ordering::Relaxed);
        let event = if current >= VALIDATES { Event::ValidateContainerAdjustment } else { event };
        participants.entries().get(current % VALIDATES).map(|participant| (&participant.id, event))
    }

    /// Records that the plugin at this place has seen the request.
    pub(crate) fn record_seen(&self, place: usize) {
        match bit(place) {
            Some(bit) => _ = self.0.seen.fetch_or(bit, Ordering::Relaxed),
            None => self.0.seen_behind.lock().push(place),
        }
    }

    /// Returns the plugins that have seen the request.
    pub(crate) fn seen(&self, participants: &Roster) -> Vec<Arc<PluginSession>> {
        let seen = self.0.seen.load(Ordering::Relaxed);
        let behind = self.0.seen_behind.lock();
        let has_seen = |place: usize| {
            let has_seen = bit(place).map_or_else(|| behind.contains(&place), |bit| seen & bit != 0);
            has_seen || Mistake::UndoneForAll.is_injected()
        };
        let entries = participants.entries().iter().enumerate();
        entries.filter(|(place, _)| has_seen(*place)).map(|(_, participant)| Arc::clone(participant)).collect()
    }
}

fn bit(place: usize) -> Option<u64> {
    u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place))
}
