//! A connection, from its beginning until it is a plugin or is closed.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::call::{Client, MAX_MESSAGE, ServeLimits, Services, serve};
use nri_proto::mux::{Channel, ChannelId, Mux};
use nri_proto::plugin_id::PluginIdError;
use nri_proto::{Eviction, PluginId, Unread, Update, api};
use protobuf::Message;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Code, get_status};

use crate::admission::{AdmitError, admit};
use crate::budget;
use crate::entry::Origin;
use crate::plugin::Plugin;
use crate::policy::Declared;
use crate::records;
use crate::remote::Remote;
use crate::request::encode;
use crate::shared::Shared;
use crate::source::UpdatesFailed;
use crate::unasked::{Unasked, Undone};

/// The service that plugins call.
const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
/// How many requests a plugin may have us work on.
const FROM_A_PLUGIN: ServeLimits = ServeLimits { requests: 40, bytes: 4 << 20 };
/// How many entries a registration may have. It needs three.
const MAX_REGISTER_ENTRIES: usize = 16;
/// What an update weighs beside what it contains, in entries.
const UPDATE_WEIGHT: usize = 8;
/// How long a peer that is refused may take to read why.
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
    #[error("the peer cannot be registered: {0}")]
    Refused(String),
    #[error("there are {0} plugins already")]
    Full(usize),
    #[error(transparent)]
    Admit(#[from] AdmitError),
    #[error("the runtime panicked while the peer was let in")]
    Panicked,
    #[error("NRI was stopped")]
    Stopped,
}

impl ConnectError {
    /// Logs why a peer did not become a plugin: as a warning, unless the adaptation stops.
    pub(crate) fn log(&self, shared: &Shared, pid: Option<i32>) {
        let error = self as &dyn std::error::Error;
        if shared.stopping.is_cancelled() {
            info!(error, pid, "a peer did not become a plugin");
        } else {
            warn!(error, pid, "a peer did not become a plugin");
        }
    }
}

/// The channels of a connection.
pub(crate) const CHANNELS: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// Who a peer is that was launched, and what it is configured with. What it registers as does not matter.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) id: PluginId,
    pub(crate) config: String,
}

/// Makes a plugin of whoever has connected.
pub(crate) async fn connect(shared: Arc<Shared>, stream: UnixStream) -> Result<(), ConnectError> {
    let (mux, channels) = Mux::on_unix(stream, CHANNELS, budget::CONNECTION)?;
    take_in(shared, Arc::new(mux), channels, None).await.map(drop)
}

/// Makes a plugin of a connection: it registers, is configured, synchronized, and asked from then on.
pub(crate) async fn take_in(
    shared: Arc<Shared>,
    mux: Arc<Mux>,
    [requests, served]: [Channel; 2],
    launched: Option<Launched>,
) -> Result<Arc<dyn Plugin>, ConnectError> {
    let origin = if launched.is_some() { Origin::Launched } else { Origin::Connected };
    let (known, config) = launched.map(|Launched { id, config }| (id, config)).unzip();
    let (register, registered) = oneshot::channel();
    let front = Arc::new(Front::new(Arc::clone(&shared), Arc::clone(&mux), known, register));
    let services = Arc::new(services(&front));
    let mut serving = shared.tasks.spawn(serve(served, services, FROM_A_PLUGIN, front.leaving.clone()));

    let becoming =
        become_plugin(&shared, &mux, Client::new(requests), registered, (config.unwrap_or_default(), origin));
    let outcome = tokio::select! {
        outcome = AssertUnwindSafe(becoming).catch_unwind() => {
            // The runtime's own code is asked for what there is. The connection ends in any case.
            outcome.unwrap_or(Err(ConnectError::Panicked))
        }
        () = shared.stopping.cancelled() => Err(ConnectError::Stopped),
    };
    if outcome.is_err() {
        front.leaving.cancel();
        part(&mut serving, &mux).await;
    } else {
        shared.spawn(keep(front, serving, mux));
    }
    outcome
}

/// Ends a connection. Its peer is told why first, if it reads.
async fn part(serving: &mut JoinHandle<()>, mux: &Mux) {
    let answered = tokio::time::timeout(LAST_WORDS, &mut *serving).await;
    mux.finish(LAST_WORDS).await;
    if answered.is_err() {
        // Its handlers end with the connection.
        let _ = serving.await;
    }
}

