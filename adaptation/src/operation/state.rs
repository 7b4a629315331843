//! The state of an operation: its requests, its participants, and the plugins that wait for its end
//! because they could not be asked.

use std::pin::Pin;
use std::sync::Arc;

use nri_proto::{Event, Pod};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::api::decision::{Decision, OutcomeCell};
use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::request::{Request, Subject};
use crate::mistake::Mistake;
use crate::operation::OperationOptions;
use crate::operation::prior_state::{PriorStates, TouchedObjects};
use crate::operation::rollback::{BegunObject, Undo};
use crate::session::PluginSession;
use crate::session::journal::{JournalEnd, is_told};
use crate::session::open_operation::OpenOperation;
use crate::session::progress::RelayProgress;
use crate::session::roster::Roster;

/// The state of one operation of the runtime, from its first request until it has ended.
pub(crate) struct OperationState {
    id: OperationId,
    pub(crate) pod: Arc<Pod>,
    pub(crate) pod_id: Arc<str>,
    nature: OperationOptions,
    /// The plugins that take part, with the policies that were in effect when the operation began.
    pub(crate) participants: Arc<Roster>,
    said: Mutex<OperationRecord>,
    fate: OutcomeCell,
}

/// The requests of an operation so far, and its phase.
#[derive(Default)]
struct OperationRecord {
    asked: SmallVec<[MadeRequest; 2]>,
    holders: Vec<Holder>,
    phase: OperationPhase,
    /// The plugins that turned out, after the operation failed, not to have taken a request that
    /// began something.
    unseen: Vec<Arc<PluginSession>>,
    /// The number of checks that found the operation open.
    age: u32,
    /// The late answers that wait for the end of the operation.
    waiting: Vec<oneshot::Sender<OperationOutcome>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum OperationPhase {
    #[default]
    Open,
    /// The operation has been open for too long: nothing waits for its end any more.
    Overdue,
    Ended(OperationOutcome),
}

/// A request of the operation.
struct MadeRequest {
    event: Event,
    before: Option<PriorStates>,
    kept: KeptRequest,
    /// Which of the participants have seen the request.
    progress: Option<RelayProgress>,
}

/// A request of an operation, kept for plugins that receive it later.
pub(crate) enum KeptRequest {
    /// Plugins are being asked, and may still change it.
    InFlight,
    /// No plugin was asked.
    Bare(Subject, Arc<Decision>),
    Request(Arc<Request>),
}

/// A plugin that waits for the end of the operation.
struct Holder {
    entry: Arc<PluginSession>,
    /// For a joining plugin, the number of requests of the operation that were already added to its
    /// journal. `None` for a participant: its journal gets only the requests that it missed.
    given: Option<usize>,
    /// The requests that were added to the plugin's journal for delivery although the operation had
    /// not ended.
    told: Vec<Arc<Request>>,
}

impl OperationState {
    pub(crate) fn new(id: OperationId, pod: Arc<Pod>, nature: OperationOptions, participants: Arc<Roster>) -> Self {
        let pod_id = pod.id.as_str().into();
        Self { id, pod, pod_id, nature, participants, said: Mutex::default(), fate: OutcomeCell::default() }
    }

    /// Returns the prior states of the objects that a request is about.
    pub(crate) fn before(&self, event: Event, subject: &Subject) -> Option<PriorStates> {
        PriorStates::of(event, &self.pod, subject, self.nature.known)
    }

    /// Returns whether a request with this event begins something that is rolled back if the
    /// operation fails.
    fn begins(&self, event: Event) -> bool {
        BegunObject::is_begin(event, self.nature.start_undo)
    }

    pub(crate) fn id(&self) -> OperationId {
        self.id
    }

    /// Returns the outcome of the operation, which is set when the operation ends.
    pub(crate) fn fate(&self) -> OutcomeCell {
        self.fate.clone()
    }

    /// Records a request. Returns its place.
    pub(crate) fn ask(
        &self,
        event: Event,
        before: Option<PriorStates>,
        kept: KeptRequest,
        progress: Option<RelayProgress>,
    ) -> usize {
        let mut said = self.said();
        said.asked.push(MadeRequest { event, before, kept, progress });
        said.asked.len() - 1
    }

    /// Keeps the last version of the request at this place, when the relay of the request has
    /// ended.
    pub(crate) fn keep(&self, place: usize, request: Arc<Request>) {
        if let Some(asked) = self.said().asked.get_mut(place) {
            asked.kept = KeptRequest::Request(request);
        }
    }

