//! One act of the runtime, as plugins that could not be asked will hear of it: what was asked in
//! it, who took part, and who waits for its end.

use std::pin::Pin;
use std::sync::Arc;

use nri_proto::{Event, Pod};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::api::decision::{Decision, Fate};
use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::request::{Request, Subject};
use crate::operation::OperationOptions;
use crate::operation::prior_state::{PriorStates, TouchedObjects};
use crate::operation::rollback::{BegunObject, Undo};
use crate::session::PluginSession;
use crate::session::faults::Mistake;
use crate::session::journal::{End, is_told};
use crate::session::open_operation::OpenOperation;
use crate::session::progress::RelayProgress;
use crate::session::roster::Roster;

/// One act of the runtime, from its first request until it ends.
pub(crate) struct OperationState {
    id: OperationId,
    pub(crate) pod: Arc<Pod>,
    pub(crate) pod_id: Arc<str>,
    nature: OperationOptions,
    /// Who takes part.
    pub(crate) participants: Arc<Roster>,
    said: Mutex<OperationRecord>,
    fate: Fate,
}

/// The requests of an operation so far, and its phase.
#[derive(Default)]
struct OperationRecord {
    asked: SmallVec<[MadeRequest; 2]>,
    holders: Vec<Holder>,
    phase: OperationPhase,
    /// Those who turned out, after its end, not to have taken what began in it.
    unseen: Vec<Arc<PluginSession>>,
    /// How many times someone looked whether it is still open.
    age: u32,
    /// Late answers that wait for its end.
    waiting: Vec<oneshot::Sender<OperationOutcome>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum OperationPhase {
    #[default]
    Open,
    /// It has been open for too long: nothing waits for it any more.
    Overdue,
    Ended(OperationOutcome),
}

/// A request that was made in the operation.
struct MadeRequest {
    event: Event,
    before: Option<PriorStates>,
    kept: KeptRequest,
    /// Who of the participants has seen it.
    progress: Option<RelayProgress>,
}

/// A request of an operation, kept for plugins that hear of it later.
pub(crate) enum KeptRequest {
    /// Plugins are being asked, and may still change it.
    InFlight,
    /// Nobody was asked.
    Bare(Subject, Arc<Decision>),
    Request(Arc<Request>),
}

/// A plugin that waits for the end.
struct Holder {
    entry: Arc<PluginSession>,
    /// How much of what was asked it has been given, if it is given all of it. Others hold on to
    /// what they missed themselves.
    given: Option<usize>,
    /// What of it the plugin was told, or will be, although the act had not ended.
    told: Vec<Arc<Request>>,
}

impl OperationState {
    pub(crate) fn new(id: OperationId, pod: Arc<Pod>, nature: OperationOptions, participants: Arc<Roster>) -> Self {
        let pod_id = pod.id.as_str().into();
        Self { id, pod, pod_id, nature, participants, said: Mutex::default(), fate: Fate::default() }
    }

    /// How what a request is about was before.
    pub(crate) fn before(&self, event: Event, subject: &Subject) -> Option<PriorStates> {
        PriorStates::of(event, &self.pod, subject, self.nature.known)
    }

    /// Whether a request with this event begins something that is undone if the act fails.
    fn begins(&self, event: Event) -> bool {
        BegunObject::is_begin(event, self.nature.start_undo)
    }

    pub(crate) fn id(&self) -> OperationId {
        self.id
    }

    /// How it has ended, once it has.
    pub(crate) fn fate(&self) -> Fate {
        self.fate.clone()
    }

    /// A request is made. Returns its place.
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

    /// The request at this place, as it is when all were asked.
    pub(crate) fn keep(&self, place: usize, request: Arc<Request>) {
        if let Some(asked) = self.said().asked.get_mut(place) {
            asked.kept = KeptRequest::Request(request);
        }
    }

