//! A connection, from its beginning until it is closed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::call::{Client, MAX_MESSAGE, ServeLimits, Services, serve};
use nri_proto::mux::{Channel, ChannelId, Mux};
use nri_proto::plugin_id::PluginIdError;
use nri_proto::quote::error_line;
use nri_proto::{Eviction, PluginId, Unread, Update, api};
use protobuf::Message;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Code, get_status};

use crate::api::plugin::Plugin;
use crate::api::request::encode;
use crate::api::source::UpdatesFailed;
use crate::config::policy::{Declared, Identity};
use crate::limits;
use crate::operation::shared::Shared;
use crate::registry::admission::{AdmitError, Candidate, admit};
use crate::registry::early::{Admission, EarlyCall, KeepResult};
use crate::registry::join::Arrival;
use crate::reply::recorder;
use crate::session::unsolicited::{UnsolicitedChanges, UnsolicitedError};
use crate::transport::front::PeerService;
use crate::transport::remote::Remote;

/// The name of the service that plugins call.
const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The limits for requests of one plugin that the runtime processes at a time.
const FROM_A_PLUGIN: ServeLimits = ServeLimits { requests: 40, bytes: 4 << 20 };
/// How many entries a registration may have. A registration needs three.
const MAX_REGISTER_ENTRIES: usize = 16;
/// The weight of an update itself, in entries, in addition to the entries that it contains.
const UPDATE_WEIGHT: usize = 8;
/// How long a refused peer may take to read the reason.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Why a connection did not become a plugin.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("could not register the connection with the runtime")]
    Io(#[from] std::io::Error),
    #[error("the peer did not register in time")]
    NotRegistered,
    #[error("the peer left before it had registered: {0}")]
    Left(nri_proto::mux::Closed),
    #[error("the peer cannot be registered")]
    Named(#[from] PluginIdError),
    #[error(transparent)]
    Admit(#[from] AdmitError),
    #[error("the runtime panicked while it admitted the peer")]
    Panicked,
    #[error("NRI was stopped")]
    Stopped,
}

impl ConnectError {
    /// Logs why a peer did not become a plugin: at level info if the adaptation stops, else as a
    /// warning.
    pub(crate) fn log(&self, shared: &Shared, uid: Option<u32>, pid: Option<i32>) {
        let error = error_line(self);
        if shared.services.stopping.is_cancelled() {
            info!(%error, uid, pid, "a peer did not become a plugin");
        } else {
            warn!(%error, uid, pid, "a peer did not become a plugin");
        }
    }
}

/// The channels of a connection.
pub(crate) const CHANNELS: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// The identity and the configuration of a launched plugin. The identity is used instead of the
/// name that the plugin registers.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) id: PluginId,
    pub(crate) config: String,
}

/// The kind of peer at the other end of a connection.
#[derive(Debug)]
pub(crate) enum PeerKind {
    /// A process that connected, with its user if known.
    Connected { uid: Option<u32> },
    /// A program that the runtime launched.
    Launched(Launched),
}

/// Makes a plugin of a process of this user that connected.
pub(crate) async fn connect(shared: Arc<Shared>, stream: UnixStream, uid: u32) -> Result<(), ConnectError> {
    let (mux, channels) = Mux::on_unix(stream, CHANNELS, limits::CONNECTION)?;
    take_in(shared, Arc::new(mux), channels, PeerKind::Connected { uid: Some(uid) }).await.map(drop)
}

/// Makes a plugin of a connection: waits for its registration, configures and synchronizes it, and
/// adds it to the roster.
pub(crate) async fn take_in(
    shared: Arc<Shared>,
    mux: Arc<Mux>,
    [requests, served]: [Channel; 2],
    peer: PeerKind,
) -> Result<Arc<dyn Plugin>, ConnectError> {
    let (identity, known, config) = match peer {
        PeerKind::Connected { uid } => (Identity::connected(uid), None, String::new()),
        PeerKind::Launched(Launched { id, config }) => (Identity::LAUNCHED, Some(id), config),
    };
    let (register, registered) = oneshot::channel();
    let front = Arc::new(PeerService::new(Arc::clone(&shared), Arc::clone(&mux), (identity, known), register));
    let services = Arc::new(services(&front));
    let mut serving = shared.services.tasks.spawn(serve(served, services, FROM_A_PLUGIN, front.leaving.clone()));

    let becoming = become_plugin(&front, Client::new(requests), registered, config);
    let outcome = tokio::select! {
        outcome = AssertUnwindSafe(becoming).catch_unwind() => {
            // Admission calls code of the runtime, which may panic. The connection is closed in any
            // case.
            outcome.unwrap_or(Err(ConnectError::Panicked))
        }
        () = shared.services.stopping.cancelled() => Err(ConnectError::Stopped),
    };
    match outcome {
        Ok((id, plugin)) => {
            shared.services.spawn(keep(front, id, serving, mux));
            Ok(plugin)
        }
        Err(error) => {
            front.give_up();
            front.leaving.cancel();
            part(&mut serving, &mux).await;
            Err(error)
        }
    }
}

/// Ends a connection. Gives the peer a short time to read the answers to its calls.
async fn part(serving: &mut JoinHandle<()>, mux: &Mux) {
    let answered = tokio::time::timeout(LAST_WORDS, &mut *serving).await;
    mux.finish(LAST_WORDS).await;
    if answered.is_err() {
        // The handlers end with the connection.
        let _ = serving.await;
    }
}

/// Returns the methods that a peer can call.
fn services(front: &Arc<PeerService>) -> Services {
    let methods: [(_, Box<dyn MethodHandler + Send + Sync>); 2] = [
        ("RegisterPlugin".to_owned(), Box::new(RegisterPlugin(Arc::clone(front)))),
        ("UpdateContainers".to_owned(), Box::new(UpdateContainers(Arc::clone(front)))),
    ];
    let service = Service { methods: methods.into(), streams: Default::default() };
    Services::from([(RUNTIME.to_owned(), service)])
}

async fn become_plugin(
    front: &PeerService,
    client: Client,
    registered: oneshot::Receiver<Result<Arrival, ConnectError>>,
    config: String,
) -> Result<(PluginId, Arc<dyn Plugin>), ConnectError> {
    let PeerService { shared, mux, early, .. } = front;
    let arrival = tokio::select! {
        biased;
        registered = registered => match registered {
            Ok(arrival) => arrival?,
            Err(_gone) => return Err(ConnectError::NotRegistered),
        },
        reason = mux.closed() => return Err(ConnectError::Left(reason)),
        () = tokio::time::sleep(shared.services.config.registration_timeout) => return Err(ConnectError::NotRegistered),
    };
    let policy = shared.roster().config().policies.effective(&arrival.id, Declared::default()).policy;
    let plugin: Arc<dyn Plugin> =
        Arc::new(Remote::new(Arc::clone(mux), client, policy.request_timeout, policy.sync_timeout));
    let id = arrival.id.clone();
    admit(arrival, Candidate { plugin: Arc::clone(&plugin), config, early: Arc::clone(early) }).await?;
    Ok((id, plugin))
}

/// Serves a plugin until its connection ends, or until the plugin violates the protocol.
async fn keep(front: Arc<PeerService>, plugin: PluginId, mut serving: JoinHandle<()>, mux: Arc<Mux>) {
    let PeerService { shared, early, identity, .. } = &*front;
    // Early updates are applied even if the plugin has left in the meantime: it was admitted, and
    // its calls were already answered.
    shared.services.stopping.run_until_cancelled(early.admit(shared, &plugin, *identity)).await;
    tokio::select! {
        _ = &mut serving => mux.finish(LAST_WORDS).await,
        () = front.leaving.cancelled() => part(&mut serving, &mux).await,
    }
}

// The generated service is not used, because it keeps the encoded request in memory while the
// decoded request is processed.

struct RegisterPlugin(Arc<PeerService>);

#[async_trait]
impl MethodHandler for RegisterPlugin {
    async fn handler(&self, _: TtrpcContext, request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let request = bounded::parse(&request.payload.into(), MAX_REGISTER_ENTRIES).map_err(|error| unread(&error))?;
        let api::RegisterPluginRequest { plugin_name, plugin_idx, NRI_version: _, special_fields: _ } = request;
        self.0.register(&plugin_idx, &plugin_name)?;
        Ok(response(&api::Empty::new()))
    }
}

struct UpdateContainers(Arc<PeerService>);

#[async_trait]
impl MethodHandler for UpdateContainers {
    async fn handler(&self, context: TtrpcContext, request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let (plugin, limit) = self.0.patience()?;
        drop(context);
        let bytes = request.payload.len();
        // The request is decoded only after the decision, because a decoded request takes more
        // memory.
        let admission = self.0.early.admission(limit).await;
        if admission == Admission::Refused {
            return Err(not_admitted());
        }
        let (wanted, weight) = self.read(request)?;
        let unread = Unread::of(&wanted);
        let api::UpdateContainersRequest { update, evict, special_fields: _ } = wanted;
        let updates = update.into_iter().map(Update::from).collect();
        let evictions = evict.into_iter().map(Eviction::from).collect();
        let policy = self.0.policy(&plugin)?;
        self.0.shared.services.records.unread(&recorder::unasked(&plugin, policy.mode), unread.into_iter().collect());
        let early = EarlyCall { wanted: UnsolicitedChanges { updates, evictions }, bytes, weight };
        let Some(EarlyCall { wanted, weight: _weight, .. }) = self.keep(admission, early)? else {
            return Ok(failed_response(Vec::new(), None));
        };
        let (failed, reason) = match wanted.apply(&self.0.shared.services, &plugin, &policy).await {
            Ok(failed) => (failed, None),
            Err(UnsolicitedError::Failed(UpdatesFailed { reason, failed })) => (failed, Some(reason)),
            Err(UnsolicitedError::NotAllowed(error)) => {
                return Err(refusal(Code::PERMISSION_DENIED, &error.to_string()));
            }
            Err(error @ UnsolicitedError::Panicked) => return Err(refusal(Code::INTERNAL, &error.to_string())),
            Err(error @ UnsolicitedError::TimedOut) => {
                return Err(refusal(Code::DEADLINE_EXCEEDED, &error.to_string()));
            }
        };
        Ok(failed_response(failed, reason))
    }
}

impl UpdateContainers {
    /// Keeps a call of a plugin that is not admitted yet. Returns the call if its updates are to be
    /// applied now.
    fn keep(&self, admission: Admission, early: EarlyCall) -> Result<Option<EarlyCall>, ttrpc::Error> {
        if admission == Admission::Admitted {
            return Ok(Some(early));
        }
        match self.0.early.keep(early) {
            KeepResult::Kept => Ok(None),
            KeepResult::Full => {
                Err(refusal(Code::RESOURCE_EXHAUSTED, "too many updates before the plugin is admitted"))
            }
            KeepResult::Admitted(early) => Ok(Some(early)),
            KeepResult::Refused => Err(not_admitted()),
        }
    }

    /// Decodes a request, if the plugin's memory limit has room for the decoded form.
    fn read(
        &self,
        request: ttrpc::Request,
    ) -> Result<(api::UpdateContainersRequest, OwnedSemaphorePermit), ttrpc::Error> {
        let payload = Bytes::from(request.payload);
        let (weight, wanted) =
            bounded::weigh(&payload, UPDATE_WEIGHT, limits::ENTRIES).map_err(|error| unread(&error))?;
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0.entries)
            .try_acquire_many_owned(weight)
            .map_err(|_| refusal(Code::RESOURCE_EXHAUSTED, "too many updates at a time"))?;
        Ok((wanted.parse_wanted().map_err(|error| unread(&error))?, permit))
    }
}

