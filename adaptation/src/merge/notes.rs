use nri_proto::Field;

use super::Changes;
use super::packing::Pack;

/// Collects the changes to one container, for the ledger.
pub(super) struct ChangeNotes<'a> {
    container: Option<&'a str>,
    changes: Option<&'a mut Changes>,
}

impl<'a> ChangeNotes<'a> {
    /// Collects changes to the container that the request is about.
    pub(super) fn of_own(changes: &'a mut Changes) -> Self {
        Self { container: None, changes: Some(changes) }
    }

    /// Collects changes to another container.
    pub(super) fn of(container: &'a str, changes: &'a mut Changes) -> Self {
        Self { container: Some(container), changes: Some(changes) }
    }

    /// Discards all changes.
    pub(super) fn none() -> Self {
        Self { container: None, changes: None }
    }

    /// Notes a change, with the value before and the value after it.
    #[inline]
    pub(super) fn take<T: Pack + ?Sized>(&mut self, field: Field, key: &str, before: Option<&T>, after: Option<&T>) {
        if let Some(changes) = &mut self.changes {
            changes.push(self.container, field, key, before, after);
        }
    }
}
