//! The lives of one kind of object in one namespace, by id. Its locks are held for a look.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry as Place;
use futures_util::poll;
use nri_adaptation::Operation;
use tokio::sync::Notify;

use crate::lifecycle::revocable::Revoke;
use crate::lifecycle::state::{
    ApprovalKind, ApprovalStep, Completion, EndGoal, EndStep, Lifecycle, PostStep, Refusal, RunId, State,
};

/// An object, and what else is known of it.
pub(crate) struct TableEntry<T> {
    pub(crate) life: Lifecycle,
    pub(crate) rest: T,
    /// What plugins let be done with it, and the runtime is at.
    open: Vec<(OperationKey, Operation)>,
    /// What plugins are being told of it, in the order in which it was claimed.
    telling: Vec<ClaimRecord>,
    /// What they are being asked about it, and some of what they were.
    held: Vec<Weak<dyn Revoke>>,
}

/// Something that was claimed, and whose operation has not ended.
struct ClaimRecord {
    ticket: Ticket,
    is_stop: bool,
    /// There once the request was made.
    operation: Option<Arc<Operation>>,
}

/// The place of a claim among all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// An operation that is kept in the entry of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationKey(u64);

/// All objects of a kind.
pub(crate) struct Table<T> {
    entries: DashMap<String, TableEntry<T>>,
    /// Rung when a request was made that had been claimed, and when plugins were asked about a start, an update or a create.
    asked: Notify,
    n_parked: AtomicU64,
    n_tickets: AtomicU64,
    n_runs: AtomicU64,
}

/// A claim whose request is about to be made. Whoever wants to claim something of the same object waits until that was, or this is dropped.
pub(crate) struct ClaimedRequest<'a, T> {
    table: &'a Table<T>,
    id: &'a str,
    ticket: Ticket,
    is_made: bool,
    /// Where plugins knew the object to be before this.
    pub(crate) prior: Option<State>,
}

/// A start or an update that plugins are being asked about. Until this is dropped, no end of the same object is claimed.
pub(crate) struct Approval<'a, T> {
    table: &'a Table<T>,
    id: &'a str,
    /// What was claimed before it was told before it.
    ticket: Ticket,
    kind: ApprovalKind,
    is_passed: bool,
}

impl<T> Approval<'_, T> {
    /// Plugins let it be, and the runtime is at it. Its operation is kept: if the object ends meanwhile, it is as if it had been done, and plugins
    /// hear of it before they hear of the end.
    pub(crate) fn pass(mut self, operation: Operation, change: impl FnOnce(&mut Lifecycle)) -> OperationKey {
        let (parked, mut operation) = (self.table.next_parked(), Some(operation));
        let told = self.table.look(self.id, |entry| {
            let told = entry.told(self.ticket);
            change(&mut entry.life);
            if entry.life.needs_stop() {
                entry.open.extend(operation.take().map(|operation| (parked, operation)));
                entry.life.gate_passed(self.kind);
                self.is_passed = true;
            }
            told
        });
        self.table.end_told(self.id, told.unwrap_or_default());
        // Of what has stopped nothing is kept open, and it is not removed before that.
        operation.into_iter().for_each(Operation::commit);
        if self.is_passed {
            self.table.asked.notify_waiters();
        }
        parked
    }

    /// The same for an object that something else is kept for.
    pub(crate) fn leave(self, change: impl FnOnce(&mut Lifecycle)) {
        let told = self.table.look(self.id, |entry| {
            let told = entry.told(self.ticket);
            change(&mut entry.life);
            told
        });
        self.table.end_told(self.id, told.unwrap_or_default());
    }
}

impl<T> Drop for Approval<'_, T> {
    fn drop(&mut self) {
        if !self.is_passed {
            self.table.look(self.id, |entry| entry.life.gate_passed(self.kind));
            self.table.asked.notify_waiters();
        }
    }
}

impl<T> Drop for ClaimedRequest<'_, T> {
    fn drop(&mut self) {
        let given_up = self.table.look(self.id, |entry| {
            if !self.is_made {
                entry.life.asked();
            }
            let place = entry.telling.iter().position(|telling| telling.ticket == self.ticket)?;
            Some(entry.telling.remove(place))
        });
        if !self.is_made {
            self.table.asked.notify_waiters();
        }
        // Its operation may end with it, which is not to be done under the lock.
        drop(given_up);
    }
}

