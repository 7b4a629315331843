//! The replies that a client is owed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::CallError;
use crate::mux::Closed;

/// What a call ends with.
pub(super) type CallResult = Result<Bytes, CallError>;

/// How many requests may be without a reply. A Go peer holds 256 frames that its server has not
/// read, closes the connection at the next one, and a request is up to two of them.
pub(super) const MAX_UNANSWERED: usize = 100;

/// The calls of one client that have no reply yet, by stream id.
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
    /// Whoever waits for the reply, if anyone still does.
    waiting: Option<oneshot::Sender<CallResult>>,
    /// Given back when the peer has replied, whether or not anyone waits.
    _slot: OwnedSemaphorePermit,
}

impl PendingCalls {
    pub(super) fn new() -> Self {
        let calls = CallTable { next: Some(1), unanswered: HashMap::new(), closed: None };
        Self { slots: Arc::new(Semaphore::new(MAX_UNANSWERED)), calls: Mutex::new(calls) }
    }

    /// Waits until the peer has replied to enough of what was sent before.
    pub(super) async fn slot(&self) -> Result<OwnedSemaphorePermit, Closed> {
        match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => Ok(slot),
            Err(_closed) => Err(self.calls.lock().closed.clone().unwrap_or(Closed::Local)),
        }
    }

    /// Takes the next stream id. Ids are odd and only ever grow; they are never used again.
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

    /// Hands an outcome to whoever waits for it. False if nobody does.
    pub(super) fn settle(&self, id: u32, outcome: impl FnOnce() -> CallResult) -> bool {
        let Some(call) = self.calls.lock().unanswered.remove(&id) else { return false };
        call.waiting.is_some_and(|waiting| waiting.send(outcome()).is_ok())
    }

    /// Nobody waits for this one any more. The peer still has it.
    pub(super) fn forget(&self, id: u32) {
        if let Some(call) = self.calls.lock().unanswered.get_mut(&id) {
            call.waiting = None;
        }
    }

    /// Ends all calls, those that wait and those to come.
    pub(super) fn close(&self, reason: &Closed) {
        let unanswered = {
            let mut calls = self.calls.lock();
            calls.closed.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut calls.unanswered)
        };
        self.slots.close();
        for waiting in unanswered.into_values().filter_map(|call| call.waiting) {
            // Whoever does not wait any more need not know.
            let _ = waiting.send(Err(CallError::Closed(reason.clone())));
        }
    }

    /// How many calls are waited for, and how many have no reply yet.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let calls = self.calls.lock();
        (calls.unanswered.values().filter(|call| call.waiting.is_some()).count(), calls.unanswered.len())
    }

    /// Goes on as if so many ids were used up.
    #[cfg(test)]
    pub(super) fn skip_to(&self, id: u32) {
        self.calls.lock().next = Some(id);
    }
}