/// What a peer can call.
fn services(front: &Arc<Front>) -> Services {
    let methods: [(_, Box<dyn MethodHandler + Send + Sync>); 2] = [
        ("RegisterPlugin".to_owned(), Box::new(RegisterPlugin(Arc::clone(front)))),
        ("UpdateContainers".to_owned(), Box::new(UpdateContainers(Arc::clone(front)))),
    ];
    let service = Service { methods: methods.into(), streams: Default::default() };
    Services::from([(RUNTIME.to_owned(), service)])
}

async fn become_plugin(
    shared: &Arc<Shared>,
    mux: &Arc<Mux>,
    client: Client,
    registered: oneshot::Receiver<Result<PluginId, String>>,
    (config, origin): (String, Origin),
) -> Result<Arc<dyn Plugin>, ConnectError> {
    let id = tokio::select! {
        biased;
        registered = registered => match registered {
            Ok(Ok(id)) => id,
            Ok(Err(refusal)) => return Err(ConnectError::Refused(refusal)),
            Err(_gone) => return Err(ConnectError::NotRegistered),
        },
        reason = mux.closed() => return Err(ConnectError::Left(reason)),
        () = tokio::time::sleep(shared.config.registration_timeout) => return Err(ConnectError::NotRegistered),
    };
    if !shared.has_room_for(&id) {
        return Err(ConnectError::Full(shared.config.max_plugins));
    }
    let policy = shared.roster().regime().policies.effective(&id, Declared::default()).policy;
    let plugin: Arc<dyn Plugin> =
        Arc::new(Remote::new(Arc::clone(mux), client, policy.request_timeout, policy.sync_timeout));
    admit(shared, id, Arc::clone(&plugin), config, origin).await?;
    Ok(plugin)
}

/// Serves a plugin until its connection ends, or until it breaks the rules.
async fn keep(front: Arc<Front>, mut serving: JoinHandle<()>, mux: Arc<Mux>) {
    tokio::select! {
        _ = &mut serving => mux.finish(LAST_WORDS).await,
        () = front.leaving.cancelled() => part(&mut serving, &mux).await,
    }
}

/// What a peer can call.
struct Front {
    shared: Arc<Shared>,
    mux: Arc<Mux>,
    /// Who it is, if it was launched.
    known: Option<PluginId>,
    phase: Mutex<Phase>,
    /// What may be read of its requests at a time.
    entries: Arc<Semaphore>,
    /// No more of its requests are taken; the connection ends when those it has are answered.
    leaving: CancellationToken,
}

enum Phase {
    New(oneshot::Sender<Result<PluginId, String>>),
    Registered(PluginId),
    Refused,
}

impl Front {
    fn new(
        shared: Arc<Shared>,
        mux: Arc<Mux>,
        known: Option<PluginId>,
        register: oneshot::Sender<Result<PluginId, String>>,
    ) -> Self {
        let (phase, entries) = (Mutex::new(Phase::New(register)), Arc::new(Semaphore::new(budget::ENTRIES)));
        Self { shared, mux, known, phase, entries, leaving: CancellationToken::new() }
    }

    /// Who registers so. For a launched plugin its file has the last word, as upstream has it.
    fn identify(&self, index: &str, name: &str) -> Result<PluginId, PluginIdError> {
        match &self.known {
            Some(id) => Ok(id.clone()),
            None => PluginId::new(index, name),
        }
    }

    fn register(&self, index: &str, name: &str) -> Result<(), ttrpc::Error> {
        let mut phase = self.phase();
        match std::mem::replace(&mut *phase, Phase::Refused) {
            Phase::New(register) => match self.identify(index, name) {
                Ok(id) => {
                    self.mux.admit();
                    *phase = Phase::Registered(id.clone());
                    // Whoever waited may have given up: then the connection ends in any case.
                    let _ = register.send(Ok(id));
                    Ok(())
                }
                Err(error) => {
                    let _ = register.send(Err(error.to_string()));
                    Err(refusal(Code::INVALID_ARGUMENT, &error.to_string()))
                }
            },
            Phase::Registered(_) | Phase::Refused => {
                self.leaving.cancel();
                Err(refusal(Code::ALREADY_EXISTS, "this connection has registered a plugin already"))
            }
        }
    }

