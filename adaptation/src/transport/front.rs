//! Serves the calls of one peer, before and after its registration.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use nri_proto::mux::Mux;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use ttrpc::Code;

use crate::config::policy::{Declared, Identity, Policy};
use crate::limits;
use crate::operation::shared::Shared;
use crate::registry::admission::AdmitError;
use crate::registry::early::EarlyUpdates;
use crate::registry::join::Arrival;
use crate::transport::connection::{ConnectError, refusal};

/// The part of the request timeout for which an update waits until the plugin is admitted: 1 /
/// `EARLY_SHARE`. The wait is short because the plugin may make the call within a handler, and must
/// still answer in time.
const EARLY_SHARE: u32 = 4;

/// Serves the calls of one peer: its registration, then its updates.
pub(crate) struct PeerService {
    pub(crate) shared: Arc<Shared>,
    pub(crate) mux: Arc<Mux>,
    pub(crate) identity: Identity,
    /// The id of the plugin, if the runtime launched it.
    known: Option<PluginId>,
    phase: Mutex<PeerPhase>,
    pub(crate) early: Arc<EarlyUpdates>,
    /// The entries that the plugin's requests may have in memory at a time, as permits.
    pub(crate) entries: Arc<Semaphore>,
    /// Cancelled when no more requests of the peer are accepted. The connection ends when the
    /// requests that it has sent are answered.
    pub(crate) leaving: CancellationToken,
}

enum PeerPhase {
    New(oneshot::Sender<Result<Arrival, ConnectError>>),
    /// The id of the plugin, and the time until which its updates wait for its admission.
    Registered(PluginId, Instant),
    Refused,
}

impl PeerService {
    /// Creates the service for a peer that has not registered yet.
    pub(crate) fn new(
        shared: Arc<Shared>,
        mux: Arc<Mux>,
        (identity, known): (Identity, Option<PluginId>),
        register: oneshot::Sender<Result<Arrival, ConnectError>>,
    ) -> Self {
        let (phase, entries) = (Mutex::new(PeerPhase::New(register)), Arc::new(Semaphore::new(limits::ENTRIES)));
        let (early, leaving) = (Arc::default(), CancellationToken::new());
        Self { shared, mux, identity, known, phase, early, entries, leaving }
    }

    /// Reserves the place of a plugin, if it is permitted. As in upstream, the id of a launched
    /// plugin comes from its file name, not from its registration.
    fn arrive(&self, index: &str, name: &str) -> Result<Arrival, ConnectError> {
        let id = match &self.known {
            Some(id) => id.clone(),
            None => PluginId::new(index, name)?,
        };
        Ok(Arrival::begin(&self.shared, id, self.identity)?)
    }

    /// Registers the peer as a plugin, if it is permitted.
    pub(crate) fn register(&self, index: &str, name: &str) -> Result<(), ttrpc::Error> {
        let mut phase = self.phase();
        match std::mem::replace(&mut *phase, PeerPhase::Refused) {
            PeerPhase::New(register) => match self.arrive(index, name) {
                Ok(arrival) => {
                    self.mux.admit();
                    let roster = self.shared.roster();
                    let policies = &roster.config().policies;
                    let timeout = policies.effective(&arrival.id, Declared::default()).policy.request_timeout;
                    *phase = PeerPhase::Registered(arrival.id.clone(), Instant::now() + timeout / EARLY_SHARE);
                    drop(phase);
                    // If the receiver has given up, the connection ends anyway.
                    let _ = register.send(Ok(arrival));
                    Ok(())
                }
                Err(error) => {
                    let refusal = not_registered(&error);
                    let _ = register.send(Err(error));
                    Err(refusal)
                }
            },
            PeerPhase::Registered(..) | PeerPhase::Refused => {
                self.leaving.cancel();
                Err(refusal(Code::ALREADY_EXISTS, "this connection has registered a plugin already"))
            }
        }
    }

    /// Drops the early updates of the peer, because the peer does not become a plugin.
    pub(crate) fn give_up(&self) {
        let count = self.early.refuse();
        if let (true, Ok(plugin)) = (count > 0, self.registered()) {
            warn!(%plugin, count, "early updates dropped: the plugin was not admitted");
        }
    }

    /// Checks again that the plugin is permitted, and returns its policy.
    pub(crate) fn policy(&self, plugin: &PluginId) -> Result<Policy, ttrpc::Error> {
        let policy = self.shared.services.policy_now(plugin, self.identity);
        policy.map_err(|error| refusal(Code::PERMISSION_DENIED, &error.to_string()))
    }

    fn registered(&self) -> Result<PluginId, ttrpc::Error> {
        self.patience().map(|(id, _)| id)
    }

    /// Returns the id of the registered plugin, and the time until which its updates wait for its
    /// admission.
    pub(crate) fn patience(&self) -> Result<(PluginId, Instant), ttrpc::Error> {
        match &*self.phase() {
            PeerPhase::Registered(id, limit) => Ok((id.clone(), *limit)),
            PeerPhase::New(_) | PeerPhase::Refused => {
                Err(refusal(Code::FAILED_PRECONDITION, "this connection has not registered a plugin"))
            }
        }
    }

    fn phase(&self) -> MutexGuard<'_, PeerPhase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error for a peer that may not register.
fn not_registered(error: &ConnectError) -> ttrpc::Error {
    let code = match error {
        // The text is Go's, which plugins may depend on.
        ConnectError::Named(error) => return refusal(Code::INVALID_ARGUMENT, &error.to_string()),
        ConnectError::Admit(AdmitError::NotPermitted { .. }) => Code::PERMISSION_DENIED,
        ConnectError::Admit(AdmitError::Taken { .. } | AdmitError::Guarded { .. }) => Code::ALREADY_EXISTS,
        ConnectError::Admit(AdmitError::Full { .. } | AdmitError::Kept { .. }) => Code::RESOURCE_EXHAUSTED,
        ConnectError::Admit(_)
        | ConnectError::Io(_)
        | ConnectError::NotRegistered
        | ConnectError::Left(_)
        | ConnectError::Panicked
        | ConnectError::Stopped => Code::UNAVAILABLE,
    };
    let text = if let ConnectError::Admit(error) = error { error.with_cause() } else { error.to_string() };
    refusal(code, &text)
}
