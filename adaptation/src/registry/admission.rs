//! Admits a plugin: configures it, synchronizes it, and tells it what has happened in the meantime.

use std::sync::Arc;

use nri_proto::{Event, EventMask, PluginId, StopReply, Update};
use thiserror::Error;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::api::error::Cause;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply};
use crate::api::snapshot::Snapshot;
use crate::api::source::SourceError;
use crate::config::policy::{Declared, Identity, NotPermitted, PluginOrigin, Policy};
use crate::operation::shared::Shared;
use crate::registry::early::{EarlyCall, EarlyUpdates};
use crate::registry::join::{ATTEMPTS, Arrival, Join, Newcomer};
use crate::session::PluginSession;
use crate::session::unsolicited::UnsolicitedChanges;

/// The name of the request that tells a plugin the existing pods and containers.
const SYNCHRONIZE: &str = "Synchronize";

/// Why a plugin was not admitted.
#[derive(Clone, Debug, Error)]
pub enum AdmitError {
    /// The plugin could not be configured.
    #[error("could not configure plugin {plugin}")]
    Configure {
        /// The plugin.
        plugin: PluginId,
        /// The cause.
        source: PluginError,
    },
    /// The plugin could not be synchronized.
    #[error("could not synchronize plugin {plugin}")]
    Synchronize {
        /// The plugin.
        plugin: PluginId,
        /// The cause.
        source: PluginError,
    },
    /// The plugin took too long for one step of its admission.
    #[error("plugin {plugin} took too long to be {step}")]
    TimedOut {
        /// The plugin.
        plugin: PluginId,
        /// The step: `configured` or `synchronized`.
        step: &'static str,
    },
    /// The runtime's [`Source`](crate::Source) failed, or refused the plugin.
    #[error("the runtime failed to synchronize plugin {plugin}")]
    Source {
        /// The plugin.
        plugin: PluginId,
        /// The cause.
        source: SourceError,
    },
    /// The plugin was closed while it was told what had happened since its snapshot.
    #[error("plugin {plugin} was closed while it caught up with events: {reason}")]
    Closed {
        /// The plugin.
        plugin: PluginId,
        /// The reason.
        reason: String,
    },
    /// The plugin did not catch up in several attempts: each time more happened than its journal
    /// holds, or its backlog did not become shorter.
    #[error(
        "plugin {plugin} did not catch up while it joined: more events happened than its journal holds, \
         or its backlog did not become shorter within catch_up_timeout"
    )]
    Overtaken {
        /// The plugin.
        plugin: PluginId,
    },
    /// The operator does not permit this peer to be the plugin.
    #[error("plugin {plugin} is not permitted")]
    NotPermitted {
        /// The plugin.
        plugin: PluginId,
        /// The cause.
        source: NotPermitted,
    },
    /// A plugin of the same id is present that reached the runtime in another way. If both were
    /// admitted, they would replace each other again and again.
    #[error(
        "plugin {plugin} is already present, {origin}: set plugins.{plugin}.origin to say which of the two is admitted"
    )]
    Taken {
        /// The plugin.
        plugin: PluginId,
        /// How the present plugin reached the runtime.
        origin: PluginOrigin,
    },
    /// A plugin of the same id is present, is required or a validator, and belongs to a process of
    /// another user.
    #[error(
        "plugin {plugin} is already present, {there}, and is {demand}: only the same user may replace it, \
         and the new one is {newcomer}: end the first before"
    )]
    Guarded {
        /// The plugin.
        plugin: PluginId,
        /// The identity of the plugin that is present.
        there: Identity,
        /// The identity of the plugin that was to replace it.
        newcomer: Identity,
        /// Why the present plugin is protected: `required` or `a validator`.
        demand: &'static str,
    },
    /// The maximum number of plugins is reached.
    #[error("no place for plugin {plugin}: there are {limit} plugins already (max_plugins)")]
    Full {
        /// The plugin.
        plugin: PluginId,
        /// The maximum number of plugins.
        limit: usize,
    },
    /// The remaining places are reserved for required plugins and validators that are absent.
    #[error(
        "no place for plugin {plugin}: of {limit} plugins (max_plugins) the last {kept} are reserved for required \
         plugins and validators"
    )]
    Kept {
        /// The plugin.
        plugin: PluginId,
        /// The maximum number of plugins.
        limit: usize,
        /// The number of reserved places.
        kept: usize,
    },
    /// The adaptation was stopped.
    #[error("NRI was stopped")]
    Stopped,
}

