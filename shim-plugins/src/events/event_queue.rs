//! What waits to be sent, bounded in bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use containerd_shim_protos::shim::event::Envelope;
use protobuf::Message as _;
use tokio::sync::Notify;

/// Why an event is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// So much waits already.
    #[error("events of {waiting} bytes wait for containerd, and no more are taken")]
    Full {
        /// How much waits.
        waiting: usize,
    },

    /// The shim ends, and sends only what it has.
    #[error("the shim ends, and no more events are taken")]
    Closed,
}

pub(super) struct EventQueue {
    state: Mutex<QueueState>,
    changed: Notify,
    max_bytes: usize,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<(Envelope, usize)>,
    bytes: usize,
    n_lost: u64,
    is_closed: bool,
}

impl EventQueue {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), max_bytes }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, envelope: Envelope) -> Result<(), PublishError> {
        let size = usize::try_from(envelope.compute_size()).unwrap_or(usize::MAX);
        let mut state = self.state();
        if state.is_closed {
            state.n_lost += 1;
            return Err(PublishError::Closed);
        }
        if size > self.max_bytes - state.bytes {
            state.n_lost += 1;
            return Err(PublishError::Full { waiting: state.bytes });
        }
        state.bytes += size;
        state.waiting.push_back((envelope, size));
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for an event, which stays where it is; `None` if there will be none.
    pub(super) async fn first(&self) -> Option<Envelope> {
        loop {
            {
                let state = self.state();
                if let Some((envelope, _)) = state.waiting.front() {
                    return Some(envelope.clone());
                }
                if state.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// The first one is sent.
    pub(super) fn pop(&self) {
        let mut state = self.state();
        if let Some((_, size)) = state.waiting.pop_front() {
            state.bytes -= size;
        }
    }

    /// The first one will not be sent.
    pub(super) fn lose(&self) {
        self.pop();
        self.state().n_lost += 1;
    }

    /// There will be no more.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// How many wait, and how many were lost.
    pub(super) fn counts(&self) -> (usize, u64) {
        let state = self.state();
        (state.waiting.len(), state.n_lost)
    }
}
