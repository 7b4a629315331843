//! Merges replies without plugins.

use anyhow::{Context, Result, bail};
use nri_adaptation::merge::{Applied, AskedEviction, CreateMerge, MergeError, StopMerge, UpdateMerge};
use nri_proto::{PluginId, Resources, Update, api};
use protobuf::Message;

use crate::protocol::{Encoded, Merge, Reply, Request};

/// Merges the replies in a request. A conflict is a result; unreadable input is an error.
pub(crate) fn merge(request: &Request) -> Result<Merge> {
    match request.op.as_str() {
        "CreateContainer" => create(request),
        "UpdateContainer" => update(request),
        "StopContainer" => stop(request),
        other => bail!("op {other:?} has nothing to merge"),
    }
}

fn create(request: &Request) -> Result<Merge> {
    let mut asked: api::CreateContainerRequest = request.request_b64.decode().context("request")?;
    let mut merge = CreateMerge::new(asked.container.take().unwrap_or_default().into());
    let (outcome, seen_b64) = apply(request, |plugin, reply: api::CreateContainerResponse| {
        asked.container = Some(merge.view().clone().into()).into();
        (Encoded::of(&asked), merge.apply(plugin, reply.into()))
    })?;
    let done = merge.finish();
    let response = api::CreateContainerResponse {
        adjust: Some(done.adjustment.into()).into(),
        update: updates(done.updates),
        evict: evictions(done.evictions),
        ..Default::default()
    };
    Ok(end(outcome, &response, Encoded::of(&api::OwningPlugins::from(done.owners)), seen_b64))
}

/// Merges replies to an update. As in Go's response, the container's own update is the last one.
/// There is none if no plugin has changed it.
fn update(request: &Request) -> Result<Merge> {
    let mut asked: api::UpdateContainerRequest = request.request_b64.decode().context("request")?;
    let requested = asked.linux_resources.take().map(Resources::from).unwrap_or_default();
    let mut merge = UpdateMerge::new(id(asked.container.as_ref()), requested);
    let (outcome, seen_b64) = apply(request, |plugin, reply: api::UpdateContainerResponse| {
        asked.linux_resources = Some(merge.view().clone().into()).into();
        (Encoded::of(&asked), merge.apply(plugin, reply.into()))
    })?;
    let done = merge.finish();
    let response = api::UpdateContainerResponse {
        update: updates(done.others.into_iter().chain(done.own)),
        evict: evictions(done.evictions),
        ..Default::default()
    };
    Ok(end(outcome, &response, Encoded::default(), seen_b64))
}

fn stop(request: &Request) -> Result<Merge> {
    let asked: api::StopContainerRequest = request.request_b64.decode().context("request")?;
    let mut merge = StopMerge::new();
    let (outcome, seen_b64) = apply(request, |plugin, reply: api::StopContainerResponse| {
        (Encoded::of(&asked), merge.apply(plugin, reply.into()))
    })?;
    let response = api::StopContainerResponse { update: updates(merge.finish().updates), ..Default::default() };
    Ok(end(outcome, &response, Encoded::default(), seen_b64))
}

/// Applies the replies ordered by index, then in the given order, up to the first refused one. If
/// requested, returns what each plugin has seen.
fn apply<M: Message>(
    request: &Request,
    mut apply: impl FnMut(&PluginId, M) -> (Encoded, Result<Applied, MergeError>),
) -> Result<(Result<(), MergeError>, Vec<Encoded>)> {
    let mut replies = request.replies.iter().map(read).collect::<Result<Vec<(PluginId, M)>>>()?;
    replies.sort_by(|(one, _), (other, _)| one.index().cmp(other.index()));
    let mut seen = Vec::new();
    for (plugin, reply) in replies {
        let (shown, applied) = apply(&plugin, reply);
        if request.seen {
            seen.push(shown);
        }
        if let Err(error) = applied {
            return Ok((Err(error), seen));
        }
    }
    Ok((Ok(()), seen))
}

fn read<M: Message>(reply: &Reply) -> Result<(PluginId, M)> {
    let Reply { plugin, response_b64 } = reply;
    let about = || format!("plugin {plugin}");
    Ok((plugin.parse().with_context(about)?, response_b64.decode_wanted().with_context(about)?))
}

fn end(outcome: Result<(), MergeError>, response: &impl Message, owners_b64: Encoded, seen_b64: Vec<Encoded>) -> Merge {
    match outcome {
        Ok(()) => Merge { response_b64: Encoded::of(response), owners_b64, error: String::new(), seen_b64 },
        Err(error) => Merge { error: error.to_string(), seen_b64, ..Merge::default() },
    }
}

fn id(container: Option<&api::Container>) -> String {
    container.map(|container| container.id.clone()).unwrap_or_default()
}

fn updates(updates: impl IntoIterator<Item = Update>) -> Vec<api::ContainerUpdate> {
    updates.into_iter().map(Into::into).collect()
}

fn evictions(evictions: Vec<AskedEviction>) -> Vec<api::ContainerEviction> {
    evictions.into_iter().map(|asked| asked.eviction.into()).collect()
}
