//! A plugin behind a connection: the only code of the adaptation that calls plugins over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::call::{CallError, Client, Method};
use nri_proto::event::EventMask;
use nri_proto::mux::{Closed, Mux};
use nri_proto::quote::line;
use nri_proto::{CreateReply, Event, FailurePolicy, TakeUnknown, Unread, Update, Verdict, api, decode};
use protobuf::Message;
use tokio::time::Instant;
use tracing::warn;
use ttrpc::Code;

use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::{Request, encode};
use crate::api::snapshot::{Chunk, MAX_CHUNK, Snapshot};
use crate::limits;

/// The name of the service that plugins serve.
const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";
/// How many entries a message of a plugin may have. Mounts, variables and updates are entries, and
/// so are their parts.
const MAX_ENTRIES: usize = 16 << 10;
/// How long a plugin may take to acknowledge a shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A plugin behind a connection.
#[derive(Debug)]
pub(crate) struct Remote {
    mux: Arc<Mux>,
    client: Client,
    request_timeout: Duration,
    sync_timeout: Duration,
    /// Whether the plugin is old: it has no separate RPCs for most notices, and takes them through
    /// `StateChange`.
    is_old: AtomicBool,
}

impl Remote {
    pub(crate) fn new(mux: Arc<Mux>, client: Client, request_timeout: Duration, sync_timeout: Duration) -> Self {
        Self { mux, client, request_timeout, sync_timeout, is_old: AtomicBool::new(false) }
    }

    async fn call(&self, name: &'static str, payload: Bytes, timeout: Duration) -> Result<Bytes, PluginError> {
        Ok(self.client.call(method(name), payload, timeout).await?)
    }

    /// Sends a request and waits for the answer, however late it arrives. The request must be sent
    /// within `timeout`, which the plugin is told as its time limit.
    async fn late(&self, name: &'static str, payload: Bytes, timeout: Duration) -> Result<Bytes, PluginError> {
        let mut pending = self.client.send(method(name), payload, timeout).await.map_err(left)?;
        // A failed write means that the connection was already closed when the request was sent.
        let was_gone = |error: &CallError| matches!(error, CallError::Closed(Closed::Write(_)));
        pending.late().await.map_err(|error| if was_gone(&error) { left(error) } else { error.into() })
    }

    async fn send(&self, chunk: Chunk, deadline: Instant) -> Result<Vec<Update>, PluginError> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let answer = self.call("Synchronize", chunk.bytes, timeout).await?;
        let answer = parse(&answer)?;
        report_unread(Unread::of(&answer));
        let api::SynchronizeResponse { update, more, special_fields: _ } = answer;
        match (chunk.last, more, update.is_empty()) {
            (true, ..) => Ok(update.into_iter().map(Update::from).collect()),
            (false, true, true) => Ok(Vec::new()),
            (false, ..) => Err(PluginError::Breach("plugin does not handle split sync requests")),
        }
    }
}

#[async_trait]
impl Plugin for Remote {
    async fn configure(&self, introduction: Introduction) -> Result<Subscription, PluginError> {
        let answer = self.call("Configure", encode(&configure_request(introduction)), self.request_timeout).await?;
        let answer = parse(&answer)?;
        report_unread(Unread::of(&answer));
        let api::ConfigureResponse { events, failure_policy, special_fields: _ } = answer;
        let mut declared = FailurePolicy::from(failure_policy.into_option().unwrap_or_default());
        report_unread(declared.take_unknown());
        Ok(Subscription { events: EventMask::from_wire(events), declared })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        let deadline = Instant::now() + self.sync_timeout;
        let mut chunks = snapshot.chunks(MAX_CHUNK);
        let mut updates = Vec::new();
        for chunk in chunks.by_ref() {
            updates = self.send(chunk, deadline).await?;
        }
        for object in chunks.oversized() {
            warn!(%object, "object left out of the synchronization: it is too large for a message");
        }
        Ok(updates)
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, timeout: Duration) -> Result<Reply, PluginError> {
        let event = request.event();
        let begun = Instant::now();
        if !(was_state_change(event) && self.is_old.load(Ordering::Relaxed)) {
            match self.late(event.rpc(), request.bytes(), timeout).await {
                Err(error) if was_state_change(event) && is_unimplemented(event, &error) => {
                    self.is_old.store(true, Ordering::Relaxed);
                }
                answer => return reply(event, &answer?),
            }
        }
        let left = timeout.saturating_sub(begun.elapsed());
        self.late("StateChange", request.state_change(), left).await.map(|_| Reply::Heard)
    }

    async fn shutdown(&self) {
        // The plugin is closed whether or not it answers.
        let _ = self.call("Shutdown", Bytes::new(), SHUTDOWN_TIMEOUT).await;
    }

    fn close(&self) {
        self.mux.close();
    }

    async fn gone(&self) -> Closed {
        self.mux.closed().await
    }
}

fn method(name: &'static str) -> Method {
    Method { service: PLUGIN, name }
}

