//! The budget for received data that is still in memory, shared by the channels of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes that may still be received.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    left: AtomicUsize,
}

impl ReceiveBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(limit) })
    }

    /// Takes `bytes` from the budget. Returns false, and takes none, if fewer are left.
    pub(super) fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes)).is_ok()
    }

    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::AcqRel);
    }
}

/// Received bytes that count against the [`ReceiveBudget`] until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<ReceiveBudget>,
    bytes: usize,
}

impl Reservation {
    /// Wraps bytes that have already been taken from the budget.
    pub(super) fn new(budget: &Arc<ReceiveBudget>, bytes: usize) -> Self {
        Self { budget: Arc::clone(budget), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