/// Returns the response that lists the failed updates.
///
/// If there is a reason, the response also has the status of an error. A Go client then returns the
/// error alone; this project's client returns both. The code of the status is the one that Go's
/// server uses for a plain error.
fn failed_response(failed: Vec<Update>, reason: Option<String>) -> ttrpc::Response {
    let mut listed = api::UpdateContainersResponse::new();
    listed.failed = failed.into_iter().map(Into::into).collect();
    let Some(reason) = reason else { return response(&listed) };
    // The list alone may be as large as a message may be. The list is cut, so that the status is
    // not lost.
    let mut room = MAX_MESSAGE - 2 * limits::TEXT;
    let fits = |update: &api::ContainerUpdate| {
        let size = usize::try_from(update.compute_size()).unwrap_or(usize::MAX).saturating_add(16);
        room.checked_sub(size).map(|left| room = left).is_some()
    };
    listed.failed = listed.failed.into_iter().take_while(fits).collect();
    let mut response = response(&listed);
    response.set_status(get_status(Code::UNKNOWN, limits::cut(&reason)));
    response
}

fn response(message: &impl Message) -> ttrpc::Response {
    let mut response = ttrpc::Response::new();
    response.payload = encode(message).into();
    response
}

/// Converts an error of decoding as ttrpc's generated services do.
fn unread(error: &BoundedError) -> ttrpc::Error {
    match error {
        BoundedError::TooMany(_) => refusal(Code::RESOURCE_EXHAUSTED, &error.to_string()),
        BoundedError::Malformed(cause) => refusal(Code::INVALID_ARGUMENT, &format!("{error}: {cause}")),
        BoundedError::Twice => refusal(Code::INVALID_ARGUMENT, &error.to_string()),
    }
}

fn not_admitted() -> ttrpc::Error {
    refusal(Code::FAILED_PRECONDITION, "the plugin was not admitted")
}

pub(crate) fn refusal(code: Code, text: &str) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(get_status(code, text))
}
