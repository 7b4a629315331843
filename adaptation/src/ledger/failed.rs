//! Changes that the runtime was to make and could not.

use std::sync::Arc;

use super::Entry;
use super::Occasion;
use super::What;

/// Leaves them out of the entries of one container.
pub(super) fn without(mut entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    let failures = (0..entries.len()).filter(|&n| matches!(entries[n].what, What::UpdateFailed { .. }));
    let failed: Vec<_> = failures.filter_map(|n| asked_for(&entries[n].occasion, &entries[..n])).collect();
    entries.retain(|entry| !(is_tried(entry) && failed.iter().any(|failed| is_same(&entry.occasion, failed))));
    entries
}

/// When an update that failed was asked for: the failure says that, or else, where the runtime has
/// written it down by itself and later, it was the last time that is like it.
fn asked_for(failure: &Occasion, before: &[Arc<Entry>]) -> Option<Arc<Occasion>> {
    let tried = || before.iter().rev().filter(|entry| is_tried(entry)).map(|entry| &entry.occasion);
    let same = tried().find(|asked| is_same(asked, failure));
    same.or_else(|| tried().find(|asked| is_like(asked, failure))).cloned()
}

fn is_tried(entry: &Entry) -> bool {
    matches!(entry.what, What::Changed(_)) && !entry.occasion.shadow && !entry.occasion.in_vain
}

/// Whether a plugin said both about one thing, perhaps at different times.
fn is_like(one: &Occasion, other: &Occasion) -> bool {
    one.plugin == other.plugin && one.event == other.event && one.pod == other.pod
}

fn is_same(one: &Occasion, other: &Occasion) -> bool {
    is_like(one, other) && one.when == other.when
}