impl<T: Send + Sync> ClaimedRequest<'_, T> {
    /// Makes the request that was claimed: it has its place in the queue of its pod when the future has been looked at once.
    ///
    /// What is returned is to be [ended](ClaimedRequest::end), or its object removed. To drop it, or this future, is to give the operation up.
    pub(crate) async fn make<R>(mut self, operation: &Arc<Operation>, request: impl Future<Output = R>) -> (R, Self) {
        let mut request = pin!(request);
        let first = poll!(request.as_mut());
        self.is_made = true;
        self.table.look(self.id, |entry| {
            entry.life.asked();
            let telling = entry.telling.iter_mut().find(|telling| telling.ticket == self.ticket);
            telling.into_iter().for_each(|telling| telling.operation = Some(Arc::clone(operation)));
        });
        self.table.asked.notify_waiters();
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => request.await,
        };
        (outcome, self)
    }

    /// It was told, and so was all that was claimed before it: those operations end now, whether or not their callers go on, so
    /// that a plugin which joins later hears of none.
    pub(crate) fn end(self) {
        self.table.told(self.id, self.ticket);
    }
}

impl<T> TableEntry<T> {
    fn new(life: Lifecycle, rest: T) -> Self {
        Self { life, rest, open: Vec::new(), telling: Vec::new(), held: Vec::new() }
    }

    fn take_parked(&mut self, parked: OperationKey) -> Option<Operation> {
        let place = self.open.iter().position(|(other, _)| *other == parked)?;
        Some(self.open.swap_remove(place).1)
    }

    fn hold(&mut self, revoke: &Weak<dyn Revoke>) {
        self.held.retain(|other| other.strong_count() > 0);
        self.held.push(Weak::clone(revoke));
    }

    /// What was claimed up to this was told. Its operations are to be [ended](Table::end_told).
    fn told(&mut self, last: Ticket) -> DeliveredClaims {
        let is_told = |telling: &&ClaimRecord| telling.ticket <= last && telling.operation.is_some();
        let told = || self.telling.iter().filter(is_told);
        // What is shown says so before the operation ends.
        let has_stopped = told().any(|telling| telling.is_stop);
        let told =
            told().filter_map(|telling| Some((telling.ticket, Arc::clone(telling.operation.as_ref()?)))).collect();
        if has_stopped {
            self.life.stop_told();
            // It ends one run. Whoever finds it again may be about the next one.
            let is_told = |telling: &&mut ClaimRecord| telling.ticket <= last && telling.operation.is_some();
            self.telling.iter_mut().filter(is_told).for_each(|telling| telling.is_stop = false);
        }
        told
    }
}

/// What was told, and whose operations are to be ended.
type DeliveredClaims = Vec<(Ticket, Arc<Operation>)>;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: DashMap::new(),
            asked: Notify::new(),
            n_parked: AtomicU64::new(0),
            n_tickets: AtomicU64::new(0),
            n_runs: AtomicU64::new(0),
        }
    }
}

impl<T> Table<T> {
    /// Looks at one, shortly.
    pub(crate) fn look<R>(&self, id: &str, look: impl FnOnce(&mut TableEntry<T>) -> R) -> Option<R> {
        self.entries.get_mut(id).map(|mut entry| look(&mut entry))
    }

