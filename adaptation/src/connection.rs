//! A connection, from its beginning until it is a plugin or is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::bounded;
use nri_proto::call::{Client, ServeLimits, Services, serve};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{Eviction, PluginId, Update, api, service};
use protobuf::MessageFull;
use protobuf::reflect::MessageDescriptor;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use ttrpc::r#async::{MethodHandler, TtrpcContext};
use ttrpc::{Code, get_status};

use crate::adaptation::{AdmitError, admit};
use crate::plugin::Plugin;
use crate::policy::Declared;
use crate::remote::{MAX_ENTRIES, Remote};
use crate::shared::Shared;

/// How many requests a plugin may have us work on.
const FROM_A_PLUGIN: ServeLimits = ServeLimits { requests: 40, bytes: 4 << 20 };
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
    #[error("NRI was stopped")]
    Stopped,
}

/// Makes a plugin of a connection: it registers, is configured, synchronized, and asked from then on.
pub(crate) async fn connect(shared: Arc<Shared>, stream: UnixStream) -> Result<(), ConnectError> {
    let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
    let (mux, [requests, served]) = Mux::on_unix(stream, ids, Limits::default())?;
    let mux = Arc::new(mux);
    let (register, registered) = oneshot::channel();
    let front = Arc::new(Front::new(Arc::clone(&shared), Arc::clone(&mux), register));
    let services = Arc::new(bounded_services(&front));
    let mut serving = shared.tasks.spawn(serve(served, services, FROM_A_PLUGIN, front.leaving.clone()));

    let outcome = tokio::select! {
        outcome = become_plugin(&shared, &mux, Client::new(requests), registered) => outcome,
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

/// What a peer can call, with a bound on what its requests become in memory.
fn bounded_services(front: &Arc<Front>) -> Services {
    let mut services = service::create_runtime(Arc::clone(front) as Arc<_>);
    for service in services.values_mut() {
        for (name, method) in std::mem::take(&mut service.methods) {
            let kind = match name.as_str() {
                "RegisterPlugin" => api::RegisterPluginRequest::descriptor(),
                _ => api::UpdateContainersRequest::descriptor(),
            };
            service.methods.insert(name, Box::new(Bounded { method, kind }));
        }
    }
    services
}

/// A method whose requests are looked at before they are read.
struct Bounded {
    method: Box<dyn MethodHandler + Send + Sync>,
    kind: MessageDescriptor,
}

#[async_trait]
impl MethodHandler for Bounded {
    async fn handler(&self, context: TtrpcContext, mut request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let payload = Bytes::from(request.payload);
        bounded::check(&self.kind, &payload, MAX_ENTRIES)
            .map_err(|error| refusal(Code::RESOURCE_EXHAUSTED, &error.to_string()))?;
        request.payload = payload.into();
        self.method.handler(context, request).await
    }
}

async fn become_plugin(
    shared: &Arc<Shared>,
    mux: &Arc<Mux>,
    client: Client,
    registered: oneshot::Receiver<Result<PluginId, String>>,
) -> Result<(), ConnectError> {
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
    if shared.roster().entries().len() >= shared.config.max_plugins {
        return Err(ConnectError::Full(shared.config.max_plugins));
    }
    let policy = shared.config.policies.effective(&id, Declared::default()).policy;
    let plugin: Arc<dyn Plugin> =
        Arc::new(Remote::new(Arc::clone(mux), client, policy.request_timeout, policy.sync_timeout));
    Ok(admit(shared, id, plugin, String::new()).await?)
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
    phase: Mutex<Phase>,
    /// No more of its requests are taken; the connection ends when those it has are answered.
    leaving: CancellationToken,
}

enum Phase {
    New(oneshot::Sender<Result<PluginId, String>>),
    Registered(PluginId),
    Refused,
}

impl Front {
    fn new(shared: Arc<Shared>, mux: Arc<Mux>, register: oneshot::Sender<Result<PluginId, String>>) -> Self {
        Self { shared, mux, phase: Mutex::new(Phase::New(register)), leaving: CancellationToken::new() }
    }

    fn register(&self, index: &str, name: &str) -> Result<(), ttrpc::Error> {
        let mut phase = self.phase();
        match std::mem::replace(&mut *phase, Phase::Refused) {
            Phase::New(register) => match PluginId::new(index, name) {
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

#[async_trait]
impl service::Runtime for Front {
    async fn register_plugin(
        &self,
        _: &TtrpcContext,
        request: api::RegisterPluginRequest,
    ) -> ttrpc::Result<api::Empty> {
        let api::RegisterPluginRequest { plugin_name, plugin_idx, NRI_version: _, special_fields: _ } = request;
        self.register(&plugin_idx, &plugin_name).map(|()| api::Empty::new())
    }

    async fn update_containers(
        &self,
        _: &TtrpcContext,
        request: api::UpdateContainersRequest,
    ) -> ttrpc::Result<api::UpdateContainersResponse> {
        let plugin = self.registered()?;
        let api::UpdateContainersRequest { update, evict, special_fields: _ } = request;
        let updates = update.into_iter().map(Update::from).collect();
        let evictions = evict.into_iter().map(Eviction::from).collect();
        let failed = self.shared.source.apply(&plugin, updates, evictions).await;
        if !failed.is_empty() {
            warn!(%plugin, count = failed.len(), "updates that the plugin asked for failed");
        }
        let failed = failed.into_iter().map(Into::into).collect();
        Ok(api::UpdateContainersResponse { failed, ..Default::default() })
    }
}

fn refusal(code: Code, text: &str) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(get_status(code, text))
}
