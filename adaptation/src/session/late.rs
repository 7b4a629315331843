//! Late answers of plugins. A late answer belongs to a request that was decided without the plugin,
//! because the plugin did not answer in time, or received the request from its journal.
//!
//! Parts of such an answer can still be applied as an update: limits of the container, updates of
//! other containers, and evictions. A late answer waits until the operation of its request has
//! ended. If the runtime has committed the operation, these parts are applied, and the rest is
//! recorded as too late. If the request failed, nothing of the answer is applied.
//!
//! Changes that others have made since the request are looked up when the runtime is asked to apply
//! the answer. The order between the answer and an update that is made at the same time is up to
//! the runtime.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{CreateReply, Event, Eviction, StopReply, TakeUnknown, Unread, Update, UpdateReply, api};
use protobuf::Message;

use crate::api::operation::OperationOutcome;
use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::config::policy::{Mode, NotAllowed, Policy};
use crate::ledger::{EntryKind, Occasion};
use crate::merge::{Touch, resources};
use crate::mistake::Mistake;
use crate::reply::update_log::LateReply;
use crate::session::PluginSession;
use crate::session::open_operation::OpenOperation;
use crate::session::policy::PluginPolicy;
use crate::session::unsolicited::UnsolicitedChanges;

/// The approximate ratio of the size of an answer in memory to its size on the wire.
const IN_MEMORY: usize = 2;

/// An answer that came too late for its request.
pub(crate) struct LateAnswer {
    pub(crate) entry: Arc<PluginSession>,
    /// The policy under which the plugin was asked.
    pub(crate) terms: Arc<PluginPolicy>,
    pub(crate) request: Arc<Request>,
    /// The operation of the request. `None` if the request was delivered from the journal.
    pub(crate) operation: Option<Arc<dyn OpenOperation>>,
    /// The time that the plugin took. `None` if the request was delivered from the journal.
    pub(crate) took: Option<Duration>,
    /// The place of the answer among everything that the plugin asks for.
    pub(crate) arrived: u64,
    pub(crate) reply: Reply,
}

impl LateAnswer {
    /// Spawns a task that applies the answer, as far as possible, after the operation of the
    /// request has ended. If there is no room to keep the answer until then, the answer is only
    /// recorded.
    pub(crate) fn apply_later(self) {
        if Mistake::LateAnswerLost.is_injected() {
            return self.record();
        }
        match self.reserve().filter(|_| self.is_asking()) {
            Some(room) => self.spawn(room),
            None => self.record(),
        }
    }

    /// Like [`LateAnswer::apply_later`], for an answer to a request that was delivered from the
    /// journal. If there is no room to keep the answer, it is applied before this function returns.
    pub(crate) async fn apply_soon(self) {
        if !self.is_asking() {
            return;
        }
        match self.reserve() {
            Some(room) => self.spawn(room),
            None => self.apply_when_ended().await,
        }
    }