    /// Changes the life of one. Whoever waits for that looks again.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Lifecycle)) {
        self.look(id, |entry| change(&mut entry.life));
        self.asked.notify_waiters();
    }

    /// The same, to read.
    pub(crate) fn read<R>(&self, id: &str, read: impl FnOnce(&TableEntry<T>) -> R) -> Option<R> {
        self.entries.get(id).map(|entry| read(&entry))
    }

    pub(crate) fn state(&self, id: &str) -> Option<State> {
        self.read(id, |entry| entry.life.state())?
    }

    /// The number of the next run. What it is about has not begun yet.
    pub(crate) fn next_run(&self) -> RunId {
        RunId(self.n_runs.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Enters one that there is, unless it is known. True if it was not.
    pub(crate) fn enter(&self, id: &str, state: State, run: RunId, rest: impl FnOnce() -> T) -> bool {
        if self.entries.contains_key(id) {
            return false;
        }
        match self.entries.entry(id.to_owned()) {
            Place::Occupied(_) => false,
            Place::Vacant(place) => {
                place.insert(TableEntry::new(Lifecycle::known(state, run), rest()));
                true
            }
        }
    }

    /// Begins to create one.
    pub(crate) fn begin(
        &self,
        id: &str,
        run: RunId,
        rest: T,
        revoke: Option<&Weak<dyn Revoke>>,
    ) -> Result<(), Refusal> {
        match self.entries.entry(id.to_owned()) {
            Place::Occupied(other) => Err(other.get().life.in_the_way()),
            Place::Vacant(place) => {
                let mut entry = place.insert(TableEntry::new(Lifecycle::creating(run), rest));
                revoke.into_iter().for_each(|revoke| entry.hold(revoke));
                Ok(())
            }
        }
    }

    /// What plugins are being asked about one.
    pub(crate) fn held(&self, id: &str) -> Vec<Arc<dyn Revoke>> {
        self.read(id, |entry| entry.held.iter().filter_map(Weak::upgrade).collect()).unwrap_or_default()
    }

    /// It was created. Its operation is to be ended at once, and that to be [said](Table::ended).
    pub(crate) fn created(&self, id: &str, state: State) {
        self.look(id, |entry| entry.life.created(state));
    }

    /// The operation has ended that was to be.
    pub(crate) fn ended(&self, id: &str) {
        self.look(id, |entry| entry.life.asked());
        self.asked.notify_waiters();
    }

    /// Ends an operation that was parked, unless that has been done. Nothing of its object is claimed meanwhile. What it changes is so
    /// before it ends.
    pub(crate) fn end_parked(
        &self,
        id: &str,
        parked: OperationKey,
        change: impl FnOnce(&mut Lifecycle),
        end: impl FnOnce(Operation),
    ) {
        let take = |entry: &mut TableEntry<T>| {
            let operation = entry.take_parked(parked)?;
            change(&mut entry.life);
            entry.life.ends_operation();
            Some(operation)
        };
        if let Some(operation) = self.look(id, take).flatten() {
            end(operation);
            self.ended(id);
        }
    }

    /// It was not created. False if it is not being created.
    pub(crate) fn abandon(&self, id: &str) -> bool {
        let was_creating = self.entries.remove_if(id, |_, entry| entry.life.is_creating()).is_some();
        self.asked.notify_waiters();
        was_creating
    }

    /// Plugins let it be created, and the runtime is at it. Gives the operation back if that has come to nothing already.
    pub(crate) fn park_creation(&self, id: &str, operation: Operation) -> Result<OperationKey, Operation> {
        let (parked, mut operation) = (self.next_parked(), Some(operation));
        self.look(id, |entry| {
            if entry.life.is_creating() {
                entry.open.extend(operation.take().map(|operation| (parked, operation)));
            }
        });
        self.asked.notify_waiters();
        operation.map_or(Ok(parked), Err)
    }

    /// Takes what is being created from the runtime that is at it. While plugins are being asked about it, that is waited for: they have their limits.
    pub(crate) async fn take_creation(&self, id: &str) -> Option<Operation> {
        let take = |entry: &mut TableEntry<T>| match (entry.life.is_creating(), entry.open.pop()) {
            (true, None) => None,
            (true, Some((_, operation))) => Some(Some(operation)),
            (false, open) => {
                entry.open.extend(open);
                Some(None)
            }
        };
        self.settle(id, take).await.flatten()
    }

    fn next_parked(&self) -> OperationKey {
        OperationKey(self.n_parked.fetch_add(1, Ordering::Relaxed))
    }

    /// Its Remove was told, and all before. It is not there any more.
    pub(crate) fn removed(&self, id: &str, forget: impl FnOnce(&str, T)) {
        let Some((id, entry)) = self.entries.remove_if(id, |_, entry| entry.life.is_removing()) else { return };
        forget(&id, entry.rest);
        entry.telling.into_iter().filter_map(|telling| telling.operation).for_each(|operation| operation.committed());
        self.asked.notify_waiters();
    }

    /// Waits until plugins were told that one has ended, or know nothing of it.
    pub(crate) async fn until_ended(&self, id: &str) {
        let _ = self.settle(id, |entry| entry.life.has_ended().then_some(())).await;
    }

    /// What was claimed of one up to this was told.
    pub(crate) fn told(&self, id: &str, last: Ticket) {
        self.end_told(id, self.look(id, |entry| entry.told(last)).unwrap_or_default());
    }

    /// Others find the operations until they have ended, and end them, too: whoever is told of the object's end after that finds none open.
    fn end_told(&self, id: &str, told: DeliveredClaims) {
        if told.is_empty() {
            return;
        }
        told.iter().for_each(|(_, operation)| operation.committed());
        let has_ended = |telling: &ClaimRecord| told.iter().any(|(ticket, _)| *ticket == telling.ticket);
        self.look(id, |entry| entry.telling.retain(|telling| !has_ended(telling)));
        self.asked.notify_waiters();
    }

    /// Gives an operation back, unless it has ended.
    pub(crate) fn take_parked(&self, id: &str, parked: OperationKey) -> Option<Operation> {
        self.look(id, |entry| entry.take_parked(parked)).flatten()
    }

    /// Claims the next step to a goal, as was said of this run. `None`: there is nothing to do.
    pub(crate) async fn claim<'a>(
        &'a self,
        id: &'a str,
        goal: EndGoal,
        said: RunId,
    ) -> Option<(EndStep, ClaimedRequest<'a, T>)> {
        let claim = |entry: &mut TableEntry<T>| {
            let prior = entry.life.state();
            match entry.life.claim(goal, said) {
                EndStep::Wait => None,
                EndStep::Nothing => Some((EndStep::Nothing, Vec::new(), None)),
                step @ (EndStep::Stop | EndStep::Remove) => {
                    let ticket = self.ticket(entry, step == EndStep::Stop);
                    Some((step, std::mem::take(&mut entry.open), Some((ticket, prior))))
                }
            }
        };
        let (step, open, claimed) = self.settle(id, claim).await?;
        let claimed = claimed.map(|(ticket, prior)| (step, self.pending(id, ticket, prior)));
        open.into_iter().for_each(|(_, operation)| operation.commit());
        claimed
    }

    /// Claims a notice of what was done. `None`: it is too late for it.
    pub(crate) async fn claim_post<'a>(&'a self, id: &'a str, deed: Completion) -> Option<ClaimedRequest<'a, T>> {
        let post = |entry: &mut TableEntry<T>| match entry.life.post(deed) {
            PostStep::Wait => None,
            PostStep::Drop => Some(None),
            PostStep::Tell => Some(Some((self.ticket(entry, false), entry.life.told_state()))),
        };
        self.settle(id, post).await?.map(|(ticket, prior)| self.pending(id, ticket, prior))
    }

    fn ticket(&self, entry: &mut TableEntry<T>, is_stop: bool) -> Ticket {
        let ticket = self.next_ticket();
        entry.telling.push(ClaimRecord { ticket, is_stop, operation: None });
        ticket
    }

    /// One that comes after all that was claimed up to now.
    pub(crate) fn next_ticket(&self) -> Ticket {
        Ticket(self.n_tickets.fetch_add(1, Ordering::Relaxed))
    }

    fn pending<'a>(&'a self, id: &'a str, ticket: Ticket, prior: Option<State>) -> ClaimedRequest<'a, T> {
        ClaimedRequest { table: self, id, ticket, is_made: false, prior }
    }

    /// Begins to ask plugins whether something may be done with one. `None`: there is none.
    pub(crate) async fn gate<'a>(
        &'a self,
        id: &'a str,
        revoke: &Weak<dyn Revoke>,
        kind: ApprovalKind,
    ) -> Option<Result<(State, Approval<'a, T>), Refusal>> {
        let ask = |entry: &mut TableEntry<T>| {
            let step = match kind {
                ApprovalKind::Start => entry.life.start(),
                ApprovalKind::Update => entry.life.update(),
            };
            match step {
                ApprovalStep::Ask(state) => {
                    entry.hold(revoke);
                    Some(Ok(state))
                }
                ApprovalStep::Refused(refusal) => Some(Err(refusal)),
                ApprovalStep::Wait => None,
            }
        };
        let asked = self.settle(id, ask).await?;
        Some(
            asked
                .map(|state| (state, Approval { table: self, id, ticket: self.next_ticket(), kind, is_passed: false })),
        )
    }

    /// Looks at one until it says something, each time that a request was made.
    async fn settle<R>(&self, id: &str, mut look: impl FnMut(&mut TableEntry<T>) -> Option<R>) -> Option<R> {
        if let Some(said) = self.look(id, &mut look)? {
            return Some(said);
        }
        loop {
            let mut asked = pin!(self.asked.notified());
            asked.as_mut().enable();
            if let Some(said) = self.look(id, &mut look)? {
                return Some(said);
            }
            asked.await;
        }
    }
}
