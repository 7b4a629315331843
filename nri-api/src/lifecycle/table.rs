//! All pods, or all containers, of one namespace by id. A lock is held only while an entry is read
//! or changed, never across an await.
//!
//! - `operations`: operations that are stored in an entry while the runtime acts.
//! - `claim`: claims: the right to send the next request about an object.
//! - `approval`: starts and updates that plugins are being asked about.

pub(crate) mod approval;
pub(crate) mod claim;
pub(crate) mod operations;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use foldhash::fast::RandomState;
use nri_adaptation::Operation;
use tokio::sync::Notify;

use self::claim::ClaimRecord;
use self::operations::OperationKey;
use super::state::{Lifecycle, State};
use super::steps::{Refusal, RunId};

/// One object: its state machine, what else is known of it, and the operations that are open.
pub(crate) struct TableEntry<T> {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) info: T,
    /// Operations that plugins have approved, while the runtime acts.
    operations: Vec<(OperationKey, Operation)>,
    /// Claims whose operation has not ended, in the order in which they were made.
    claims: Vec<ClaimRecord>,
}

impl<T> TableEntry<T> {
    fn new(lifecycle: Lifecycle, info: T) -> Self {
        Self { lifecycle, info, operations: Vec::new(), claims: Vec::new() }
    }
}

/// All objects of one kind in one namespace.
pub(crate) struct Table<T> {
    entries: DashMap<String, TableEntry<T>, RandomState>,
    /// Notified when a claimed request is sent, and when a create, start or update is answered.
    changed: Notify,
    n_operations: AtomicU64,
    n_tickets: AtomicU64,
    n_runs: AtomicU64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: DashMap::default(),
            changed: Notify::new(),
            n_operations: AtomicU64::new(0),
            n_tickets: AtomicU64::new(0),
            n_runs: AtomicU64::new(0),
        }
    }
}

impl<T> Table<T> {
    /// Changes an entry under its lock. Returns `None` if there is none of this id.
    pub(crate) fn edit<R>(&self, id: &str, edit: impl FnOnce(&mut TableEntry<T>) -> R) -> Option<R> {
        self.entries.get_mut(id).map(|mut entry| edit(&mut entry))
    }

    /// Changes the lifecycle of an object, and notifies those who wait for a change.
    pub(crate) fn edit_lifecycle(&self, id: &str, edit: impl FnOnce(&mut Lifecycle)) {
        self.edit(id, |entry| edit(&mut entry.lifecycle));
        self.changed.notify_waiters();
    }

    /// Reads an entry under its lock. Returns `None` if there is none of this id.
    pub(crate) fn read<R>(&self, id: &str, read: impl FnOnce(&TableEntry<T>) -> R) -> Option<R> {
        self.entries.get(id).map(|entry| read(&entry))
    }

    /// Returns the state of an object, as plugins know it.
    pub(crate) fn state(&self, id: &str) -> Option<State> {
        self.read(id, |entry| entry.lifecycle.state())?
    }

    /// Returns the number of a new run. The run begins when plugins approve it.
    pub(crate) fn next_run(&self) -> RunId {
        RunId(self.n_runs.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Adds an object that exists, unless the id is known. Returns whether the object was added.
    pub(crate) fn enter(&self, id: &str, state: State, run: RunId, info: impl FnOnce() -> T) -> bool {
        if self.entries.contains_key(id) {
            return false;
        }
        match self.entries.entry(id.to_owned()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(TableEntry::new(Lifecycle::known(state, run), info()));
                true
            }
        }
    }

    /// Adds an object that is being created. Fails if there is one of this id.
    pub(crate) fn begin_create(&self, id: &str, run: RunId, info: T) -> Result<(), Refusal> {
        match self.entries.entry(id.to_owned()) {
            Entry::Occupied(other) => Err(other.get().lifecycle.create_refusal()),
            Entry::Vacant(place) => {
                place.insert(TableEntry::new(Lifecycle::creating(run), info));
                Ok(())
            }
        }
    }

    /// Marks an object as created. The caller ends the operation at once and then calls
    /// [`operation_ended`](Self::operation_ended).
    pub(crate) fn mark_created(&self, id: &str, state: State) {
        self.edit(id, |entry| entry.lifecycle.mark_created(state));
    }

    /// Removes an object that was not created. Returns false if the object is not being created.
    pub(crate) fn abandon(&self, id: &str) -> bool {
        let was_creating = self.entries.remove_if(id, |_, entry| entry.lifecycle.is_creating()).is_some();
        self.changed.notify_waiters();
        was_creating
    }

    /// Removes an object whose Remove was delivered, and commits the operations of its claims.
    pub(crate) fn remove(&self, id: &str, forget: impl FnOnce(&str, T)) {
        let Some((id, entry)) = self.entries.remove_if(id, |_, entry| entry.lifecycle.is_removing()) else { return };
        forget(&id, entry.info);
        entry.claims.into_iter().for_each(ClaimRecord::commit);
        self.changed.notify_waiters();
    }

    /// Waits until plugins were told of the end of an object, or do not know the object. A later
    /// object of the same id is not waited for.
    pub(crate) async fn wait_until_ended(&self, id: &str) {
        let mut first = None;
        let ended = |entry: &mut TableEntry<T>| {
            let creation = entry.lifecycle.creation();
            let is_other = *first.get_or_insert(creation) != creation;
            (is_other || entry.lifecycle.is_end_delivered()).then_some(())
        };
        let _ = self.wait_for(id, ended).await;
    }

    /// Calls `attempt` after each change of the table until it returns a value. Returns `None` if
    /// the object is not there (any more).
    async fn wait_for<R>(&self, id: &str, mut attempt: impl FnMut(&mut TableEntry<T>) -> Option<R>) -> Option<R> {
        loop {
            // Created before the attempt, so a change after the attempt ends this wait.
            let changed = self.changed.notified();
            if let Some(outcome) = self.edit(id, &mut attempt)? {
                return Some(outcome);
            }
            changed.await;
        }
    }
}
