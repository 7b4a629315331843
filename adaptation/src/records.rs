//! What is written into the ledger, and when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nri_proto::{Container, Event, Eviction, PluginId, Pod, Update};

use crate::cause::Cause;
use crate::chain::gates;
use crate::entry::Entry;
use crate::ledger::{Ledger, Occasion, What};
use crate::merge::{Applied, StopMerge, Touch};
use crate::plugin::Reply;
use crate::policy::Mode;
use crate::question::Refusal;
use crate::request::Request;

/// The ledger of one adaptation.
pub(crate) struct Records(Mutex<Ledger>);

impl Records {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Mutex::new(Ledger::new(limit)))
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reply that counts, or would count if its plugin were not on trial.
    pub(crate) fn applied(&self, occasion: impl FnOnce() -> Occasion, applied: Applied, evictions: &[Eviction]) {
        if applied == Applied::default() && evictions.is_empty() {
            return;
        }
        let occasion = occasion();
        let mut ledger = self.ledger();
        ledger.record_applied(&occasion, applied);
        ledger.record_evictions(&occasion, evictions);
    }

    /// A reply that does not count.
    pub(crate) fn refused(&self, occasion: &Occasion, refusal: &Refusal) {
        let what = match refusal {
            Refusal::NotAllowed(not_allowed) => What::NotAllowed(not_allowed.clone()),
            Refusal::Conflict(conflict) => What::Conflict(conflict.clone()),
        };
        self.ledger().record(occasion, what);
    }

    /// A plugin without a say. Of ends and of what has happened a plugin that is silent misses many: those would only
    /// push out what counts.
    pub(crate) fn failed(&self, entry: &Entry, request: &Request, took: Duration, cause: &Cause) {
        if matches!(cause, Cause::PassedOver(_)) && !gates(request.event()) {
            return;
        }
        let took = (!matches!(cause, Cause::PassedOver(_))).then_some(took);
        self.ledger().record(&occasion(entry, request, took), cause.into());
    }

    /// An answer that came when nobody waited for it any more.
    pub(crate) fn late(&self, entry: &Entry, request: &Request, took: Duration, reply: &Reply) {
        self.ledger().record(&occasion(entry, request, Some(took)), What::late(touches(reply)));
    }

    /// Updates and evictions that a plugin asks for by itself.
    pub(crate) fn unasked(&self, occasion: &Occasion, plugin: &PluginId, updates: Vec<Update>, evictions: &[Eviction]) {
        let reply = nri_proto::StopReply { updates, ..Default::default() };
        // One that contradicts itself is made as the runtime likes.
        let applied = StopMerge::new().apply(plugin, reply).unwrap_or_default();
        let mut ledger = self.ledger();
        ledger.record_applied(occasion, applied);
        ledger.record_evictions(occasion, evictions);
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

/// A plugin that was asked something.
pub(crate) fn occasion(entry: &Entry, request: &Request, took: Option<Duration>) -> Occasion {
    let shadow = entry.policy.mode == Mode::Shadow;
    Occasion {
        took,
        shadow,
        ..occasion_of(entry.id.clone().into(), request.event(), request.pod(), request.container())
    }
}

/// One that is no plugin, or not there.
pub(crate) fn occasion_of(plugin: Arc<str>, event: Event, pod: &Pod, container: Option<&Container>) -> Occasion {
    Occasion {
        when: SystemTime::now(),
        plugin,
        event: Some(event),
        pod: Some(pod.id.as_str().into()),
        container: container.map(|container| container.id.as_str().into()),
        took: None,
        shadow: false,
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

fn touches(reply: &Reply) -> Vec<Touch<'_>> {
    let (adjustment, updates) = match reply {
        Reply::Create(reply) => (reply.adjustment.as_ref(), &*reply.updates),
        Reply::Update(reply) => (None, &*reply.updates),
        Reply::Stop(reply) => (None, &*reply.updates),
        Reply::Heard | Reply::Verdict(_) => (None, &[][..]),
    };
    let adjusted = adjustment.map(Touch::of_adjustment).unwrap_or_default();
    adjusted.into_iter().chain(updates.iter().flat_map(Touch::of_update)).collect()
}
