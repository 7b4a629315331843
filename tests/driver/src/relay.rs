//! One operation by its name.

use std::error::Error;

use anyhow::{Result, bail};
use nri_adaptation::health::State;
use nri_adaptation::plugin::PluginError;
use nri_adaptation::{Adaptation, Cause, Failure, Notice, Operation, RelayError, Said};
use nri_proto::{Container, Pod, Resources};
use nri_proto::{CreateReply, StopReply, UpdateReply, api};
use tokio::time::Instant;

use crate::protocol::{Encoded, Outcome};

/// A request that was read or made, to be relayed.
#[expect(clippy::large_enum_variant, reason = "there are a few hundred at a time, made before anything is timed")]
pub(crate) enum Act {
    Notice(Notice),
    Create(Container),
    Update(Container, Option<Resources>),
    Stop(Container),
}

/// Reads the request message of an operation.
pub(crate) fn read(op: &str, request: &Encoded) -> Result<(Pod, Act)> {
    macro_rules! about_pod {
        ($message:ident, $notice:expr) => {{
            let request: api::$message = request.decode()?;
            (request.pod.unwrap_or_default().into(), Act::Notice($notice))
        }};
    }
    macro_rules! about_container {
        ($message:ident, $act:expr) => {{
            let request: api::$message = request.decode()?;
            (request.pod.unwrap_or_default().into(), $act(request.container.unwrap_or_default().into()))
        }};
    }
    let notice = |notice: fn(Container) -> Notice| move |container| Act::Notice(notice(container));
    Ok(match op {
        "RunPodSandbox" => about_pod!(RunPodSandboxRequest, Notice::RunPod),
        "PostUpdatePodSandbox" => about_pod!(PostUpdatePodSandboxRequest, Notice::PostUpdatePod),
        "StopPodSandbox" => about_pod!(StopPodSandboxRequest, Notice::StopPod),
        "RemovePodSandbox" => about_pod!(RemovePodSandboxRequest, Notice::RemovePod),
        "UpdatePodSandbox" => {
            let request: api::UpdatePodSandboxRequest = request.decode()?;
            let overhead = request.overhead_linux_resources.into_option().map(Into::into);
            let resources = request.linux_resources.into_option().map(Into::into);
            (request.pod.unwrap_or_default().into(), Act::Notice(Notice::UpdatePod { overhead, resources }))
        }
        "CreateContainer" => about_container!(CreateContainerRequest, Act::Create),
        "PostCreateContainer" => about_container!(PostCreateContainerRequest, notice(Notice::PostCreate)),
        "StartContainer" => about_container!(StartContainerRequest, notice(Notice::Start)),
        "PostStartContainer" => about_container!(PostStartContainerRequest, notice(Notice::PostStart)),
        "UpdateContainer" => {
            let request: api::UpdateContainerRequest = request.decode()?;
            let resources = request.linux_resources.into_option().map(Into::into);
            let container = request.container.unwrap_or_default().into();
            (request.pod.unwrap_or_default().into(), Act::Update(container, resources))
        }
        "PostUpdateContainer" => about_container!(PostUpdateContainerRequest, notice(Notice::PostUpdate)),
        "StopContainer" => about_container!(StopContainerRequest, Act::Stop),
        "RemoveContainer" => about_container!(RemoveContainerRequest, notice(Notice::Remove)),
        _ => bail!("unknown op {op:?}"),
    })
}

/// Relays a request. Until answers are merged, the response has what the plugins said one after the other.
pub(crate) async fn relay(
    nri: &Adaptation,
    pod: Pod,
    act: Act,
    deadline: Option<Instant>,
) -> Result<Encoded, RelayError> {
    let operation = nri.begin(pod);
    let operation = match deadline {
        Some(deadline) => operation.until(deadline),
        None => operation,
    };
    let response = perform(&operation, act).await?;
    operation.commit();
    Ok(response)
}

async fn perform(operation: &Operation, act: Act) -> Result<Encoded, RelayError> {
    Ok(match act {
        Act::Notice(notice) => {
            operation.notify(notice).await?;
            Encoded::default()
        }
        Act::Create(container) => created(operation.create_container(container).await?),
        Act::Update(container, resources) => updated(operation.update_container(container, resources).await?),
        Act::Stop(container) => stopped(operation.stop_container(container).await?),
    })
}

fn created(said: Vec<Said<CreateReply>>) -> Encoded {
    let mut response = api::CreateContainerResponse::new();
    for Said { reply: CreateReply { adjustment, updates, evictions, unknown: _ }, .. } in said {
        if let Some(adjustment) = adjustment {
            response.adjust = Some(adjustment.into()).into();
        }
        response.update.extend(updates.into_iter().map(Into::into));
        response.evict.extend(evictions.into_iter().map(Into::into));
    }
    Encoded::of(&response)
}

fn updated(said: Vec<Said<UpdateReply>>) -> Encoded {
    let mut response = api::UpdateContainerResponse::new();
    for Said { reply: UpdateReply { updates, evictions, unknown: _ }, .. } in said {
        response.update.extend(updates.into_iter().map(Into::into));
        response.evict.extend(evictions.into_iter().map(Into::into));
    }
    Encoded::of(&response)
}

fn stopped(said: Vec<Said<StopReply>>) -> Encoded {
    let mut response = api::StopContainerResponse::new();
    for Said { reply: StopReply { updates, unknown: _ }, .. } in said {
        response.update.extend(updates.into_iter().map(Into::into));
    }
    Encoded::of(&response)
}

/// How a request's end is told.
pub(crate) fn outcome(error: &RelayError) -> Outcome {
    Outcome { ok: false, error: chain(error), error_code: code(error) }
}

fn code(error: &RelayError) -> &'static str {
    match error {
        RelayError::Deadline => "deadline",
        RelayError::Failed(Failure { cause, .. }) => match cause {
            Cause::PassedOver(State::Closed) => "closed",
            Cause::TimedOut | Cause::CallerDeadline | Cause::Busy | Cause::PassedOver(_) => "deadline",
            Cause::Plugin(PluginError::Left(_) | PluginError::Gone(_) | PluginError::Breach(_)) => "closed",
            Cause::Plugin(PluginError::Refused { .. } | PluginError::TooLarge { .. } | PluginError::NotTaken)
            | Cause::Absent => "",
        },
        RelayError::Stopped => "",
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