    /// Makes a joining plugin wait for the end of the operation to receive its requests. If the
    /// operation is overdue, the plugin receives the requests so far without that wait.
    pub(crate) fn wait_for(&self, entry: &Arc<PluginSession>) {
        if Mistake::JournalNotKept.is_injected() {
            return;
        }
        let mut said = self.said();
        // Remove sessions that were closed because they failed to join.
        said.holders.retain(|holder| !Arc::ptr_eq(&holder.entry, entry) && !holder.entry.closed.is_cancelled());
        let mut holder = Holder { entry: Arc::clone(entry), given: Some(0), told: Vec::new() };
        if said.phase == OperationPhase::Overdue {
            let requests = self.requests(&mut said);
            holder.given = Some(requests.len());
            holder.told = asked_of(entry, &requests);
            add_all(entry, holder.told.iter());
        } else {
            entry.note(|journal| journal.open(self.id, Arc::clone(&self.pod_id)));
        }
        said.holders.push(holder);
    }

    /// Returns whether a request of the operation began something that is rolled back if the
    /// operation fails.
    pub(crate) fn has_begun(&self) -> bool {
        self.said().asked.iter().any(|asked| self.begins(asked.event))
    }

    /// Adds the prior states of all objects that the requests of this operation touch.
    pub(crate) fn touched(&self, touched: &mut TouchedObjects) {
        self.said().asked.iter().filter_map(|asked| asked.before.as_ref()).for_each(|before| touched.add(before));
    }

    /// Counts a check that found the operation open. At the `limit`th check the operation becomes
    /// overdue, and nothing waits for its end from then on. Returns whether it became overdue.
    pub(crate) fn grow_older(&self, limit: u32) -> bool {
        let mut said = self.said();
        said.age += 1;
        if said.phase != OperationPhase::Open || said.age < limit {
            return false;
        }
        said.phase = OperationPhase::Overdue;
        said.waiting.clear();
        let requests = self.requests(&mut said);
        for holder in &mut said.holders {
            let asked = holder.given.map_or(&[][..], |_| &requests);
            holder.given = holder.given.map(|_| asked.len());
            let asked = asked_of(&holder.entry, asked);
            holder.told.extend(holder.entry.hears_of(self.id, &asked, OperationOutcome::Committed).told);
        }
        true
    }

    /// Ends the operation, and delivers its requests to the plugins that waited for its end.
    /// Returns the rollback if `undoes` is set and there is something to roll back. A second call
    /// has no effect.
    pub(crate) fn end(&self, outcome: OperationOutcome, undoes: bool) -> Option<Undo> {
        let mut said = self.said();
        if let OperationPhase::Ended(_) = said.phase {
            return None;
        }
        let was_overdue = std::mem::replace(&mut said.phase, OperationPhase::Ended(outcome)) == OperationPhase::Overdue;
        self.fate.is(outcome);
        let holders = std::mem::take(&mut said.holders);
        // The receiver may have been dropped.
        std::mem::take(&mut said.waiting).into_iter().for_each(|waiting| _ = waiting.send(outcome));
        let mut begun = if outcome == OperationOutcome::Failed { self.begun(&mut said) } else { Vec::new() };
        let requests = if holders.is_empty() { Vec::new() } else { self.requests(&mut said) };
        for Holder { entry, given, told } in &holders {
            let rest = given.map_or(&[][..], |given| &requests[given.min(requests.len())..]);
            let rest = asked_of(entry, rest);
            if was_overdue {
                add_all(entry, rest.iter().filter(|request| is_told(request, &rest, outcome)));
                let has_heard = |begun: &&mut BegunObject| told.iter().any(|request| begun.is_begun_by(request));
                for begun in begun.iter_mut().rev().filter(has_heard) {
                    begun.seen.retain(|other| !Arc::ptr_eq(other, entry));
                    // Added to the journal now: later requests about the pod may be added to it
                    // before the rollback has the turn of the pod.
                    let undone: Vec<_> = begun.undone().filter(|_| undoes).collect();
                    let now = entry.services.update_log.now();
                    undone.iter().for_each(|end| end.decision().begins(now));
                    add_all(entry, undone.iter().filter(|end| entry.terms().events.contains(end.event())));
                }
            } else {
                let outcome = match Mistake::FailureDelivered.is_injected() {
                    true => OperationOutcome::Committed,
                    false => outcome,
                };
                let dropped = entry.hears_of(self.id, &rest, outcome).dropped;
                let has_not = |begun: &&mut BegunObject| dropped.iter().any(|request| begun.is_begun_by(request));
                let others = |begun: &mut BegunObject| begun.seen.retain(|other| !Arc::ptr_eq(other, entry));
                begun.iter_mut().filter(has_not).for_each(others);
            }
        }
        Undo::of(self, begun).filter(|_| undoes)
    }

    /// Returns the requests before the first one that plugins are still being asked.
    fn requests(&self, said: &mut OperationRecord) -> Vec<Arc<Request>> {
        said.asked.iter_mut().map_while(|asked| asked.request(&self.pod)).collect()
    }

