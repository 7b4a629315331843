//! The cost of an item of the history, and how an item that costs too much is shortened.

use nri_proto::Unread;

use super::Entry;
use super::EntryKind;
use super::Item;
use super::Occasion;
use crate::config::policy::NotAllowed;
use crate::merge::packing;
use crate::merge::{Conflict, Dropped, MergeError};

/// The number of bytes that each text and each list of a shortened entry keeps.
const SHORT: usize = 256;

/// The overhead of an allocation, with the reference counts of an `Arc`.
const ALLOCATION: usize = 16 + 2 * size_of::<usize>();
/// The cost of an item without its names, texts and changes: its places in the queue, which may be
/// half empty, the entry, and the occasion with three names.
const ITEM: usize = 2 * size_of::<(Item, usize)>() + size_of::<Entry>() + size_of::<Occasion>() + 6 * ALLOCATION;
/// The cost of a packed change beyond its bytes: a quarter of the memory that its entry takes when
/// it is read.
const CHANGE: usize = 48;
/// The cost of a short part of a packed value beyond its bytes, by the same rule. An empty string
/// takes one byte when it is packed, and an empty hook two. A longer part needs no such cost: its
/// bytes are a quarter of its memory. `tests/memory/ledger.rs` measures both.
const PART: usize = 24;

/// Returns the cost of packed changes. Their entries take at most four times as much when they are
/// read.
pub(super) fn of_changes(occasion: &Occasion, changes: &[u8]) -> usize {
    let (n_changes, n_parts) = (packing::count(changes), packing::count_parts(changes));
    ITEM + names(occasion) + changes.len() + CHANGE * n_changes + PART * n_parts
}

/// Returns the cost of an entry that is not a change.
pub(super) fn of_fact(occasion: &Occasion, what: &mut EntryKind) -> usize {
    ITEM + names(occasion) + what.fit(usize::MAX)
}

fn names(occasion: &Occasion) -> usize {
    let Occasion { plugin, pod, container, when: _, event: _, took: _, shadow: _, in_vain: _ } = occasion;
    [Some(plugin), pod.as_ref(), container.as_ref()].into_iter().flatten().map(|name| name.len()).sum()
}

impl Occasion {
    /// Returns a copy with short names. A peer can make the names of plugins, pods and containers
    /// arbitrarily long.
    pub(super) fn shortened(&self) -> Self {
        let mut short = self.clone();
        for name in [Some(&mut short.plugin), short.pod.as_mut(), short.container.as_mut()].into_iter().flatten() {
            *name = shortened(name).into();
        }
        short
    }
}

impl EntryKind {
    /// Shortens the texts and lists of an entry that is not a change.
    pub(super) fn shorten(&mut self) {
        self.fit(SHORT);
    }

    /// Shortens each text and each list to `most` bytes, and returns the memory that they take
    /// then.
    fn fit(&mut self, most: usize) -> usize {
        match self {
            // The values of changes are packed.
            Self::Changed(_) | Self::TimedOut | Self::PassedOver(_) => 0,
            Self::Late { fields } => fit_list(fields, most),
            Self::Dropped(Dropped::Unread(Unread { message: _, numbers })) => fit_list(numbers, most),
            Self::Dropped(Dropped::Update(conflict)) | Self::Conflict(MergeError::Conflict(conflict)) => {
                let Conflict { container, field: _, key, claimer, owner } = conflict;
                let texts = [container, key, owner].into_iter().map(|text| fit_text(text, most));
                texts.sum::<usize>() + claimer.as_str().len() + ALLOCATION
            }
            Self::Conflict(MergeError::UpdateDuringCreation { plugin, container }) => {
                fit_text(container, most) + plugin.as_str().len() + ALLOCATION
            }
            Self::Dropped(Dropped::DeviceRules { container: text })
            | Self::NotAllowed(
                NotAllowed::Field { field: _, key: text }
                | NotAllowed::Update { container: text }
                | NotAllowed::Eviction { container: text }
                | NotAllowed::Hidden { container: text },
            )
            | Self::EvictionAsked { reason: text }
            | Self::Refused { reason: text }
            | Self::Failed { reason: text }
            | Self::Rejected { reason: text }
            | Self::UpdateFailed { reason: text }
            | Self::EvictionFailed { reason: text } => fit_text(text, most),
        }
    }
}

/// Returns the beginning of a text.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHORT)]
}

fn fit_text(text: &mut String, most: usize) -> usize {
    text.truncate(text.floor_char_boundary(most));
    text.shrink_to_fit();
    text.len() + ALLOCATION
}

fn fit_list<T>(list: &mut Vec<T>, most: usize) -> usize {
    list.truncate(most / size_of::<T>());
    list.shrink_to_fit();
    size_of_val(list.as_slice()) + ALLOCATION
}