impl AdmitError {
    /// Returns the text of the error with that of its cause.
    pub(crate) fn with_cause(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}

/// A plugin that is to be admitted.
pub(crate) struct Candidate {
    pub(crate) plugin: Arc<dyn Plugin>,
    /// The configuration that the plugin gets.
    pub(crate) config: String,
    /// The updates that the plugin requests before it is admitted.
    pub(crate) early: Arc<EarlyUpdates>,
}

/// Admits a plugin. If that fails, subscribers are notified.
pub(crate) async fn admit(arrival: Arrival, candidate: Candidate) -> Result<(), AdmitError> {
    let admitted = try_admit(&arrival, candidate).await;
    if let Err(error) = &admitted {
        arrival.shared.is_refused(arrival.id.clone(), error.with_cause());
    }
    admitted
}

/// Configures, synchronizes and adds a plugin.
async fn try_admit(arrival: &Arrival, candidate: Candidate) -> Result<(), AdmitError> {
    let Arrival { shared, id, identity } = arrival;
    let Candidate { plugin, config, early } = candidate;
    let (wanted, declared) = configure(shared, id, plugin.as_ref(), config).await?;
    let _joining = Joining::begin(shared);
    let newcomer =
        Newcomer(PluginSession::new(id.clone(), *identity, wanted, declared, plugin, Arc::clone(&shared.services)));
    let events = newcomer.0.terms().events;
    if events != wanted {
        warn!(plugin = %id, %events, %wanted, "policy hides some of the events that the plugin subscribes to");
    }
    for _ in 0..ATTEMPTS {
        if join(shared, &newcomer.0, &early).await? {
            return Ok(());
        }
        // A reload may also have ended the join, so the permission is checked again.
        shared.check_place(id, *identity)?;
        warn!(plugin = %id, "plugin did not catch up with events while it joined; its join begins again");
    }
    Err(AdmitError::Overtaken { plugin: id.clone() })
}

/// Synchronizes a plugin, tells it what has happened since, and adds it. Returns false if the
/// plugin did not catch up.
async fn join(shared: &Arc<Shared>, entry: &Arc<PluginSession>, early: &EarlyUpdates) -> Result<bool, AdmitError> {
    let PluginSession { id, plugin, .. } = &**entry;
    // A reload may have happened since the plugin registered.
    shared.check_place(id, entry.identity)?;
    let joining = Join::begin(shared, entry)?;
    let snapshot = joining.snapshot().await?;
    // A reload may have happened while the runtime took the snapshot.
    let policy = shared.check_place(id, entry.identity)?;
    let updates = synchronize(shared, id, plugin.as_ref(), &policy, snapshot).await?;
    if entry.is_deaf() {
        return Ok(false);
    }
    // No update of the plugin was applied so far. A reload may have happened in the meantime, and
    // may have changed what the plugin is allowed to update.
    let policy = shared.check_place(id, entry.identity)?;
    settle(shared, entry, &policy, early.take(), updates)
        .await
        .map_err(|source| AdmitError::Source { plugin: id.clone(), source })?;
    if !joining.catch_up().await? {
        return Ok(false);
    }
    shared.add(entry)?;
    Ok(true)
}

/// Sends a plugin the existing pods and containers, and returns the updates that the plugin
/// requests. Counted in the metrics like any other request.
async fn synchronize(
    shared: &Shared,
    id: &PluginId,
    plugin: &dyn Plugin,
    policy: &Policy,
    snapshot: Snapshot,
) -> Result<Vec<Update>, AdmitError> {
    let begun = Instant::now();
    let synchronized = timeout(policy.sync_timeout, plugin.synchronize(snapshot)).await;
    let failure = match &synchronized {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(Cause::Plugin(error.clone())),
        Err(_) => Some(Cause::TimedOut),
    };
    let metrics = shared.services.watchers.metrics();
    metrics.latency(id, SYNCHRONIZE, begun.elapsed());
    metrics.invocation(id, SYNCHRONIZE, failure.as_ref());
    let updates = match synchronized {
        Ok(synchronized) => synchronized.map_err(|source| AdmitError::Synchronize { plugin: id.clone(), source })?,
        Err(_) => return Err(AdmitError::TimedOut { plugin: id.clone(), step: "synchronized" }),
    };
    metrics.adjustments(id, SYNCHRONIZE, &Reply::Stop(StopReply { updates: updates.clone(), ..StopReply::default() }));
    Ok(updates)
}

/// Applies the updates that a plugin has requested, early and in its answer to `Synchronize`, as
/// far as they are allowed. Failed updates are logged, because the wire has no field for them here.
/// If the runtime refuses the plugin, no update is applied.
///
/// The plugin has passed every check, but may still leave or fall behind before it is added. The
/// updates then stay applied. They are not applied after the plugin was added, because they would
/// overwrite what the plugin replies to later requests. Go applies them before the plugin is
/// active, too.
async fn settle(
    shared: &Shared,
    PluginSession { id, identity, .. }: &PluginSession,
    policy: &Policy,
    early: Vec<EarlyCall>,
    answered: Vec<Update>,
) -> Result<(), SourceError> {
    let is_allowed =
        |wanted: &UnsolicitedChanges| policy.allow.check_unasked(&wanted.updates, &wanted.evictions).is_ok();
    let (mut all, mut later) = (UnsolicitedChanges::updates(Vec::new()), Vec::new());
    let (wanted, _weights): (Vec<_>, Vec<_>) = early.into_iter().map(|early| (early.wanted, early.weight)).unzip();
    for wanted in wanted.into_iter().chain([UnsolicitedChanges::updates(answered)]) {
        if is_allowed(&wanted) {
            all.updates.extend(wanted.updates);
            all.evictions.extend(wanted.evictions);
        } else {
            later.push(wanted);
        }
    }
    synchronized(shared, id, policy, all.updates).await?;
    if !all.evictions.is_empty() {
        later.push(UnsolicitedChanges { updates: Vec::new(), evictions: all.evictions });
    }
    for wanted in later {
        // A reload may have happened since. A plugin that is no longer permitted is not added
        // either.
        let Ok(policy) = shared.check_place(id, *identity) else { break };
        // A call that is not allowed is refused alone, and the ledger records the refusal.
        let _ = wanted.apply(&shared.services, id, &policy).await;
    }
    Ok(())
}

/// Asks the runtime whether it accepts a synchronized plugin, and has the runtime apply the
/// plugin's updates.
async fn synchronized(
    shared: &Shared,
    id: &PluginId,
    policy: &Policy,
    updates: Vec<Update>,
) -> Result<(), SourceError> {
    let mut settled = None;
    if !updates.is_empty() {
        let place = &mut settled;
        let apply = move |updates, _evictions| async move {
            let (failed, outcome) = match shared.services.source.synchronized(id, updates).await {
                Ok(failed) => (failed, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            *place = Some(outcome);
            Ok(failed)
        };
        let _ = UnsolicitedChanges::updates(updates).apply_by(&shared.services, id, policy, apply).await;
    }
    if let Some(outcome) = settled {
        return outcome;
    }
    match timeout(shared.services.config.source_timeout, shared.services.source.synchronized(id, Vec::new())).await {
        Ok(outcome) => outcome.map(drop),
        Err(_) => Err(SourceError("the runtime did not accept or refuse the plugin in time".to_owned())),
    }
}

/// Configures a plugin. Returns the events that the plugin subscribes to, and its declarations.
async fn configure(
    shared: &Shared,
    id: &PluginId,
    plugin: &dyn Plugin,
    config: String,
) -> Result<(EventMask, Declared), AdmitError> {
    let before = shared.roster().config().policies.effective(id, Declared::default()).policy;
    let introduction = Introduction {
        config,
        runtime_name: shared.services.config.runtime_name.clone(),
        runtime_version: shared.services.config.runtime_version.clone(),
        nri_version: shared.services.config.nri_version.clone(),
        registration_timeout: shared.services.config.registration_timeout,
        request_timeout: before.request_timeout,
    };
    let subscription = match timeout(before.request_timeout, plugin.configure(introduction)).await {
        Ok(configured) => configured.map_err(|source| AdmitError::Configure { plugin: id.clone(), source })?,
        Err(_) => return Err(AdmitError::TimedOut { plugin: id.clone(), step: "configured" }),
    };
    if subscription.events.unknown != 0 {
        warn!(plugin = %id, events = %subscription.events, "plugin subscribes to unknown events; these are ignored");
    }
    let wanted = subscription.events.known;
    let declared = Declared {
        fail_request: subscription.declared.fail_request,
        keep_connected: subscription.declared.keep_connected,
        validates: wanted.contains(Event::ValidateContainerAdjustment),
    };
    Ok((wanted, declared))
}

/// Counts a plugin as being synchronized, until dropped.
struct Joining<'a>(&'a Shared);

impl<'a> Joining<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.joining.send_modify(|count| *count += 1);
        Self(shared)
    }
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        self.0.joining.send_modify(|count| *count -= 1);
    }
}
