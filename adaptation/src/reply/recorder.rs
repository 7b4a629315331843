//! What is written into the ledger, and when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nri_proto::{Adjustment, Container, Event, Eviction, PluginId, Pod, Unread, Update};

use crate::api::error::Cause;
use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::config::policy::{Mode, NotAllowed};
use crate::ledger::{Ledger, Occasion, What};
use crate::merge::{Applied, Dropped, StopMerge, Touch};
use crate::reply::question::Refusal;

/// The ledger of one adaptation.
pub(crate) struct Records(Mutex<Ledger>);

impl Records {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Mutex::new(Ledger::new(limit)))
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a plugin wants by itself, and may not have.
    pub(crate) fn refused(&self, occasion: &Occasion, refusal: &Refusal) {
        self.ledger().record(occasion, refusal.into());
    }

    /// What of an answer nobody could read.
    pub(crate) fn unread(&self, occasion: &Occasion, unread: Vec<Unread>) {
        if !unread.is_empty() {
            let dropped = unread.into_iter().map(Dropped::Unread).collect();
            self.ledger().record_applied(occasion, Applied { dropped, ..Applied::default() });
        }
    }

    /// An answer that came when nobody waited for it any more: what it would have changed, here and
    /// in others.
    pub(crate) fn late(&self, occasion: &Occasion, reply: &Reply) {
        let (adjustment, updates) = wanted(reply);
        let (own, others): (Vec<_>, Vec<_>) =
            updates.iter().partition(|update| occasion.container.as_deref() == Some(&*update.container_id));
        let adjusted = adjustment.map(Touch::of_adjustment).unwrap_or_default();
        let touches = adjusted.into_iter().chain(own.into_iter().flat_map(Touch::of_update));
        self.ledger().record(occasion, What::late(touches));
        for update in others {
            let of_other = occasion.of_container(&update.container_id);
            self.ledger().record(&of_other, What::late(Touch::of_update(update)));
        }
        evictions(reply).iter().for_each(|eviction| self.evicted_too_late(occasion, eviction));
    }

    /// An eviction that was asked for too late.
    pub(crate) fn evicted_too_late(&self, occasion: &Occasion, eviction: &Eviction) {
        let reason = "it was asked for too late".to_owned();
        self.ledger().record(&occasion.of_container(&eviction.container_id), What::EvictionFailed { reason });
    }

    /// A plugin without a say in what has been decided without it.
    pub(crate) fn failed(&self, occasion: &Occasion, cause: &Cause) {
        self.ledger().record(occasion, cause.into());
    }

    /// Updates and evictions that a plugin asks for by itself.
    pub(crate) fn unasked(&self, occasion: &Occasion, plugin: &PluginId, updates: Vec<Update>, evictions: &[Eviction]) {
        for update in updates {
            let reply = nri_proto::StopReply { updates: vec![update], ..Default::default() };
            // One that says a thing twice is made as the runtime likes.
            let applied = StopMerge::new().apply(plugin, reply).unwrap_or_default();
            // There may be many of them: others are let in between.
            self.ledger().record_applied(occasion, applied);
        }
        self.ledger().record_evictions(occasion, evictions);
    }

    /// What of that the runtime could not do.
    pub(crate) fn undone(&self, occasion: &Occasion, failed: &[Update]) {
        let mut ledger = self.ledger();
        for Update { container_id, .. } in failed {
            let reason = "the runtime could not make it".to_owned();
            ledger.record(&occasion.of_container(container_id), What::UpdateFailed { reason });
        }
    }
}

/// Something that is written down when it is known what the request comes to.
enum Note {
    /// What a reply comes to.
    Reply { occasion: Occasion, applied: Applied, evictions: Vec<Eviction> },
    /// What is so in any case.
    Fact { occasion: Occasion, what: What },
}

/// A request that a plugin was asked, and how long the plugin took.
#[derive(Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) plugin: &'a PluginId,
    /// The mode of the plugin: in shadow mode, no reply counts.
    pub(crate) mode: Mode,
    pub(crate) request: &'a Request,
    pub(crate) took: Duration,
}

/// The outcomes of one request that go into the ledger, in the order of the plugins. Unless the
/// request [came true](RequestRecord::came_true), they say that what plugins wanted was in vain.
pub(crate) struct RequestRecord {
    records: Arc<Records>,
    notes: Vec<Note>,
    /// The pod and the container that the request is about, once they are noted.
    about: Option<(Arc<str>, Option<Arc<str>>)>,
}

