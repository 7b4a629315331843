//! A reply that is owed.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::CallError;
use super::pending_calls::{CallResult, PendingCalls};
use crate::mux::Closed;

/// A reply that is owed. Dropping it says that nobody waits for it any more; the peer is not told.
#[derive(Debug)]
pub struct PendingReply {
    id: u32,
    deadline: Instant,
    pending_calls: Arc<PendingCalls>,
    state: ReplyState,
}

#[derive(Debug)]
enum ReplyState {
    Waiting(oneshot::Receiver<CallResult>),
    Done(CallResult),
}

impl PendingReply {
    pub(super) fn new(
        id: u32,
        deadline: Instant,
        pending_calls: Arc<PendingCalls>,
        reply: oneshot::Receiver<CallResult>,
    ) -> Self {
        Self { id, deadline, pending_calls, state: ReplyState::Waiting(reply) }
    }

    /// The reply, if it comes by the deadline of the call.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`] if it does not; it can still be waited for with [`PendingReply::late`].
    /// Otherwise as [`super::Client::call`].
    pub async fn reply(&mut self) -> CallResult {
        let deadline = self.deadline;
        tokio::time::timeout_at(deadline, self.late()).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// The reply, however late. It waits until the reply comes or the connection ends.
    ///
    /// # Errors
    ///
    /// As [`super::Client::call`], but it never times out.
    pub async fn late(&mut self) -> CallResult {
        match &mut self.state {
            ReplyState::Done(outcome) => outcome.clone(),
            ReplyState::Waiting(reply) => {
                let outcome = reply.await.unwrap_or(Err(CallError::Closed(Closed::Local)));
                self.state = ReplyState::Done(outcome.clone());
                outcome
            }
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if matches!(self.state, ReplyState::Waiting(_)) {
            self.pending_calls.forget(self.id);
        }
    }
}
