//! What a plugin answers to a question that was asked late: the request has long been decided.

use std::sync::Arc;

use nri_proto::{CreateReply, StopReply, TakeUnknown, Unread, Update, UpdateReply};

use crate::entry::Entry;
use crate::ledger::What;
use crate::merge::Touch;
use crate::plugin::Reply;
use crate::policy::{NotAllowed, Policy};
use crate::records;
use crate::request::Request;
use crate::terms::Terms;
use crate::unasked::Unasked;

/// Has the runtime make what of a late answer can still be made: limits, those of others too, and evictions. The rest is
/// recorded as too late.
pub(crate) async fn take(entry: &Arc<Entry>, terms: &Terms, request: &Request, mut reply: Reply) {
    let shared = &entry.shared;
    shared.records.unread(&records::occasion(entry, terms, request, None), take_unread(&mut reply));
    shared.watchers.metrics().adjustments(&entry.id, request.event().rpc(), &reply);
    let container = request.container().map(|container| &*container.id).unwrap_or_default();
    if let Err(not_allowed) = check(terms.policy(), container, &reply) {
        shared.records.refused(&records::occasion(entry, terms, request, None), &not_allowed.into());
        return;
    }
    let (wanted, rest) = split(container, reply);
    if let Some(CreateReply { adjustment: Some(adjustment), .. }) = &rest {
        let touches = Touch::of_adjustment(adjustment);
        if !touches.is_empty() {
            let occasion = records::occasion(entry, terms, request, None);
            shared.records.ledger().record(&occasion, What::late(touches));
        }
    }
    if !wanted.updates.is_empty() || !wanted.evictions.is_empty() {
        // What fails of it is logged and recorded.
        let _ = wanted.apply_allowed(shared, &entry.id, terms.policy()).await;
    }
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
fn check(policy: &Policy, container: &str, reply: &Reply) -> Result<(), NotAllowed> {
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
