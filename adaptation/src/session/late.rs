//! What a plugin answers too late: to a request that has been decided without the plugin, because
//! the plugin did not answer in time, or was asked late.
//!
//! A request that went on without the plugin may still be changed by an update of what there is
//! now: limits of the container, updates of others, and evictions. So a late answer waits until the
//! operation of its request has ended. If the runtime has committed the operation, what can still
//! be applied is applied; the rest is recorded as too late. If the request failed, nothing of its
//! answer is applied.
//!
//! What others have updated since is looked up when the runtime is asked to apply the answer. An
//! update that is made while the runtime does so is made before or after it, as the runtime likes.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{CreateReply, Event, Eviction, StopReply, TakeUnknown, Unread, Update, UpdateReply, api};
use protobuf::Message;

use crate::api::operation::OperationOutcome;
use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::config::policy::{Mode, NotAllowed, Policy};
use crate::ledger::{Occasion, What};
use crate::merge::{Touch, resources};
use crate::reply::update_log::LateReply;
use crate::session::PluginSession;
use crate::session::faults::Mistake;
use crate::session::open_operation::OpenOperation;
use crate::session::policy::PluginPolicy;
use crate::session::unsolicited::Unasked;

/// How many times as much as on the wire an answer takes in memory, roughly.
const IN_MEMORY: usize = 2;

/// An answer that came too late for its request.
pub(crate) struct LateAnswer {
    pub(crate) entry: Arc<PluginSession>,
    /// The terms on which the plugin was asked.
    pub(crate) terms: Arc<PluginPolicy>,
    pub(crate) request: Arc<Request>,
    /// The operation of the request, unless that has ended.
    pub(crate) operation: Option<Arc<dyn OpenOperation>>,
    /// How long the plugin took.
    pub(crate) took: Option<Duration>,
    /// The place of the answer among all that the plugin asks for.
    pub(crate) arrived: u64,
    pub(crate) reply: Reply,
}

impl LateAnswer {
    /// Applies what can still be applied, in a task, when the operation of the request has ended.
    /// An answer that there is no room for until then is only recorded.
    pub(crate) fn apply_later(self) {
        if self.entry.services.makes(Mistake::LateAnswerLost) {
            return self.record();
        }
        match self.reserve().filter(|_| self.is_asking()) {
            Some(room) => self.spawn(room),
            None => self.record(),
        }
    }

    /// Like [`LateAnswer::apply_later`], for an answer to a request that was asked late: without
    /// room it is applied before this returns.
    pub(crate) async fn apply_soon(self) {
        if !self.is_asking() {
            return;
        }
        match self.reserve() {
            Some(room) => self.spawn(room),
            None => self.apply_when_ended().await,
        }
    }

    /// Whether the answer can ask for anything.
    fn is_asking(&self) -> bool {
        !matches!(self.reply, Reply::Heard | Reply::Verdict(_))
    }

    fn spawn(self, room: JournalRoom) {
        let services = Arc::clone(&self.entry.services);
        services.spawn(async move {
            self.apply_when_ended().await;
            drop(room);
        });
    }

    async fn apply_when_ended(self) {
        let stopping = &self.entry.services.stopping;
        if self.terms.policy().mode == Mode::Shadow {
            return self.record();
        }
        // The container has stopped, whatever comes of the request and its operation.
        if self.request.event() == Event::StopContainer {
            stopping.run_until_cancelled(self.request.decision().until_decided()).await;
            return self.apply().await;
        }
        let has_gone_on = || self.request.decision().has_gone_on();
        if has_gone_on() == Some(false) {
            return self.record();
        }
        let outcome = match &self.operation {
            Some(operation) => stopping.run_until_cancelled(operation.outcome()).await.flatten(),
            // Asked late: it has ended, or is open for too long.
            None => self.request.decision().outcome(),
        };
        if outcome == Some(OperationOutcome::Committed) && has_gone_on() == Some(true) {
            return self.apply().await;
        }
        self.record();
    }

    /// Has the runtime make what can still be made, behind earlier late answers of the plugin.
    async fn apply(mut self) {
        let Some(_turn) = self.entry.turn_to_apply().await else { return self.record() };
        let services = &self.entry.services;
        // What the operator says now holds, too: the answer is applied now.
        let policy = match services.policy_now(&self.entry.id, self.entry.identity) {
            Ok(policy) if policy.mode == Mode::Enforce => policy,
            Ok(_) | Err(_) => return self.record(),
        };
        let occasion = self.occasion();
        services.records.unread(&occasion, take_unread(&mut self.reply));
        services.watchers.metrics().adjustments(&self.entry.id, self.request.event().rpc(), &self.reply);
        let container = self.request.container().map(|container| &*container.id).unwrap_or_default();
        let is_allowed = |policy: &Policy| check(policy, container, &self.reply);
        if let Err(not_allowed) = is_allowed(self.terms.policy()).and_then(|()| is_allowed(&policy)) {
            services.records.refused(&occasion, &not_allowed.into());
            return;
        }
        let (mut wanted, rest) = split(container, std::mem::replace(&mut self.reply, Reply::Heard));
        if let Some(CreateReply { adjustment: Some(adjustment), .. }) = &rest {
            let touches = Touch::of_adjustment(adjustment);
            if !touches.is_empty() {
                services.records.ledger().record(&occasion, What::late(touches));
            }
        }
        // The container itself may have gone since, and another one may have its id. So may the
        // plugin, whose own terms are then as they were when it left.
        wanted.take_hidden(services, &self.entry.id, [self.terms.policy(), &policy], &occasion).await;
        wanted.updates.retain_mut(|update| self.is_still_wanted(update, &occasion));
        wanted.evictions.retain(|eviction| self.is_still_to_go(eviction, &occasion));
        if !wanted.updates.is_empty() || !wanted.evictions.is_empty() {
            // What fails of it is logged and recorded.
            let _ = wanted.apply_allowed(services, &self.entry.id, &policy, self.arrived).await;
        }
    }