    /// A plugin that joins, and sees nothing of this before it ends.
    pub(crate) fn wait_for(&self, entry: &Arc<PluginSession>) {
        if entry.services.makes(Mistake::JournalNotKept) {
            return;
        }
        let mut said = self.said();
        // Those that failed to join are gone.
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

    /// Whether something was begun in it, for whoever may have seen it.
    pub(crate) fn has_begun(&self) -> bool {
        self.said().asked.iter().any(|asked| self.begins(asked.event))
    }

    /// Adds how what is touched in this was before.
    pub(crate) fn touched(&self, touched: &mut TouchedObjects) {
        self.said().asked.iter().filter_map(|asked| asked.before.as_ref()).for_each(|before| touched.add(before));
    }

    /// Someone looks whether it is still open. True if that is for the `limit`th time: nothing
    /// waits for it from now on.
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

    /// Ends the operation. Plugins that waited for its end will hear of it. Returns what is to be
    /// undone, if the adaptation undoes it.
    pub(crate) fn end(&self, outcome: OperationOutcome, undoes: bool) -> Option<Undo> {
        let mut said = self.said();
        if let OperationPhase::Ended(_) = said.phase {
            return None;
        }
        let was_overdue = std::mem::replace(&mut said.phase, OperationPhase::Ended(outcome)) == OperationPhase::Overdue;
        self.fate.is(outcome);
        let holders = std::mem::take(&mut said.holders);
        // A late answer may have been given up.
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
                    // Into the journal now: what follows about the pod may be noted there before
                    // the undo has the pod's turn.
                    let undone: Vec<_> = begun.undone().filter(|_| undoes).collect();
                    let now = entry.services.update_log.now();
                    undone.iter().for_each(|end| end.decision().begins(now));
                    add_all(entry, undone.iter().filter(|end| entry.terms().events.contains(end.event())));
                }
            } else {
                let outcome = match entry.services.makes(Mistake::FailureDelivered) {
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

    /// What was asked so far, up to what is still being asked.
    fn requests(&self, said: &mut OperationRecord) -> Vec<Arc<Request>> {
        said.asked.iter_mut().map_while(|asked| asked.request(&self.pod)).collect()
    }

    /// What was begun in it, and by whom it was seen.
    fn begun(&self, said: &mut OperationRecord) -> Vec<BegunObject> {
        let mut begun: Vec<BegunObject> = Vec::new();
        for asked in &mut said.asked {
            let Some(request) = asked.request(&self.pod) else { continue };
            begun.iter_mut().for_each(|begun| begun.ends_with(&request));
            if self.begins(asked.event) {
                let seen = asked.progress.as_ref().map(|progress| progress.seen(&self.participants));
                let seen = seen.map(|seen| match self.participants.entries().first() {
                    Some(first) if first.services.makes(Mistake::UndoneForAll) => {
                        self.participants.entries().iter().map(|entry| Arc::clone(entry)).collect()
                    }
                    _ => seen,
                });
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
    fn hold(&self, entry: &Arc<PluginSession>, request: &Arc<Request>, end: End) {
        let mut said = self.said();
        match said.phase {
            OperationPhase::Open => {
                said.holder(entry);
                let end = if entry.services.makes(Mistake::BacklogOutOfOrder) { End::Front } else { end };
                entry.note(|journal| journal.hold(self.id, Arc::clone(request), end));
                if request.event() == Event::StopContainer && entry.services.makes(Mistake::StopDoubled) {
                    entry.note(|journal| journal.hold(self.id, Arc::clone(request), end));
                }
            }
            OperationPhase::Ended(OperationOutcome::Failed) if request.event().can_be_vetoed() => {
                // So it has not seen what is being undone.
                if self.begins(request.event()) {
                    said.unseen.push(Arc::clone(entry));
                    entry.note(|journal| {
                        journal.forget_ends_of(request, BegunObject::ends_of(request.event(), self.nature.start_undo));
                        Ok(())
                    });
                }
            }
            OperationPhase::Overdue => {
                // It will be told, whatever comes of it.
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
            entry.keep(request, None, End::Back);
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
    /// A participant that waits for the end from now on, unless it does already.
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

/// All of this is so, for a plugin.
fn add_all<'r>(entry: &Arc<PluginSession>, requests: impl Iterator<Item = &'r Arc<Request>>) {
    for request in requests {
        entry.note(|journal| journal.add(Arc::clone(request), End::Back));
    }
}

/// What of it a plugin sees.
fn asked_of(entry: &PluginSession, requests: &[Arc<Request>]) -> Vec<Arc<Request>> {
    let is_seen = |request: &&Arc<Request>| entry.is_asked(request.event(), &request.pod().namespace);
    requests.iter().filter(is_seen).cloned().collect()
}