    /// Returns whether the answer is of a kind that can ask for changes.
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
        // The container has stopped, whether or not the request and its operation succeed.
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
            // Delivered from the journal: the operation has ended, or is overdue.
            None => self.request.decision().outcome(),
        };
        if outcome == Some(OperationOutcome::Committed) && has_gone_on() == Some(true) {
            return self.apply().await;
        }
        self.record();
    }

    /// Has the runtime apply the parts that can still be applied, after earlier late answers of the
    /// plugin.
    async fn apply(mut self) {
        let Some(_turn) = self.entry.turn_to_apply().await else { return self.record() };
        let services = &self.entry.services;
        // The answer is applied now, so the current policy of the plugin has to allow it, too.
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
                services.records.ledger().record(&occasion, EntryKind::late(touches));
            }
        }
        // The container may have been removed since, and another container may have its id. The
        // plugin may have left, too; the policy of its session is then the one at the time when it
        // left, so `policy` was looked up again.
        wanted.take_hidden(services, &self.entry.id, [self.terms.policy(), &policy], &occasion).await;
        wanted.updates.retain_mut(|update| self.is_still_wanted(update, &occasion));
        wanted.evictions.retain(|eviction| self.is_still_to_go(eviction, &occasion));
        if !wanted.updates.is_empty() || !wanted.evictions.is_empty() {
            // Failures are logged and recorded.
            let _ = wanted.apply_allowed(services, &self.entry.id, &policy, self.arrived).await;
        }
    }

    /// Takes the fields that others have decided since the request out of an update, and records
    /// them as too late. Returns false if nothing is left of the update.
    fn is_still_wanted(&self, update: &mut Update, occasion: &Occasion) -> bool {
        let Self { entry, request, .. } = self;
        let (decision, id) = (request.decision(), &entry.id);
        let occasion = occasion.of_container(&update.container_id);
        let record =
            |touches: Vec<Touch<'_>>| entry.services.records.ledger().record(&occasion, EntryKind::late(touches));
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

    /// Returns whether an eviction is still valid, because nobody has updated or removed the
    /// container since. Otherwise records the eviction as too late.
    fn is_still_to_go(&self, eviction: &Eviction, occasion: &Occasion) -> bool {
        let is_updated = self.is_updated_since(&eviction.container_id);
        if is_updated {
            self.entry.services.records.evicted_too_late(occasion, eviction);
        }
        !is_updated
    }

    /// Returns whether a container was removed since the request was made, or updated by another
    /// operation or plugin. An update for something that this plugin asked for after this answer
    /// counts, too.
    fn is_updated_since(&self, container: &str) -> bool {
        let Self { entry, request, arrived, .. } = self;
        let decision = request.decision();
        let asked =
            LateReply { operation: decision.operation, since: decision.since(), plugin: &entry.id, arrived: *arrived };
        entry.services.update_log.is_updated_since(container, asked)
    }

    /// Records in the ledger what the answer would have changed, without applying it.
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

/// The bytes reserved for a late answer in the journal of its plugin.
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

/// Returns how many bytes an answer takes in memory, approximately.
fn size(reply: &Reply) -> usize {
    let on_the_wire = match reply {
        Reply::Create(reply) => api::CreateContainerResponse::from(CreateReply::clone(reply)).compute_size(),
        Reply::Update(reply) => api::UpdateContainerResponse::from(reply.clone()).compute_size(),
        Reply::Stop(reply) => api::StopContainerResponse::from(reply.clone()).compute_size(),
        Reply::Heard | Reply::Verdict(_) => 0,
    };
    IN_MEMORY * usize::try_from(on_the_wire).unwrap_or(usize::MAX / IN_MEMORY)
}

/// Takes the unknown fields out of an answer: they can neither be claimed nor forbidden.
pub(crate) fn take_unread(reply: &mut Reply) -> Vec<Unread> {
    match reply {
        Reply::Create(reply) => reply.take_unknown(),
        Reply::Update(reply) => reply.take_unknown(),
        Reply::Stop(reply) => reply.take_unknown(),
        Reply::Heard | Reply::Verdict(_) => Vec::new(),
    }
}

/// Checks that a policy allows everything that an answer asks for, by the rules of the kind of
/// answer.
pub(crate) fn check(policy: &Policy, container: &str, reply: &Reply) -> Result<(), NotAllowed> {
    let allow = &policy.allow;
    match reply {
        Reply::Create(reply) => allow.check_create(reply),
        Reply::Update(reply) => allow.check_update(reply, container),
        Reply::Stop(reply) => allow.check_stop(reply),
        Reply::Heard | Reply::Verdict(_) => Ok(()),
    }
}

/// Splits an answer into the updates and evictions that can still be applied, and the reply to a
/// create whose other parts cannot.
fn split(container: &str, reply: Reply) -> (UnsolicitedChanges, Option<CreateReply>) {
    match reply {
        Reply::Create(mut reply) => {
            let resources =
                reply.adjustment.as_mut().and_then(|adjustment| adjustment.linux.as_mut()?.resources.take());
            let own = resources.map(|resources| Update { ignore_failure: true, ..Update::new(container, resources) });
            let updates = own.into_iter().chain(std::mem::take(&mut reply.updates)).collect();
            let evictions = std::mem::take(&mut reply.evictions);
            (UnsolicitedChanges { updates, evictions }, Some(*reply))
        }
        Reply::Update(UpdateReply { updates, evictions, unknown: _ }) => {
            (UnsolicitedChanges { updates, evictions }, None)
        }
        Reply::Stop(StopReply { updates, unknown: _ }) => (UnsolicitedChanges::updates(updates), None),
        Reply::Heard | Reply::Verdict(_) => (UnsolicitedChanges::updates(Vec::new()), None),
    }
}