    /// Takes out of an update what others have decided since the request was made. False if nothing
    /// is left of it. What is taken out is recorded as too late.
    fn is_still_wanted(&self, update: &mut Update, occasion: &Occasion) -> bool {
        let Self { entry, request, .. } = self;
        let (decision, id) = (request.decision(), &entry.id);
        let occasion = occasion.of_container(&update.container_id);
        let record = |touches: Vec<Touch<'_>>| entry.services.records.ledger().record(&occasion, What::late(touches));
        if self.is_updated_since(&update.container_id) {
            record(Touch::of_update(update));
            return false;
        }
        let is_claimed = |field, key: &str| decision.is_claimed_from(id, &update.container_id, field, key);
        let mut claimed = Touch::of_update(update);
        claimed.retain(|touch| is_claimed(touch.field, touch.key));
        if claimed.is_empty() {
            return true;
        }
        record(claimed);
        let mut left = update.linux.take();
        if let Some(resources) = left.as_mut().and_then(|linux| linux.resources.as_mut()) {
            resources::retain(resources, |field, key| !is_claimed(field, key));
        }
        update.linux = left;
        !Touch::of_update(update).is_empty()
    }

    /// Whether a container is still to be stopped: nobody has updated it since. Otherwise that is
    /// recorded.
    fn is_still_to_go(&self, eviction: &Eviction, occasion: &Occasion) -> bool {
        let is_updated = self.is_updated_since(&eviction.container_id);
        if is_updated {
            self.entry.services.records.evicted_too_late(occasion, eviction);
        }
        !is_updated
    }

    /// Whether a container was updated or removed since the request was made, but for what this
    /// very plugin did.
    fn is_updated_since(&self, container: &str) -> bool {
        let Self { entry, request, arrived, .. } = self;
        let decision = request.decision();
        let asked =
            LateReply { operation: decision.operation, since: decision.since(), plugin: &entry.id, arrived: *arrived };
        entry.services.update_log.is_updated_since(container, asked)
    }

    /// Records what the answer would have changed.
    fn record(&self) {
        let Self { entry, terms, request, took, reply, .. } = self;
        entry.services.records.late(&entry.occasion(terms, request, Some(took.unwrap_or_default())), reply);
    }

    fn occasion(&self) -> Occasion {
        self.entry.occasion(&self.terms, &self.request, self.took)
    }

    fn reserve(&self) -> Option<JournalRoom> {
        JournalRoom::for_answer(&self.entry, size(&self.reply))
    }
}

/// The share of a late answer in the bytes that are kept for its plugin.
struct JournalRoom {
    entry: Arc<PluginSession>,
    bytes: usize,
}

impl JournalRoom {
    fn for_answer(entry: &Arc<PluginSession>, bytes: usize) -> Option<Self> {
        entry.reserve(bytes).then(|| Self { entry: Arc::clone(entry), bytes })
    }
}

impl Drop for JournalRoom {
    fn drop(&mut self) {
        self.entry.release(self.bytes);
    }
}

/// Returns how many bytes an answer takes, roughly.
fn size(reply: &Reply) -> usize {
    let on_the_wire = match reply {
        Reply::Create(reply) => api::CreateContainerResponse::from(CreateReply::clone(reply)).compute_size(),
        Reply::Update(reply) => api::UpdateContainerResponse::from(reply.clone()).compute_size(),
        Reply::Stop(reply) => api::StopContainerResponse::from(reply.clone()).compute_size(),
        Reply::Heard | Reply::Verdict(_) => 0,
    };
    IN_MEMORY * usize::try_from(on_the_wire).unwrap_or(usize::MAX / IN_MEMORY)
}

/// Takes out what nobody could claim or forbid.
pub(crate) fn take_unread(reply: &mut Reply) -> Vec<Unread> {
    match reply {
        Reply::Create(reply) => reply.take_unknown(),
        Reply::Update(reply) => reply.take_unknown(),
        Reply::Stop(reply) => reply.take_unknown(),
        Reply::Heard | Reply::Verdict(_) => Vec::new(),
    }
}

/// Whether the plugin may have what it wants, by the rules of the question.
pub(crate) fn check(policy: &Policy, container: &str, reply: &Reply) -> Result<(), NotAllowed> {
    let allow = &policy.allow;
    match reply {
        Reply::Create(reply) => allow.check_create(reply),
        Reply::Update(reply) => allow.check_update(reply, container),
        Reply::Stop(reply) => allow.check_stop(reply),
        Reply::Heard | Reply::Verdict(_) => Ok(()),
    }
}

/// What can still be made, and what cannot.
fn split(container: &str, reply: Reply) -> (Unasked, Option<CreateReply>) {
    match reply {
        Reply::Create(mut reply) => {
            let resources =
                reply.adjustment.as_mut().and_then(|adjustment| adjustment.linux.as_mut()?.resources.take());
            let own = resources.map(|resources| Update { ignore_failure: true, ..Update::new(container, resources) });
            let updates = own.into_iter().chain(std::mem::take(&mut reply.updates)).collect();
            let evictions = std::mem::take(&mut reply.evictions);
            (Unasked { updates, evictions }, Some(*reply))
        }
        Reply::Update(UpdateReply { updates, evictions, unknown: _ }) => (Unasked { updates, evictions }, None),
        Reply::Stop(StopReply { updates, unknown: _ }) => (Unasked::updates(updates), None),
        Reply::Heard | Reply::Verdict(_) => (Unasked::updates(Vec::new()), None),
    }
}
