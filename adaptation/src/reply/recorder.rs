//! Writes the ledger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nri_proto::{Adjustment, Container, Event, Eviction, PluginId, Pod, Unread, Update};

use crate::api::error::Cause;
use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::config::policy::{Mode, NotAllowed};
use crate::ledger::{EntryKind, Ledger, Occasion};
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

    /// Records a request of a plugin's own, or a late reply, that its policy does not permit.
    pub(crate) fn refused(&self, occasion: &Occasion, refusal: &Refusal) {
        self.ledger().record(occasion, refusal.into());
    }

    /// Records the fields of a reply that could not be read.
    pub(crate) fn unread(&self, occasion: &Occasion, unread: Vec<Unread>) {
        if !unread.is_empty() {
            let dropped = unread.into_iter().map(Dropped::Unread).collect();
            self.ledger().record_applied(occasion, Applied { dropped, ..Applied::default() });
        }
    }

    /// Records a reply that came too late to be applied, with the fields that it would have changed
    /// in the container of the request and in other containers.
    pub(crate) fn late(&self, occasion: &Occasion, reply: &Reply) {
        let (adjustment, updates) = wanted(reply);
        let (own, others): (Vec<_>, Vec<_>) =
            updates.iter().partition(|update| occasion.container.as_deref() == Some(&*update.container_id));
        let adjusted = adjustment.map(Touch::of_adjustment).unwrap_or_default();
        let touches = adjusted.into_iter().chain(own.into_iter().flat_map(Touch::of_update));
        self.ledger().record(occasion, EntryKind::late(touches));
        for update in others {
            let of_other = occasion.of_container(&update.container_id);
            self.ledger().record(&of_other, EntryKind::late(Touch::of_update(update)));
        }
        evictions(reply).iter().for_each(|eviction| self.evicted_too_late(occasion, eviction));
    }

    /// Records an eviction that came too late to be applied.
    pub(crate) fn evicted_too_late(&self, occasion: &Occasion, eviction: &Eviction) {
        let reason = "the plugin asked for it too late".to_owned();
        self.ledger().record(&occasion.of_container(&eviction.container_id), EntryKind::EvictionFailed { reason });
    }

    /// Records that a request failed for a plugin, after the request was decided without the
    /// plugin.
    pub(crate) fn failed(&self, occasion: &Occasion, cause: &Cause) {
        self.ledger().record(occasion, cause.into());
    }

    /// Records updates and evictions that a plugin asked for outside a request.
    pub(crate) fn unasked(&self, occasion: &Occasion, plugin: &PluginId, updates: Vec<Update>, evictions: &[Eviction]) {
        for update in updates {
            let reply = nri_proto::StopReply { updates: vec![update], ..Default::default() };
            // An update that sets one thing twice is left to the runtime: no change is recorded for
            // it.
            let applied = StopMerge::new().apply(plugin, reply).unwrap_or_default();
            // The lock is released between updates, because there may be many.
            self.ledger().record_applied(occasion, applied);
        }
        self.ledger().record_evictions(occasion, evictions);
    }

    /// Records updates of a plugin that the runtime could not apply.
    pub(crate) fn undone(&self, occasion: &Occasion, failed: &[Update]) {
        let mut ledger = self.ledger();
        for Update { container_id, .. } in failed {
            let reason = "the runtime could not apply the update".to_owned();
            ledger.record(&occasion.of_container(container_id), EntryKind::UpdateFailed { reason });
        }
    }
}

/// A record that is written when the outcome of the request is known.
enum PendingRecord {
    /// A reply, and the changes that it made.
    Reply { occasion: Occasion, applied: Applied, evictions: Vec<Eviction> },
    /// A fact that does not depend on the outcome of the request.
    Fact { occasion: Occasion, what: EntryKind },
}

/// One request to one plugin, with the time that the plugin took.
#[derive(Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) plugin: &'a PluginId,
    /// The mode of the plugin. In shadow mode, replies are not applied.
    pub(crate) mode: Mode,
    pub(crate) request: &'a Request,
    pub(crate) took: Duration,
}

/// The records of one request, in the order of the plugins. They are written at the end. Unless
/// [`came_true`](RequestRecord::came_true) is called, the changes of replies are marked as
/// discarded (`in_vain`).
pub(crate) struct RequestRecord {
    records: Arc<Records>,
    notes: Vec<PendingRecord>,
    /// The ids of the pod and the container of the request, once they are needed.
    about: Option<(Arc<str>, Option<Arc<str>>)>,
}

