use nri_proto::Field;

use super::Changes;
use super::packing::Pack;

/// Collects the changes of one container, for the ledger and the encoder.
pub(super) struct ChangeNotes<'a> {
    container: Option<&'a str>,
    changes: Option<&'a mut Changes>,
}

impl<'a> ChangeNotes<'a> {
    /// Takes notes of changes to the container that the request is about.
    pub(super) fn of_own(changes: &'a mut Changes) -> Self {
        Self { container: None, changes: Some(changes) }
    }

    /// Takes notes of changes to another one.
    pub(super) fn of(container: &'a str, changes: &'a mut Changes) -> Self {
        Self { container: Some(container), changes: Some(changes) }
    }

    /// Takes none.
    pub(super) fn none() -> Self {
        Self { container: None, changes: None }
    }

    /// Takes a note of a change: what was there before it, and what is there after it.
    #[inline]
    pub(super) fn take<T: Pack + ?Sized>(&mut self, field: Field, key: &str, before: Option<&T>, after: Option<&T>) {
        if let Some(changes) = &mut self.changes {
            changes.push(self.container, field, key, before, after);
        }
    }
}