impl RequestRecord {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self { records, notes: Vec::new(), about: None }
    }

    /// A reply that counts, or would count if its plugin were not on trial.
    pub(crate) fn reply(&mut self, answered: Exchange<'_>, applied: Applied, evictions: Vec<Eviction>) {
        if applied != Applied::default() || !evictions.is_empty() {
            let occasion = self.occasion(answered);
            self.notes.push(Note::Reply { occasion, applied, evictions });
        }
    }

    /// A reply that does not count.
    pub(crate) fn refused(&mut self, answered: Exchange<'_>, refusal: &Refusal) {
        let occasion = self.occasion(answered);
        self.fact(occasion, refusal.into());
    }

    /// What a reply wants of containers in pods that its plugin does not see, and that does not
    /// count.
    pub(crate) fn hidden<'c>(&mut self, answered: Exchange<'_>, refusals: impl Iterator<Item = (&'c str, NotAllowed)>) {
        let occasion = self.occasion(answered);
        for (container, refusal) in refusals {
            self.fact(occasion.of_container(container), What::NotAllowed(refusal));
        }
    }

    /// What is so in any case.
    pub(crate) fn fact(&mut self, occasion: Occasion, what: What) {
        self.notes.push(Note::Fact { occasion, what });
    }

    /// A plugin without a say. Of ends and of what has happened a plugin that is silent misses
    /// many: those would only push out what counts.
    pub(crate) fn failed(&mut self, asked: Exchange<'_>, cause: &Cause) {
        let is_passed_over = matches!(cause, Cause::PassedOver(_) | Cause::CatchingUp);
        if (is_passed_over || matches!(cause, Cause::CutShort)) && !asked.request.event().can_be_vetoed() {
            return;
        }
        let mut occasion = self.occasion(asked);
        occasion.took = occasion.took.filter(|_| !is_passed_over);
        self.fact(occasion, cause.into());
    }

    /// All of one request share its ids.
    fn occasion(&mut self, Exchange { plugin, mode, request, took }: Exchange<'_>) -> Occasion {
        let (pod, container) = self.about.get_or_insert_with(|| ids(request.pod(), request.container())).clone();
        Occasion {
            took: Some(took),
            shadow: mode == Mode::Shadow,
            ..occasion_about(plugin.clone().into(), request.event(), pod, container)
        }
    }

    /// The request came to something.
    pub(crate) fn came_true(&mut self) {
        self.write(false);
    }

    fn write(&mut self, in_vain: bool) {
        if self.notes.is_empty() {
            return;
        }
        let mut ledger = self.records.ledger();
        for note in self.notes.drain(..) {
            match note {
                Note::Reply { mut occasion, applied, evictions } => {
                    occasion.in_vain = in_vain;
                    ledger.record_applied(&occasion, applied);
                    ledger.record_evictions(&occasion, &evictions);
                }
                Note::Fact { occasion, what } => ledger.record(&occasion, what),
            }
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.write(true);
    }
}

impl From<&Refusal> for What {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NotAllowed(not_allowed) => Self::NotAllowed(not_allowed.clone()),
            Refusal::Conflict(conflict) => Self::Conflict(conflict.clone()),
        }
    }
}

/// One that is no plugin, or not there.
pub(crate) fn occasion_of(plugin: Arc<str>, event: Event, pod: &Pod, container: Option<&Container>) -> Occasion {
    let (pod, container) = ids(pod, container);
    occasion_about(plugin, event, pod, container)
}

fn ids(pod: &Pod, container: Option<&Container>) -> (Arc<str>, Option<Arc<str>>) {
    (pod.id.as_str().into(), container.map(|container| container.id.as_str().into()))
}

fn occasion_about(plugin: Arc<str>, event: Event, pod: Arc<str>, container: Option<Arc<str>>) -> Occasion {
    Occasion {
        when: SystemTime::now(),
        plugin,
        event: Some(event),
        pod: Some(pod),
        container,
        took: None,
        shadow: false,
        in_vain: false,
    }
}

/// A plugin that nobody asked.
pub(crate) fn unasked(plugin: &PluginId, mode: Mode) -> Occasion {
    Occasion {
        when: SystemTime::now(),
        plugin: plugin.clone().into(),
        event: None,
        pod: None,
        container: None,
        took: None,
        shadow: mode == Mode::Shadow,
        in_vain: false,
    }
}

/// What a plugin asks to be stopped.
pub(crate) fn evictions(reply: &Reply) -> &[Eviction] {
    match reply {
        Reply::Create(reply) => &reply.evictions,
        Reply::Update(reply) => &reply.evictions,
        Reply::Heard | Reply::Stop(_) | Reply::Verdict(_) => &[],
    }
}

/// What a reply wants of the container that is created, and of those that are there.
fn wanted(reply: &Reply) -> (Option<&Adjustment>, &[Update]) {
    match reply {
        Reply::Create(reply) => (reply.adjustment.as_ref(), &reply.updates),
        Reply::Update(reply) => (None, &reply.updates),
        Reply::Stop(reply) => (None, &reply.updates),
        Reply::Heard | Reply::Verdict(_) => (None, &[]),
    }
}
