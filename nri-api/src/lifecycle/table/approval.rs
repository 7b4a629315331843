//! Starts and updates that plugins are being asked about.

use nri_adaptation::Operation;

use super::claim::Ticket;
use super::operations::OperationKey;
use super::{Table, TableEntry};
use crate::lifecycle::state::{Lifecycle, State};
use crate::lifecycle::steps::{ApprovalKind, ApprovalStep, Refusal};

/// A start or an update that plugins are being asked about. Until this value is dropped, no end of
/// the object is claimed.
pub(crate) struct Approval<'a, T> {
    table: &'a Table<T>,
    id: &'a str,
    /// Claims with a lower ticket are delivered to plugins before this request.
    ticket: Ticket,
    kind: ApprovalKind,
    is_granted: bool,
}

impl<T> Approval<'_, T> {
    /// Applies `change` and stores the operation while the runtime acts, because plugins approved.
    ///
    /// If the object ends meanwhile, the operation counts as done, and plugins hear of it before
    /// they hear of the end.
    pub(crate) fn grant(mut self, operation: Operation, change: impl FnOnce(&mut Lifecycle)) -> OperationKey {
        let (key, mut operation) = (self.table.next_key(), Some(operation));
        let delivered = self.table.edit(self.id, |entry| {
            let delivered = entry.mark_delivered(self.ticket);
            change(&mut entry.lifecycle);
            if entry.lifecycle.needs_stop() {
                entry.operations.extend(operation.take().map(|operation| (key, operation)));
                entry.lifecycle.approval_ended(self.kind);
                self.is_granted = true;
            }
            delivered
        });
        self.table.commit_claims(self.id, delivered.unwrap_or_default());
        // An object that has stopped keeps no operation open. Its Remove is not claimed before
        // this.
        operation.into_iter().for_each(Operation::commit);
        if self.is_granted {
            self.table.changed.notify_waiters();
        }
        key
    }

    /// Applies `change` because plugins approved, for an object whose operation is stored in the
    /// entry of another object.
    pub(crate) fn grant_without_operation(self, change: impl FnOnce(&mut Lifecycle)) {
        let delivered = self.table.edit(self.id, |entry| {
            let delivered = entry.mark_delivered(self.ticket);
            change(&mut entry.lifecycle);
            delivered
        });
        self.table.commit_claims(self.id, delivered.unwrap_or_default());
    }
}

impl<T> Drop for Approval<'_, T> {
    fn drop(&mut self) {
        if !self.is_granted {
            self.table.edit(self.id, |entry| entry.lifecycle.approval_ended(self.kind));
            self.table.changed.notify_waiters();
        }
    }
}

impl<T> Table<T> {
    /// Begins to ask plugins about a start or an update. Returns the state that plugins know, or
    /// `None` if there is no such object.
    pub(crate) async fn begin_approval<'a>(
        &'a self,
        id: &'a str,
        kind: ApprovalKind,
    ) -> Option<Result<(State, Approval<'a, T>), Refusal>> {
        let ask = |entry: &mut TableEntry<T>| {
            let step = match kind {
                ApprovalKind::Start => entry.lifecycle.request_start(),
                ApprovalKind::Update => entry.lifecycle.request_update(),
            };
            match step {
                ApprovalStep::Ask(state) => Some(Ok(state)),
                ApprovalStep::Refused(refusal) => Some(Err(refusal)),
                ApprovalStep::Wait => None,
            }
        };
        let begun = self.wait_for(id, ask).await?;
        Some(begun.map(|state| {
            let approval = Approval { table: self, id, ticket: self.next_ticket(), kind, is_granted: false };
            (state, approval)
        }))
    }
}