fn configure_request(introduction: Introduction) -> api::ConfigureRequest {
    let Introduction { config, runtime_name, runtime_version, nri_version, registration_timeout, request_timeout } =
        introduction;
    api::ConfigureRequest {
        config,
        runtime_name,
        runtime_version,
        registration_timeout: millis(registration_timeout),
        request_timeout: millis(request_timeout),
        NRI_version: nri_version,
        ..Default::default()
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns whether older plugins take this event through the RPC `StateChange`.
fn was_state_change(event: Event) -> bool {
    match event {
        Event::RunPodSandbox
        | Event::PostUpdatePodSandbox
        | Event::StopPodSandbox
        | Event::RemovePodSandbox
        | Event::PostCreateContainer
        | Event::StartContainer
        | Event::PostStartContainer
        | Event::PostUpdateContainer
        | Event::RemoveContainer => true,
        Event::CreateContainer
        | Event::UpdateContainer
        | Event::StopContainer
        | Event::UpdatePodSandbox
        | Event::ValidateContainerAdjustment => false,
    }
}

/// Returns whether an error means that the plugin does not have the method for this event.
///
/// Go's server has a code of its own for that. The synchronous server of Rust's `ttrpc` uses a code
/// that also has other meanings, so the text is compared: a handler of the plugin may return the
/// same code because something else does not exist.
fn is_unimplemented(event: Event, error: &PluginError) -> bool {
    match error {
        PluginError::Refused { code: Code::UNIMPLEMENTED, .. } => true,
        PluginError::Refused { code: Code::INVALID_ARGUMENT, message } => {
            *message == format!("/{PLUGIN}/{} does not exist", event.rpc())
        }
        PluginError::Refused { .. }
        | PluginError::Left(_)
        | PluginError::Gone(_)
        | PluginError::Breach(_)
        | PluginError::TooLarge { .. }
        | PluginError::NotTaken => false,
    }
}

/// How many unknown fields of a message are logged one by one.
const MAX_UNREAD: usize = 8;

/// Logs the unknown fields in a message of a joining plugin. Such messages are not recorded in the
/// ledger.
fn report_unread(unread: impl IntoIterator<Item = Unread>) {
    let mut unread = unread.into_iter();
    for unread in unread.by_ref().take(MAX_UNREAD) {
        warn!(unread = %line(&unread.to_string()), "unknown fields in plugin message ignored");
    }
    let count = unread.count();
    if count > 0 {
        warn!(count, "more unknown fields in plugin message ignored");
    }
}

/// Decodes the answer to a request about `event`.
fn reply(event: Event, answer: &Bytes) -> Result<Reply, PluginError> {
    Ok(match event {
        Event::CreateContainer => Reply::Create(create_reply(answer)?),
        Event::UpdateContainer => Reply::Update(parse::<api::UpdateContainerResponse>(answer)?.into()),
        Event::StopContainer => Reply::Stop(parse::<api::StopContainerResponse>(answer)?.into()),
        Event::ValidateContainerAdjustment => {
            let mut verdict = Verdict::from(parse::<api::ValidateContainerAdjustmentResponse>(answer)?);
            verdict.reason.truncate(verdict.reason.floor_char_boundary(limits::TEXT));
            Reply::Verdict(verdict)
        }
        Event::RunPodSandbox
        | Event::UpdatePodSandbox
        | Event::PostUpdatePodSandbox
        | Event::StopPodSandbox
        | Event::RemovePodSandbox
        | Event::PostCreateContainer
        | Event::StartContainer
        | Event::PostStartContainer
        | Event::PostUpdateContainer
        | Event::RemoveContainer => Reply::Heard,
    })
}

/// Decodes the answer to `CreateContainer`. Most answers are decoded directly, without an
/// intermediate message.
fn create_reply(answer: &Bytes) -> Result<Box<CreateReply>, PluginError> {
    let checked = bounded::check::<api::CreateContainerResponse>(answer, MAX_ENTRIES).map_err(breach)?;
    match decode::usual(answer) {
        Some(reply) => Ok(reply),
        None => Ok(Box::new(checked.parse_wanted().map_err(breach)?.into())),
    }
}

fn parse<M: Message>(answer: &Bytes) -> Result<M, PluginError> {
    bounded::parse_wanted(answer, MAX_ENTRIES).map_err(breach)
}

fn breach(error: BoundedError) -> PluginError {
    PluginError::Breach(match error {
        BoundedError::TooMany(_) => "its answer has too many entries",
        BoundedError::Malformed(_) => "its answer cannot be read",
        BoundedError::Twice => "its answer has a field twice that can occur once",
    })
}

/// Converts the error of a request that was not sent. If the connection is closed, it was closed
/// before the request.
fn left(error: CallError) -> PluginError {
    if let CallError::Closed(reason) = error { PluginError::Left(reason) } else { error.into() }
}

impl From<CallError> for PluginError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { code, mut message, payload: _ } => {
                message.truncate(message.floor_char_boundary(limits::TEXT));
                Self::Refused { code, message }
            }
            CallError::Closed(reason) => Self::Gone(reason),
            CallError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            CallError::TimedOut => Self::NotTaken,
            CallError::Malformed { breach } => Self::Breach(breach),
        }
    }
}
