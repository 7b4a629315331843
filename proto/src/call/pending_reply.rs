//! The handle of a call whose reply has not been received yet.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::CallError;
use super::pending_calls::{CallResult, PendingCalls};
use crate::mux::Closed;

/// The handle of a call, to wait for its reply. If it is dropped, the reply is discarded; the peer
/// is not notified.
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

    /// Waits for the reply until the deadline of the call.
    ///
    /// # Errors
    ///
    /// Fails with [`CallError::TimedOut`] at the deadline. A late reply can still be received with
    /// [`PendingReply::late`]. Otherwise fails as [`Client::call`](super::Client::call) does.
    pub async fn reply(&mut self) -> CallResult {
        let deadline = self.deadline;
        tokio::time::timeout_at(deadline, self.late()).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// Waits for the reply without a deadline, until the connection ends.
    ///
    /// # Errors
    ///
    /// Fails as [`Client::call`](super::Client::call) does, but never times out.
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
