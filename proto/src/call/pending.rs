//! A reply that is owed.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::CallError;
use super::owed::{Outcome, Owed};
use crate::mux::Closed;

/// A reply that is owed. Dropping it says that nobody waits for it any more; the peer is not told.
#[derive(Debug)]
pub struct Pending {
    id: u32,
    deadline: Instant,
    owed: Arc<Owed>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting(oneshot::Receiver<Outcome>),
    Done(Outcome),
}

impl Pending {
    pub(super) fn new(id: u32, deadline: Instant, owed: Arc<Owed>, reply: oneshot::Receiver<Outcome>) -> Self {
        Self { id, deadline, owed, state: State::Waiting(reply) }
    }

    /// The reply, if it comes by the deadline of the call.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`] if it does not; it can still be waited for with [`Pending::late`].
    /// Otherwise as [`super::Client::call`].
    pub async fn reply(&mut self) -> Outcome {
        let deadline = self.deadline;
        tokio::time::timeout_at(deadline, self.late()).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// The reply, however late. It waits until the reply comes or the connection ends.
    ///
    /// # Errors
    ///
    /// As [`super::Client::call`], but it never times out.
    pub async fn late(&mut self) -> Outcome {
        match &mut self.state {
            State::Done(outcome) => outcome.clone(),
            State::Waiting(reply) => {
                let outcome = reply.await.unwrap_or(Err(CallError::Closed(Closed::Local)));
                self.state = State::Done(outcome.clone());
                outcome
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if matches!(self.state, State::Waiting(_)) {
            self.owed.forget(self.id);
        }
    }
}
