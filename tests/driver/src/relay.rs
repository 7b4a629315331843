//! Relays one operation, given by its name.

use std::any::Any;
use std::error::Error;
use std::panic::AssertUnwindSafe;

use anyhow::{Context, Result, bail};
use futures_util::FutureExt;
use nri_adaptation::health::State;
use nri_adaptation::merge::{AskedEviction, MergedCreate, MergedStop, MergedUpdate};
use nri_adaptation::plugin::PluginError;
use nri_adaptation::{Adaptation, Cause, Failure, Notice, Operation, RelayError};
use nri_proto::{Container, Pod, Resources, api};
use tokio::time::Instant;

use crate::layer::Layer;
use crate::protocol::{Encoded, Outcome};

/// A request to relay. It is boxed because it is large.
#[expect(clippy::large_enum_variant, reason = "there are a few hundred at a time, made before anything is timed")]
pub(crate) enum Act {
    Notice(Notice),
    Create(Container),
    Update(Container, Option<Resources>),
    Stop(Container),
}

/// Reads the request message of an operation.
pub(crate) fn read(op: &str, request: &Encoded) -> Result<(Pod, Box<Act>)> {
    macro_rules! about_pod {
        ($message:ident, $notice:expr) => {{
            let request: api::$message = request.decode().context("request")?;
            (request.pod.unwrap_or_default().into(), Act::Notice($notice))
        }};
    }
    macro_rules! about_container {
        ($message:ident, $act:expr) => {{
            let request: api::$message = request.decode().context("request")?;
            (request.pod.unwrap_or_default().into(), $act(request.container.unwrap_or_default().into()))
        }};
    }
    let notice = |notice: fn(Container) -> Notice| move |container| Act::Notice(notice(container));
    let (pod, act) = match op {
        "RunPodSandbox" => about_pod!(RunPodSandboxRequest, Notice::RunPod),
        "PostUpdatePodSandbox" => about_pod!(PostUpdatePodSandboxRequest, Notice::PostUpdatePod),
        "StopPodSandbox" => about_pod!(StopPodSandboxRequest, Notice::StopPod),
        "RemovePodSandbox" => about_pod!(RemovePodSandboxRequest, Notice::RemovePod),
        "UpdatePodSandbox" => {
            let request: api::UpdatePodSandboxRequest = request.decode().context("request")?;
            let overhead = request.overhead_linux_resources.into_option().map(Into::into);
            let resources = request.linux_resources.into_option().map(Into::into);
            (request.pod.unwrap_or_default().into(), Act::Notice(Notice::UpdatePod { overhead, resources }))
        }
        "CreateContainer" => about_container!(CreateContainerRequest, Act::Create),
        "PostCreateContainer" => about_container!(PostCreateContainerRequest, notice(Notice::PostCreate)),
        "StartContainer" => about_container!(StartContainerRequest, notice(Notice::Start)),
        "PostStartContainer" => about_container!(PostStartContainerRequest, notice(Notice::PostStart)),
        "UpdateContainer" => {
            let request: api::UpdateContainerRequest = request.decode().context("request")?;
            let resources = request.linux_resources.into_option().map(Into::into);
            let container = request.container.unwrap_or_default().into();
            (request.pod.unwrap_or_default().into(), Act::Update(container, resources))
        }
        "PostUpdateContainer" => about_container!(PostUpdateContainerRequest, notice(Notice::PostUpdate)),
        "StopContainer" => about_container!(StopContainerRequest, Act::Stop),
        "RemoveContainer" => about_container!(RemoveContainerRequest, notice(Notice::Remove)),
        _ => bail!("unknown op {op:?}"),
    };
    Ok((pod, Box::new(act)))
}

/// The result of a request.
pub(crate) enum Answer {
    Heard,
    Created(Box<MergedCreate>),
    Updated(Box<MergedUpdate>),
    Stopped(MergedStop),
}

impl Answer {
    /// Encodes the response message.
    pub(crate) fn encode(self) -> Encoded {
        match self {
            Self::Heard => Encoded::default(),
            Self::Created(merged) => created(*merged),
            Self::Updated(merged) => updated(*merged),
            Self::Stopped(merged) => stopped(merged),
        }
    }
}

