//! The events that wait to be sent, bounded in bytes.

use std::collections::VecDeque;

use containerd_shim_protos::shim::event::Envelope;
use parking_lot::Mutex;
use protobuf::Message as _;
use tokio::sync::Notify;

/// Why an event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The queue is full.
    #[error("event queue is full: {waiting} bytes wait for containerd")]
    Full {
        /// The size of the queued events, in bytes.
        waiting: usize,
    },

    /// The shim is ending, and sends only the events that are already queued.
    #[error("event queue is closed: the shim is ending")]
    Closed,
}

/// A queue of events with a limit in bytes.
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

    /// Appends an event, or counts it as lost if the queue is full or closed.
    pub(super) fn push(&self, envelope: Envelope) -> Result<(), PublishError> {
        let size = usize::try_from(envelope.compute_size()).unwrap_or(usize::MAX);
        let mut state = self.state.lock();
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

    /// Waits for the first event, and returns a copy. Returns `None` once the queue is closed and
    /// empty.
    pub(super) async fn first(&self) -> Option<Envelope> {
        loop {
            {
                let state = self.state.lock();
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

    /// Removes the first event after it was sent.
    pub(super) fn pop(&self) {
        let mut state = self.state.lock();
        if let Some((_, size)) = state.waiting.pop_front() {
            state.bytes -= size;
        }
    }

    /// Removes the first event without sending it, and counts it as lost.
    pub(super) fn drop_first(&self) {
        self.pop();
        self.state.lock().n_lost += 1;
    }

    /// Closes the queue: later events are refused.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Returns how many events wait, and how many were lost.
    pub(super) fn counts(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.waiting.len(), state.n_lost)
    }
}
