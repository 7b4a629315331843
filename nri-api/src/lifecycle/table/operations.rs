//! Operations that plugins have approved. An entry stores them while the runtime acts, so that the
//! end of the object finds and commits them.

use std::sync::atomic::Ordering;

use nri_adaptation::Operation;

use super::{Table, TableEntry};
use crate::lifecycle::state::Lifecycle;

/// Identifies an operation that is stored in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationKey(u64);

impl<T> TableEntry<T> {
    fn take_operation(&mut self, key: OperationKey) -> Option<Operation> {
        let index = self.operations.iter().position(|(other, _)| *other == key)?;
        Some(self.operations.swap_remove(index).1)
    }
}

impl<T> Table<T> {
    pub(super) fn next_key(&self) -> OperationKey {
        OperationKey(self.n_operations.fetch_add(1, Ordering::Relaxed))
    }

    /// Stores the operation of a create that plugins have approved. Returns the operation if the
    /// create was cancelled meanwhile.
    pub(crate) fn store_creation(&self, id: &str, operation: Operation) -> Result<OperationKey, Operation> {
        let (key, mut operation) = (self.next_key(), Some(operation));
        self.edit(id, |entry| {
            if entry.lifecycle.is_creating() {
                entry.operations.extend(operation.take().map(|operation| (key, operation)));
            }
        });
        self.changed.notify_waiters();
        operation.map_or(Ok(key), Err)
    }

    /// Takes the operation of a create from the runtime, to cancel the create. While plugins are
    /// being asked about the create, this waits for their answers: plugins have their own timeouts.
    pub(crate) async fn take_creation(&self, id: &str) -> Option<Operation> {
        let take = |entry: &mut TableEntry<T>| match (entry.lifecycle.is_creating(), entry.operations.pop()) {
            (true, None) => None,
            (true, Some((_, operation))) => Some(Some(operation)),
            (false, open) => {
                entry.operations.extend(open);
                Some(None)
            }
        };
        self.wait_for(id, take).await.flatten()
    }

    /// Takes a stored operation. Returns `None` if the operation has ended.
    pub(crate) fn take_operation(&self, id: &str, key: OperationKey) -> Option<Operation> {
        self.edit(id, |entry| entry.take_operation(key)).flatten()
    }

    /// Ends a stored operation, unless it has ended. `change` is applied before `end` is called,
    /// and nothing about the object is claimed in between.
    pub(crate) fn end_operation(
        &self,
        id: &str,
        key: OperationKey,
        change: impl FnOnce(&mut Lifecycle),
        end: impl FnOnce(Operation),
    ) {
        let take = |entry: &mut TableEntry<T>| {
            let operation = entry.take_operation(key)?;
            change(&mut entry.lifecycle);
            entry.lifecycle.hold();
            Some(operation)
        };
        if let Some(operation) = self.edit(id, take).flatten() {
            end(operation);
            self.operation_ended(id);
        }
    }

    /// Allows claims again after an operation about the object has ended.
    pub(crate) fn operation_ended(&self, id: &str) {
        self.edit(id, |entry| entry.lifecycle.release());
        self.changed.notify_waiters();
    }
}