/// Relays a request.
pub(crate) async fn relay(
    nri: &Adaptation,
    pod: Pod,
    act: Box<Act>,
    deadline: Option<Instant>,
) -> Result<Answer, RelayError> {
    let operation = nri.begin(pod);
    let operation = match deadline {
        Some(deadline) => operation.until(deadline),
        None => operation,
    };
    let mut attempt = Attempt(Some(operation));
    let response = match &attempt.0 {
        Some(operation) => perform(operation, act).await?,
        None => return Err(RelayError::Stopped),
    };
    attempt.0.take().into_iter().for_each(Operation::commit);
    Ok(response)
}

/// An operation that is abandoned, without a rollback, if it fails or is cancelled: the protocol
/// requires that.
struct Attempt(Option<Operation>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Operation::abandon);
    }
}

async fn perform(operation: &Operation, act: Box<Act>) -> Result<Answer, RelayError> {
    Ok(match *act {
        Act::Notice(notice) => {
            operation.notify(notice).await?;
            Answer::Heard
        }
        Act::Create(container) => Answer::Created(Box::new(operation.create_container(container).await?)),
        Act::Update(container, resources) => {
            Answer::Updated(Box::new(operation.update_container(container, resources).await?))
        }
        Act::Stop(container) => {
            Answer::Stopped(operation.stop_container(container).await.map_err(|error| error.cause)?)
        }
    })
}

fn created(merged: MergedCreate) -> Encoded {
    let MergedCreate { adjustment, updates, evictions, owners: _, container: _ } = merged;
    Encoded::of(&api::CreateContainerResponse {
        adjust: Some(adjustment.into()).into(),
        update: updates.into_iter().map(Into::into).collect(),
        evict: evicted(evictions),
        ..Default::default()
    })
}

/// Encodes the response to an update. As in Go, the update of the container itself comes last;
/// where Go has an empty one, ours is missing.
fn updated(merged: MergedUpdate) -> Encoded {
    let MergedUpdate { own, others, evictions, owners: _ } = merged;
    Encoded::of(&api::UpdateContainerResponse {
        update: others.into_iter().chain(own).map(Into::into).collect(),
        evict: evicted(evictions),
        ..Default::default()
    })
}

fn stopped(merged: MergedStop) -> Encoded {
    let MergedStop { updates, owners: _ } = merged;
    Encoded::of(&api::StopContainerResponse {
        update: updates.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

fn evicted(evictions: Vec<AskedEviction>) -> Vec<api::ContainerEviction> {
    evictions.into_iter().map(|asked| asked.eviction.into()).collect()
}

/// Reads and relays a request. A panic is an outcome, too.
pub(crate) async fn call(
    layer: &Layer,
    op: &str,
    request: &Encoded,
    deadline: Option<Instant>,
) -> Result<Encoded, Outcome> {
    let called = Box::pin(async {
        let (pod, act) = read(op, request).map_err(|error| failure(&error))?;
        Box::pin(layer.relay(pod, act, deadline)).await.map(Answer::encode).map_err(|failure| failure.outcome())
    });
    AssertUnwindSafe(called).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// Returns the outcome for a failure that no plugin has caused.
pub(crate) fn failure(error: &anyhow::Error) -> Outcome {
    Outcome { ok: false, error: format!("{error:#}"), error_code: "" }
}

/// Returns the outcome for a panic that was caught.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Outcome { ok: false, error: format!("panic: {}", text.unwrap_or("without a word")), error_code: "" }
}

/// Returns the outcome for a request that failed.
pub(crate) fn outcome(error: &RelayError) -> Outcome {
    Outcome { ok: false, error: chain(error), error_code: code(error) }
}

fn code(error: &RelayError) -> &'static str {
    match error {
        RelayError::Deadline => "deadline",
        RelayError::Failed(Failure { cause, .. }) | RelayError::Validator { cause, .. } => match cause {
            Cause::PassedOver(State::Closed) => "closed",
            Cause::TimedOut
            | Cause::CutShort
            | Cause::CallerDeadline
            | Cause::Busy
            | Cause::PassedOver(_)
            | Cause::CatchingUp
            | Cause::Plugin(PluginError::NotTaken) => "deadline",
            Cause::Plugin(PluginError::Left(_) | PluginError::Gone(_) | PluginError::Breach(_)) => "closed",
            Cause::Plugin(PluginError::Refused { .. } | PluginError::TooLarge { .. })
            | Cause::NotAllowed(_)
            | Cause::Behind
            | Cause::Absent => "",
        },
        RelayError::Contrary(_) | RelayError::Rejected { .. } | RelayError::Stopped => "",
    }
}

/// Formats an error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
