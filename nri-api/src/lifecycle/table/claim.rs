//! Claims: the right to send the next request about an object, and the order in which claims were
//! made. Two callers never send the same Stop, Remove or Post event.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::poll;
use nri_adaptation::Operation;

use super::{Table, TableEntry};
use crate::lifecycle::state::State;
use crate::lifecycle::steps::{Completion, EndGoal, EndStep, PostStep, RunId};

/// The position of a claim among all claims of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// A claim whose operation has not ended.
pub(super) struct ClaimRecord {
    ticket: Ticket,
    is_stop: bool,
    /// `None` until the request is sent.
    operation: Option<Arc<Operation>>,
}

impl ClaimRecord {
    pub(super) fn commit(self) {
        if let Some(operation) = self.operation {
            operation.committed();
        }
    }
}

/// Delivered claims whose operations are to be committed.
pub(super) type DeliveredClaims = Vec<(Ticket, Arc<Operation>)>;

impl<T> TableEntry<T> {
    /// Marks the claims up to `last` as delivered. The caller passes the result to
    /// [`Table::commit_claims`].
    pub(super) fn mark_delivered(&mut self, last: Ticket) -> DeliveredClaims {
        let is_delivered = |claim: &&ClaimRecord| claim.ticket <= last && claim.operation.is_some();
        let delivered = || self.claims.iter().filter(is_delivered);
        let has_stopped = delivered().any(|claim| claim.is_stop);
        let delivered =
            delivered().filter_map(|claim| Some((claim.ticket, Arc::clone(claim.operation.as_ref()?)))).collect();
        if has_stopped {
            // Before the operation ends: a snapshot that is taken then shows the object as stopped.
            self.lifecycle.stop_delivered();
            // A Stop ends one run. A caller that finds the claim again may be about the next run.
            let is_delivered = |claim: &&mut ClaimRecord| claim.ticket <= last && claim.operation.is_some();
            self.claims.iter_mut().filter(is_delivered).for_each(|claim| claim.is_stop = false);
        }
        delivered
    }
}

/// A claim whose request is about to be sent. Other callers wait until the request is sent or this
/// value is dropped.
pub(crate) struct ClaimedRequest<'a, T> {
    table: &'a Table<T>,
    id: &'a str,
    ticket: Ticket,
    is_sent: bool,
    /// The state that plugins knew before the claim.
    pub(crate) prior: Option<State>,
}

impl<T: Send + Sync> ClaimedRequest<'_, T> {
    /// Sends the claimed request. The request has its place in the queue of the pod after the first
    /// poll of this future.
    ///
    /// The caller passes the returned claim to [`delivered`](Self::delivered), or removes the
    /// object. If the claim or this future is dropped, the operation is abandoned.
    pub(crate) async fn send<R>(mut self, operation: &Arc<Operation>, request: impl Future<Output = R>) -> (R, Self) {
        let mut request = pin!(request);
        let first = poll!(request.as_mut());
        self.is_sent = true;
        self.table.edit(self.id, |entry| {
            entry.lifecycle.release();
            let claim = entry.claims.iter_mut().find(|claim| claim.ticket == self.ticket);
            claim.into_iter().for_each(|claim| claim.operation = Some(Arc::clone(operation)));
        });
        self.table.changed.notify_waiters();
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => request.await,
        };
        (outcome, self)
    }

    /// Commits the operations of this claim and of all earlier claims, whether or not the other
    /// callers proceed. A plugin that joins later hears of none of them.
    pub(crate) fn delivered(self) {
        self.table.claims_delivered(self.id, self.ticket);
    }
}

impl<T> Drop for ClaimedRequest<'_, T> {
    fn drop(&mut self) {
        let abandoned = self.table.edit(self.id, |entry| {
            if !self.is_sent {
                entry.lifecycle.release();
            }
            let index = entry.claims.iter().position(|claim| claim.ticket == self.ticket)?;
            Some(entry.claims.remove(index))
        });
        if !self.is_sent {
            self.table.changed.notify_waiters();
        }
        // The operation may end here, which must not happen under the lock.
        drop(abandoned);
    }
}

impl<T> Table<T> {
    /// Claims the next step towards `goal`, for an end that was reported of the run `reported`.
    /// Returns `None` if nothing is left to do.
    ///
    /// Operations that are open about the object are committed: the object's end does not wait for
    /// their callers.
    pub(crate) async fn claim_end<'a>(
        &'a self,
        id: &'a str,
        goal: EndGoal,
        reported: RunId,
    ) -> Option<(EndStep, ClaimedRequest<'a, T>)> {
        let claim = |entry: &mut TableEntry<T>| {
            let prior = entry.lifecycle.state();
            match entry.lifecycle.claim_end(goal, reported) {
                EndStep::Wait => None,
                EndStep::Nothing => Some((EndStep::Nothing, Vec::new(), None)),
                step @ (EndStep::Stop | EndStep::Remove) => {
                    let ticket = self.push_claim(entry, step == EndStep::Stop);
                    Some((step, std::mem::take(&mut entry.operations), Some((ticket, prior))))
                }
            }
        };
        let (step, open, claimed) = self.wait_for(id, claim).await?;
        let claimed = claimed.map(|(ticket, prior)| (step, self.claimed_request(id, ticket, prior)));
        open.into_iter().for_each(|(_, operation)| operation.commit());
        claimed
    }

    /// Claims a Post event. Returns `None` if the event is outdated or was claimed before.
    pub(crate) async fn claim_post<'a>(&'a self, id: &'a str, completion: Completion) -> Option<ClaimedRequest<'a, T>> {
        let claim = |entry: &mut TableEntry<T>| match entry.lifecycle.claim_post(completion) {
            PostStep::Wait => None,
            PostStep::Drop => Some(None),
            PostStep::Tell => Some(Some((self.push_claim(entry, false), entry.lifecycle.state_after_claims()))),
        };
        self.wait_for(id, claim).await?.map(|(ticket, prior)| self.claimed_request(id, ticket, prior))
    }

    fn push_claim(&self, entry: &mut TableEntry<T>, is_stop: bool) -> Ticket {
        let ticket = self.next_ticket();
        entry.claims.push(ClaimRecord { ticket, is_stop, operation: None });
        ticket
    }

    fn claimed_request<'a>(&'a self, id: &'a str, ticket: Ticket, prior: Option<State>) -> ClaimedRequest<'a, T> {
        ClaimedRequest { table: self, id, ticket, is_sent: false, prior }
    }

    /// Returns a ticket that is higher than those of all claims made so far.
    pub(crate) fn next_ticket(&self) -> Ticket {
        Ticket(self.n_tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Commits the operations of an object's claims up to `last`, which plugins have heard.
    pub(crate) fn claims_delivered(&self, id: &str, last: Ticket) {
        self.commit_claims(id, self.edit(id, |entry| entry.mark_delivered(last)).unwrap_or_default());
    }

    /// Commits operations before it removes their claims, so that a concurrent end of the object
    /// never sees one of the operations still open.
    pub(super) fn commit_claims(&self, id: &str, delivered: DeliveredClaims) {
        if delivered.is_empty() {
            return;
        }
        delivered.iter().for_each(|(_, operation)| operation.committed());
        let has_ended = |claim: &ClaimRecord| delivered.iter().any(|(ticket, _)| *ticket == claim.ticket);
        self.edit(id, |entry| entry.claims.retain(|claim| !has_ended(claim)));
        self.changed.notify_waiters();
    }
}