    fn registered(&self) -> Result<PluginId, ttrpc::Error> {
        match &*self.phase() {
            Phase::Registered(id) => Ok(id.clone()),
            Phase::New(_) | Phase::Refused => {
                Err(refusal(Code::FAILED_PRECONDITION, "this connection has not registered a plugin"))
            }
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Not the generated service: it keeps the bytes of a request beside what they say while that is worked on.

struct RegisterPlugin(Arc<Front>);

#[async_trait]
impl MethodHandler for RegisterPlugin {
    async fn handler(&self, _: TtrpcContext, request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let request = bounded::parse(&request.payload.into(), MAX_REGISTER_ENTRIES).map_err(|error| unread(&error))?;
        let api::RegisterPluginRequest { plugin_name, plugin_idx, NRI_version: _, special_fields: _ } = request;
        self.0.register(&plugin_idx, &plugin_name)?;
        Ok(response(&api::Empty::new()))
    }
}

struct UpdateContainers(Arc<Front>);

#[async_trait]
impl MethodHandler for UpdateContainers {
    async fn handler(&self, context: TtrpcContext, request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let plugin = self.0.registered()?;
        drop(context);
        let (wanted, _weight) = self.read(request)?;
        let unread = Unread::of(&wanted);
        let api::UpdateContainersRequest { update, evict, special_fields: _ } = wanted;
        let updates = update.into_iter().map(Update::from).collect();
        let evictions = evict.into_iter().map(Eviction::from).collect();
        let policy = self.0.shared.roster().regime().policies.effective(&plugin, Declared::default()).policy;
        self.0.shared.records.unread(&records::unasked(&plugin, policy.mode), unread.into_iter().collect());
        let (failed, reason) = match (Unasked { updates, evictions }).apply(&self.0.shared, &plugin, &policy).await {
            Ok(failed) => (failed, None),
            Err(Undone::Failed(UpdatesFailed { reason, failed })) => (failed, Some(reason)),
            Err(Undone::NotAllowed(error)) => return Err(refusal(Code::PERMISSION_DENIED, &error.to_string())),
            Err(error @ Undone::Panicked) => return Err(refusal(Code::INTERNAL, &error.to_string())),
            Err(error @ Undone::TimedOut) => return Err(refusal(Code::DEADLINE_EXCEEDED, &error.to_string())),
        };
        Ok(failed_response(failed, reason))
    }
}

impl UpdateContainers {
    /// Reads a request, if there is room for what it becomes in memory.
    fn read(
        &self,
        request: ttrpc::Request,
    ) -> Result<(api::UpdateContainersRequest, OwnedSemaphorePermit), ttrpc::Error> {
        let payload = Bytes::from(request.payload);
        let (weight, wanted) =
            bounded::weigh(&payload, UPDATE_WEIGHT, budget::ENTRIES).map_err(|error| unread(&error))?;
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0.entries)
            .try_acquire_many_owned(weight)
            .map_err(|_| refusal(Code::RESOURCE_EXHAUSTED, "too many updates at a time"))?;
        Ok((wanted.parse_wanted().map_err(|error| unread(&error))?, permit))
    }
}

/// The response that lists the failed updates. If there is a reason, the response also has the status of an error: a Go
/// client then returns the error alone, ours returns both. The code is the one that Go's server gives a plain error.
fn failed_response(failed: Vec<Update>, reason: Option<String>) -> ttrpc::Response {
    let mut listed = api::UpdateContainersResponse::new();
    listed.failed = failed.into_iter().map(Into::into).collect();
    let Some(reason) = reason else { return response(&listed) };
    // The list alone may be as large as a message may be. The status must not be lost for the sake of the list.
    let mut room = MAX_MESSAGE - 2 * budget::TEXT;
    let fits = |update: &api::ContainerUpdate| {
        let size = usize::try_from(update.compute_size()).unwrap_or(usize::MAX).saturating_add(16);
        room.checked_sub(size).map(|left| room = left).is_some()
    };
    listed.failed = listed.failed.into_iter().take_while(fits).collect();
    let mut response = response(&listed);
    response.set_status(get_status(Code::UNKNOWN, budget::cut(&reason)));
    response
}

fn response(message: &impl Message) -> ttrpc::Response {
    let mut response = ttrpc::Response::new();
    response.payload = encode(message).into();
    response
}

/// As ttrpc's generated services have it.
fn unread(error: &BoundedError) -> ttrpc::Error {
    match error {
        BoundedError::TooMany(_) => refusal(Code::RESOURCE_EXHAUSTED, &error.to_string()),
        BoundedError::Malformed(cause) => refusal(Code::INVALID_ARGUMENT, &format!("{error}: {cause}")),
        BoundedError::Twice => refusal(Code::INVALID_ARGUMENT, &error.to_string()),
    }
}

fn refusal(code: Code, text: &str) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(get_status(code, text))
}