    /// Returns the objects that the operation began, each with the plugins that have seen its
    /// beginning.
    fn begun(&self, said: &mut OperationRecord) -> Vec<BegunObject> {
        let mut begun: Vec<BegunObject> = Vec::new();
        for asked in &mut said.asked {
            let Some(request) = asked.request(&self.pod) else { continue };
            begun.iter_mut().for_each(|begun| begun.ends_with(&request));
            if self.begins(asked.event) {
                let seen = asked.progress.as_ref().map(|progress| progress.seen(&self.participants));
                begun.push(BegunObject::new(request, seen.unwrap_or_default(), self.nature.start_undo));
            }
        }
        begun
    }

    fn said(&self) -> MutexGuard<'_, OperationRecord> {
        self.said.lock()
    }
}

impl OpenOperation for OperationState {
    fn hold(&self, entry: &Arc<PluginSession>, request: &Arc<Request>, end: JournalEnd) {
        let mut said = self.said();
        match said.phase {
            OperationPhase::Open => {
                said.holder(entry);
                let end = if Mistake::BacklogOutOfOrder.is_injected() { JournalEnd::Front } else { end };
                entry.note(|journal| journal.hold(self.id, Arc::clone(request), end));
                if request.event() == Event::StopContainer && Mistake::StopDoubled.is_injected() {
                    entry.note(|journal| journal.hold(self.id, Arc::clone(request), end));
                }
            }
            OperationPhase::Ended(OperationOutcome::Failed) if request.event().can_be_vetoed() => {
                // The plugin did not take the request, so it has not seen what is rolled back.
                if self.begins(request.event()) {
                    said.unseen.push(Arc::clone(entry));
                    entry.note(|journal| {
                        journal.forget_ends_of(request, BegunObject::ends_of(request.event(), self.nature.start_undo));
                        Ok(())
                    });
                }
            }
            OperationPhase::Overdue => {
                // The plugin receives the request whatever the outcome of the operation.
                said.holder(entry).told.push(Arc::clone(request));
                entry.note(|journal| journal.add(Arc::clone(request), end));
            }
            OperationPhase::Ended(_) => {
                entry.note(|journal| journal.add(Arc::clone(request), end));
            }
        }
    }

    fn hold_rollback(&self, entry: &Arc<PluginSession>, request: &Arc<Request>) {
        let said = self.said();
        if !said.is_unseen_by(entry) {
            entry.keep(request, None, JournalEnd::Back);
        }
    }

    fn is_unseen_by(&self, entry: &Arc<PluginSession>) -> bool {
        self.said().is_unseen_by(entry)
    }

    fn outcome(&self) -> Pin<Box<dyn Future<Output = Option<OperationOutcome>> + Send + '_>> {
        Box::pin(async move {
            let ended = {
                let mut said = self.said();
                match said.phase {
                    OperationPhase::Ended(outcome) => return Some(outcome),
                    OperationPhase::Overdue => return None,
                    OperationPhase::Open => {}
                }
                let (sender, ended) = oneshot::channel();
                said.waiting.push(sender);
                ended
            };
            ended.await.ok()
        })
    }
}

impl OperationRecord {
    /// Returns the entry of a participant that waits for the end of the operation, and adds the
    /// entry if there is none.
    fn holder(&mut self, entry: &Arc<PluginSession>) -> &mut Holder {
        let at = self.holders.iter().position(|holder| Arc::ptr_eq(&holder.entry, entry)).unwrap_or_else(|| {
            self.holders.push(Holder { entry: Arc::clone(entry), given: None, told: Vec::new() });
            self.holders.len() - 1
        });
        &mut self.holders[at]
    }

    fn is_unseen_by(&self, entry: &Arc<PluginSession>) -> bool {
        self.unseen.iter().any(|other| Arc::ptr_eq(other, entry))
    }
}

impl MadeRequest {
    fn request(&mut self, pod: &Arc<Pod>) -> Option<Arc<Request>> {
        let request = match &self.kept {
            KeptRequest::InFlight => return None,
            KeptRequest::Request(request) => return Some(Arc::clone(request)),
            KeptRequest::Bare(subject, decision) => {
                let request = Request::new(self.event, Arc::clone(pod), subject.clone());
                Arc::new(request.decided(Arc::clone(decision)))
            }
        };
        self.kept = KeptRequest::Request(Arc::clone(&request));
        Some(request)
    }
}

/// Adds requests to a plugin's journal, to be delivered whatever the outcome of any operation.
fn add_all<'r>(entry: &Arc<PluginSession>, requests: impl Iterator<Item = &'r Arc<Request>>) {
    for request in requests {
        entry.note(|journal| journal.add(Arc::clone(request), JournalEnd::Back));
    }
}

/// Returns the requests that the plugin is asked about under its current policy.
fn asked_of(entry: &PluginSession, requests: &[Arc<Request>]) -> Vec<Arc<Request>> {
    let is_seen = |request: &&Arc<Request>| entry.is_asked(request.event(), &request.pod().namespace);
    requests.iter().filter(is_seen).cloned().collect()
}