impl RequestRecord {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self { records, notes: Vec::new(), about: None }
    }

    /// Notes a reply that was applied, or that would have been applied outside shadow mode.
    pub(crate) fn reply(&mut self, answered: Exchange<'_>, applied: Applied, evictions: Vec<Eviction>) {
        if applied != Applied::default() || !evictions.is_empty() {
            let occasion = self.occasion(answered);
            self.notes.push(PendingRecord::Reply { occasion, applied, evictions });
        }
    }

    /// Notes a reply that was refused.
    pub(crate) fn refused(&mut self, answered: Exchange<'_>, refusal: &Refusal) {
        let occasion = self.occasion(answered);
        self.fact(occasion, refusal.into());
    }

    /// Notes what a reply wants to do to containers in pods that the plugin may not see.
    pub(crate) fn hidden<'c>(&mut self, answered: Exchange<'_>, refusals: impl Iterator<Item = (&'c str, NotAllowed)>) {
        let occasion = self.occasion(answered);
        for (container, refusal) in refusals {
            self.fact(occasion.of_container(container), EntryKind::NotAllowed(refusal));
        }
    }

    /// Notes a fact that does not depend on the outcome of the request.
    pub(crate) fn fact(&mut self, occasion: Occasion, what: EntryKind) {
        self.notes.push(PendingRecord::Fact { occasion, what });
    }

    /// Notes why the request to a plugin failed. A skipped plugin is noted only for events that
    /// plugins can veto: a silent plugin misses many other events, and their entries would displace
    /// useful ones.
    pub(crate) fn failed(&mut self, asked: Exchange<'_>, cause: &Cause) {
        let is_passed_over = matches!(cause, Cause::PassedOver(_) | Cause::CatchingUp);
        if (is_passed_over || matches!(cause, Cause::CutShort)) && !asked.request.event().can_be_vetoed() {
            return;
        }
        let mut occasion = self.occasion(asked);
        occasion.took = occasion.took.filter(|_| !is_passed_over);
        self.fact(occasion, cause.into());
    }

    /// Returns the occasion of an exchange. The occasions of one request share its ids.
    fn occasion(&mut self, Exchange { plugin, mode, request, took }: Exchange<'_>) -> Occasion {
        let (pod, container) = self.about.get_or_insert_with(|| ids(request.pod(), request.container())).clone();
        Occasion {
            took: Some(took),
            shadow: mode == Mode::Shadow,
            ..occasion_about(plugin.clone().into(), request.event(), pod, container)
        }
    }

    /// Writes the records of a request that succeeded.
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
                PendingRecord::Reply { mut occasion, applied, evictions } => {
                    occasion.in_vain = in_vain;
                    ledger.record_applied(&occasion, applied);
                    ledger.record_evictions(&occasion, &evictions);
                }
                PendingRecord::Fact { occasion, what } => ledger.record(&occasion, what),
            }
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.write(true);
    }
}

impl From<&Refusal> for EntryKind {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NotAllowed(not_allowed) => Self::NotAllowed(not_allowed.clone()),
            Refusal::Conflict(conflict) => Self::Conflict(conflict.clone()),
        }
    }
}

/// Returns the occasion for a plugin that is absent, or for the default validator.
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

/// Returns the occasion for something that a plugin does outside a request.
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

/// Returns the evictions that a reply asks for.
pub(crate) fn evictions(reply: &Reply) -> &[Eviction] {
    match reply {
        Reply::Create(reply) => &reply.evictions,
        Reply::Update(reply) => &reply.evictions,
        Reply::Heard | Reply::Stop(_) | Reply::Verdict(_) => &[],
    }
}

/// Returns the adjustment in a reply, and the updates of existing containers.
fn wanted(reply: &Reply) -> (Option<&Adjustment>, &[Update]) {
    match reply {
        Reply::Create(reply) => (reply.adjustment.as_ref(), &reply.updates),
        Reply::Update(reply) => (None, &reply.updates),
        Reply::Stop(reply) => (None, &reply.updates),
        Reply::Heard | Reply::Verdict(_) => (None, &[]),
    }
}
