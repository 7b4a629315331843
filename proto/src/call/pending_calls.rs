//! The calls of a client that have no reply yet.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::CallError;
use crate::mux::Closed;

/// The result of a call.
pub(super) type CallResult = Result<Bytes, CallError>;

/// The maximum number of requests without a reply.
///
/// A Go peer queues 256 frames that its server has not read, and closes the connection at the next
/// one. A request is at most two frames.
pub(super) const MAX_UNANSWERED: usize = 100;

/// The calls of a client that have no reply yet, by stream id.
#[derive(Debug)]
pub(super) struct PendingCalls {
    slots: Arc<Semaphore>,
    calls: Mutex<CallTable>,
}

#[derive(Debug)]
struct CallTable {
    next: Option<u32>,
    unanswered: HashMap<u32, PendingCall>,
    closed: Option<Closed>,
}

#[derive(Debug)]
struct PendingCall {
    /// The caller, or `None` if it no longer waits for the reply.
    waiting: Option<oneshot::Sender<CallResult>>,
    /// Released when the peer has replied, even if the caller no longer waits.
    _slot: OwnedSemaphorePermit,
}

impl PendingCalls {
    pub(super) fn new() -> Self {
        let calls = CallTable { next: Some(1), unanswered: HashMap::new(), closed: None };
        Self { slots: Arc::new(Semaphore::new(MAX_UNANSWERED)), calls: Mutex::new(calls) }
    }

    /// Waits until fewer than [`MAX_UNANSWERED`] calls have no reply.
    pub(super) async fn slot(&self) -> Result<OwnedSemaphorePermit, Closed> {
        match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => Ok(slot),
            Err(_closed) => Err(self.calls.lock().closed.clone().unwrap_or(Closed::Local)),
        }
    }

    /// Starts a call with the next stream id. Ids are odd, ascending, and never reused.
    pub(super) fn begin(&self, slot: OwnedSemaphorePermit) -> Result<(u32, oneshot::Receiver<CallResult>), Closed> {
        let mut calls = self.calls.lock();
        if let Some(reason) = &calls.closed {
            return Err(reason.clone());
        }
        let id = calls.next.ok_or(Closed::IdsUsedUp)?;
        calls.next = id.checked_add(2);
        let (sender, receiver) = oneshot::channel();
        calls.unanswered.insert(id, PendingCall { waiting: Some(sender), _slot: slot });
        Ok((id, receiver))
    }

    /// Passes the result of a call to its caller. Returns false if no caller waits.
    pub(super) fn settle(&self, id: u32, outcome: impl FnOnce() -> CallResult) -> bool {
        let Some(call) = self.calls.lock().unanswered.remove(&id) else { return false };
        call.waiting.is_some_and(|waiting| waiting.send(outcome()).is_ok())
    }

    /// Records that the caller no longer waits. The call stays until the peer replies.
    pub(super) fn forget(&self, id: u32) {
        if let Some(call) = self.calls.lock().unanswered.get_mut(&id) {
            call.waiting = None;
        }
    }

    /// Fails all calls, including later ones, with this reason.
    pub(super) fn close(&self, reason: &Closed) {
        let unanswered = {
            let mut calls = self.calls.lock();
            calls.closed.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut calls.unanswered)
        };
        self.slots.close();
        for waiting in unanswered.into_values().filter_map(|call| call.waiting) {
            // Sending fails if the caller no longer waits, which makes no difference.
            let _ = waiting.send(Err(CallError::Closed(reason.clone())));
        }
    }

    /// Returns the number of calls whose callers wait, and the number of calls without a reply.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let calls = self.calls.lock();
        (calls.unanswered.values().filter(|call| call.waiting.is_some()).count(), calls.unanswered.len())
    }

    /// Continues with this stream id.
    #[cfg(test)]
    pub(super) fn skip_to(&self, id: u32) {
        self.calls.lock().next = Some(id);
    }
}
