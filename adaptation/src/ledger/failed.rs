//! Filters out the changes that the runtime could not apply.

use std::sync::Arc;

use super::Entry;
use super::EntryKind;
use super::Occasion;

/// Removes failed changes from the entries of one container.
pub(super) fn without(mut entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    let failures = (0..entries.len()).filter(|&n| matches!(entries[n].what, EntryKind::UpdateFailed { .. }));
    let failed: Vec<_> = failures.filter_map(|n| asked_for(&entries[n].occasion, &entries[..n])).collect();
    entries.retain(|entry| !(is_tried(entry) && failed.iter().any(|failed| is_same(&entry.occasion, failed))));
    entries
}

/// Returns the occasion on which a failed update was asked for. That is the occasion of the failure
/// itself. If the runtime recorded the failure later with a time of its own, the latest occasion
/// with the same plugin, event and pod is used.
fn asked_for(failure: &Occasion, before: &[Arc<Entry>]) -> Option<Arc<Occasion>> {
    let tried = || before.iter().rev().filter(|entry| is_tried(entry)).map(|entry| &entry.occasion);
    let same = tried().find(|asked| is_same(asked, failure));
    same.or_else(|| tried().find(|asked| is_like(asked, failure))).cloned()
}

fn is_tried(entry: &Entry) -> bool {
    matches!(entry.what, EntryKind::Changed(_)) && !entry.occasion.shadow && !entry.occasion.in_vain
}

/// Returns whether two occasions have the same plugin, event and pod, at any time.
fn is_like(one: &Occasion, other: &Occasion) -> bool {
    one.plugin == other.plugin && one.event == other.event && one.pod == other.pod
}

fn is_same(one: &Occasion, other: &Occasion) -> bool {
    is_like(one, other) && one.when == other.when
}
