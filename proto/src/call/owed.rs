//! The replies that a client is owed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::CallError;
use crate::mux::Closed;

/// What a call ends with.
pub(super) type Outcome = Result<Bytes, CallError>;

/// The calls of one client that have no reply yet, by stream id.
#[derive(Debug)]
pub(super) struct Owed(Mutex<Calls>);

#[derive(Debug)]
struct Calls {
    next: Option<u32>,
    waiting: HashMap<u32, oneshot::Sender<Outcome>>,
    closed: Option<Closed>,
}

impl Owed {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Calls { next: Some(1), waiting: HashMap::new(), closed: None }))
    }

    /// Takes the next stream id. Ids are odd and only ever grow; they are never used again.
    pub(super) fn begin(&self) -> Result<(u32, oneshot::Receiver<Outcome>), Closed> {
        let mut calls = self.lock();
        if let Some(reason) = &calls.closed {
            return Err(reason.clone());
        }
        let id = calls.next.ok_or(Closed::IdsUsedUp)?;
        calls.next = id.checked_add(2);
        let (sender, receiver) = oneshot::channel();
        calls.waiting.insert(id, sender);
        Ok((id, receiver))
    }

    /// Hands an outcome to whoever waits for it. False if nobody does.
    pub(super) fn settle(&self, id: u32, outcome: impl FnOnce() -> Outcome) -> bool {
        let Some(waiting) = self.lock().waiting.remove(&id) else { return false };
        waiting.send(outcome()).is_ok()
    }

    /// Nobody waits for this one any more.
    pub(super) fn forget(&self, id: u32) {
        self.lock().waiting.remove(&id);
    }

    /// Ends all calls, those that wait and those to come.
    pub(super) fn close(&self, reason: &Closed) {
        let waiting = {
            let mut calls = self.lock();
            calls.closed.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut calls.waiting)
        };
        for (_, call) in waiting {
            // Whoever does not wait any more need not know.
            let _ = call.send(Err(CallError::Closed(reason.clone())));
        }
    }

    /// How many calls have no reply yet.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Goes on as if so many ids were used up.
    #[cfg(test)]
    pub(super) fn skip_to(&self, id: u32) {
        self.lock().next = Some(id);
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
