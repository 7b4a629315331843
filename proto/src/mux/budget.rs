//! What was received and is still held, on all channels of a connection together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes there may be.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    left: AtomicUsize,
}

impl ReceiveBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(limit) })
    }

    /// Takes so many bytes, or none and returns false if fewer are left.
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

/// Bytes that were received, and count until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<ReceiveBudget>,
    bytes: usize,
}

impl Reservation {
    /// Bytes that were taken from the budget already.
    pub(super) fn new(budget: &Arc<ReceiveBudget>, bytes: usize) -> Self {
        Self { budget: Arc::clone(budget), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
