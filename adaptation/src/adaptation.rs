//! The adaptation itself: its beginning and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nri_proto::mux::Mux;
use nri_proto::{Event, EventMask, PluginId, Pod, StopReply, Update};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::budget;
use crate::cause::Cause;
use crate::config::Config;
use crate::connection::{CHANNELS, take_in};
use crate::entry::Entry;
use crate::events::{Happening, Metrics, NoMetrics, Watchers};
use crate::health::State;
use crate::join::{ATTEMPTS, Arrival, Join, Newcomer};
use crate::launch::{LaunchError, launch};
use crate::ledger::{Ledger, Occasion, What};
use crate::listener::listen;
use crate::operation::Operation;
use crate::plugin::{Introduction, Plugin, PluginError, Reply};
use crate::policy::{Declared, Policy};
use crate::shared::{GOES_AWAY, Shared};
use crate::snapshot::Snapshot;
use crate::socket::{BindError, Socket};
use crate::source::{Source, SourceError};
use crate::unasked::Unasked;

/// The name of the request that tells a plugin what there is.
const SYNCHRONIZE: &str = "Synchronize";

/// Why a plugin was not let in.
#[derive(Clone, Debug, Error)]
pub enum AdmitError {
    /// It could not be configured.
    #[error("could not configure plugin {plugin}")]
    Configure {
        /// The plugin.
        plugin: PluginId,
        /// Why.
        source: PluginError,
    },
    /// It could not be synchronized.
    #[error("could not synchronize plugin {plugin}")]
    Synchronize {
        /// The plugin.
        plugin: PluginId,
        /// Why.
        source: PluginError,
    },
    /// It took too long.
    #[error("plugin {plugin} took too long to be {step}")]
    TimedOut {
        /// The plugin.
        plugin: PluginId,
        /// For what.
        step: &'static str,
    },
    /// The runtime does not want it.
    #[error("the runtime failed to synchronize plugin {plugin}")]
    Source {
        /// The plugin.
        plugin: PluginId,
        /// Why.
        source: SourceError,
    },
    /// It was closed while it was told what had happened since it was synchronized.
    #[error("plugin {plugin} was closed before it had heard what happened meanwhile: {reason}")]
    Closed {
        /// The plugin.
        plugin: PluginId,
        /// Why.
        reason: String,
    },
    /// However often it was synchronized, more happened meanwhile than is kept for it.
    #[error("more happened than is kept for plugin {plugin} while it was synchronized")]
    Overtaken {
        /// The plugin.
        plugin: PluginId,
    },
    /// There are as many plugins as there may be.
    #[error("there are {limit} plugins already, {plugin} would be one more")]
    Full {
        /// The plugin.
        plugin: PluginId,
        /// How many there may be.
        limit: usize,
    },
    /// The adaptation was stopped.
    #[error("NRI was stopped")]
    Stopped,
}

/// What the runtime knows of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginStatus {
    /// The plugin.
    pub id: PluginId,
    /// What it subscribed to.
    pub events: EventMask,
    /// How it is doing.
    pub state: State,
}

/// The runtime side of NRI. Dropping it leaves plugins without a word; [`Adaptation::stop`] tells them.
pub struct Adaptation {
    pub(crate) shared: Arc<Shared>,
    is_launched: AtomicBool,
}

impl Adaptation {
    /// An adaptation without plugins. Its tasks run on the Tokio runtime that it is made in.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn new(config: Config, source: Arc<dyn Source>) -> Self {
        Self::with_metrics(config, source, Arc::new(NoMetrics))
    }

    /// The same, counted.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn with_metrics(config: Config, source: Arc<dyn Source>, metrics: Arc<dyn Metrics>) -> Self {
        let shared = Shared::new(config, source, Watchers::new(metrics));
        shared.spawn(Arc::clone(&shared).watch_operations());
        Self { shared, is_launched: AtomicBool::new(false) }
    }

    /// Launches the plugins in the configured directory, and returns when each of them is asked, or has failed to join for
    /// the first time. From then on they are looked after: one that ends is started again after a pause, and programs that
    /// are added to the directory, replaced or removed are plugins accordingly, some seconds later. Without a directory
    /// there is nothing to do.
    ///
    /// A program is called as its plugin is, `10-logger`; what is called otherwise is reported and passed over. It is
    /// started as upstream has it: no arguments, three variables in its environment, its connection as file descriptor 3.
    /// What it writes goes to the log, as events of the target `nri_plugin`.
    ///
    /// To be called before [`Adaptation::listen`], so that those that connect by themselves come after.
    ///
    /// # Errors
    ///
    /// The directory is there and cannot be read, or everyone may write to it; or this was called before. Nothing is
    /// launched then. What keeps a single plugin from being launched is reported and keeps no other.
    pub async fn launch(&self) -> Result<(), LaunchError> {
        if self.is_launched.swap(true, Ordering::Relaxed) {
            return Err(LaunchError::Twice);
        }
        launch(&self.shared).await
    }

    /// Lets plugins connect to the configured socket. Without one there is nothing to do.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn listen(&self) -> Result<(), BindError> {
        let Some(path) = &self.shared.config.socket else { return Ok(()) };
        let socket = Socket::bind(path)?;
        self.shared.tasks.spawn(listen(Arc::clone(&self.shared), socket));
        Ok(())
    }

    /// Lets in whoever is at the other end of a connection that is there already, given as its two halves, as if they had
    /// connected to the socket. Nobody is asked who they are.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn attach<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (mux, channels) = Mux::over(reader, writer, CHANNELS, budget::CONNECTION);
        let shared = Arc::clone(&self.shared);
        self.shared.spawn(async move {
            if let Err(error) = take_in(shared, Arc::new(mux), channels, None).await {
                warn!(error = &error as &dyn std::error::Error, "a peer did not become a plugin");
            }
        });
    }

    /// Begins an act of the runtime that is about `pod`.
    #[must_use]
    pub fn begin(&self, pod: impl Into<Arc<Pod>>) -> Operation {
        Operation::new(Arc::clone(&self.shared), pod.into())
    }

    /// What happens from now on. A watcher that is too far behind is told how much was dropped.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Happening> {
        self.shared.watchers.subscribe()
    }

    /// The same without [`Happening::Asked`], for who only looks on how plugins are doing: unless someone
    /// [watches](Adaptation::watch) everything, requests then cost nothing more.
    #[must_use]
    pub fn watch_plugins(&self) -> broadcast::Receiver<Happening> {
        self.shared.watchers.subscribe_rare()
    }

    /// Looks at who changed what. Nothing is recorded meanwhile, so look shortly: entries may be kept.
    ///
    /// ```
    /// # use nri_adaptation::{Adaptation, ledger::Ledger};
    /// fn print_all(nri: &Adaptation) {
    ///     for entry in nri.ledger(Ledger::all) {
    ///         println!("{entry}");
    ///     }
    /// }
    /// ```
    pub fn ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.shared.records.ledger())
    }

    /// Writes into the ledger what the runtime knows and plugins do not say: that an update or eviction which a plugin had asked for could
    /// not be made.
    pub fn record(&self, occasion: &Occasion, what: What) {
        self.shared.records.ledger().record(occasion, what);
    }

    /// Waits until no plugin is being synchronized: each that was is asked from now on, or closed.
    pub async fn settled(&self) {
        // The sender lives as long as we do.
        let _ = self.shared.joining.subscribe().wait_for(|count| *count == 0).await;
    }

    /// The plugins that there are, in the order in which they are asked.
    #[must_use]
    pub fn plugins(&self) -> Vec<PluginStatus> {
        let status =
            |entry: &Arc<Entry>| PluginStatus { id: entry.id.clone(), events: entry.events, state: entry.state() };
        self.shared.roster().entries().iter().map(status).collect()
    }

    /// Lets a plugin in: configures it, tells it what there is, and asks it from then on.
    ///
    /// # Errors
    ///
    /// The plugin fails one of the steps, or takes too long. It is closed then.
    pub async fn admit(&self, id: PluginId, plugin: Arc<dyn Plugin>) -> Result<(), AdmitError> {
        let admitted = admit(&self.shared, id, Arc::clone(&plugin), String::new()).await;
        if admitted.is_err() {
            plugin.close();
        }
        admitted
    }

    /// Tells plugins to go, closes them, and waits until nothing is left running.
    pub async fn stop(&self) {
        let roster = self.shared.stop();
        let telling = roster.entries().iter().map(|entry| entry.plugin.shutdown());
        let grace = self.shared.config.shutdown_grace;
        if timeout(grace, futures_util::future::join_all(telling)).await.is_err() {
            warn!("not every plugin heard in time that the runtime goes away");
        }
        for entry in roster.entries() {
            entry.close(GOES_AWAY);
        }
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Adaptation {
    fn drop(&mut self) {
        for entry in self.shared.stop().entries() {
            entry.close(GOES_AWAY);
        }
    }
}

/// Lets a plugin in. Whoever watches is told if it fails.
pub(crate) async fn admit(
    shared: &Arc<Shared>,
    id: PluginId,
    plugin: Arc<dyn Plugin>,
    config: String,
) -> Result<(), AdmitError> {
    let _arrival = Arrival::begin(shared, &id);
    let admitted = try_admit(shared, id.clone(), plugin, config).await;
    if let Err(error) = &admitted {
        let reason = match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        let happening = match shared.roster().has(&id) {
            true => Happening::Refused { plugin: id, reason },
            false => Happening::Closed { plugin: id, reason },
        };
        shared.watchers.tell(happening);
    }
    admitted
}

/// Configures, synchronizes and adds a plugin.
async fn try_admit(
    shared: &Arc<Shared>,
    id: PluginId,
    plugin: Arc<dyn Plugin>,
    config: String,
) -> Result<(), AdmitError> {
    let (events, effective) = configure(shared, &id, plugin.as_ref(), config).await?;
    let _joining = Joining::begin(shared);
    let newcomer = Newcomer(Entry::new(id.clone(), events, effective.policy.clone(), plugin, Arc::clone(shared)));
    for _ in 0..ATTEMPTS {
        if join(shared, &newcomer.0).await? {
            shared.watchers.tell(Happening::Joined { plugin: id, events, policy: effective.to_string() });
            return Ok(());
        }
        warn!(plugin = %id, "more happened than is kept for a plugin that joins: it begins anew");
    }
    Err(AdmitError::Overtaken { plugin: id })
}

/// Tells a plugin what there is and what has happened since, and adds it. False if more happened meanwhile than was kept for it.
async fn join(shared: &Arc<Shared>, entry: &Arc<Entry>) -> Result<bool, AdmitError> {
    let Entry { id, policy, plugin, .. } = &**entry;
    let joining = Join::begin(shared, entry)?;
    let updates = synchronize(shared, id, plugin.as_ref(), policy, joining.snapshot().await?).await?;
    if entry.is_deaf() {
        return Ok(false);
    }
    settle(shared, id, policy, updates).await.map_err(|source| AdmitError::Source { plugin: id.clone(), source })?;
    if !joining.catch_up().await? {
        return Ok(false);
    }
    shared.add(entry)?;
    Ok(true)
}

/// Tells a plugin what there is. Counted like any other request.
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
    let metrics = shared.watchers.metrics();
    metrics.latency(id, SYNCHRONIZE, begun.elapsed());
    metrics.invocation(id, SYNCHRONIZE, failure.as_ref());
    let updates = match synchronized {
        Ok(synchronized) => synchronized.map_err(|source| AdmitError::Synchronize { plugin: id.clone(), source })?,
        Err(_) => return Err(AdmitError::TimedOut { plugin: id.clone(), step: "synchronized" }),
    };
    metrics.adjustments(id, SYNCHRONIZE, &Reply::Stop(StopReply { updates: updates.clone(), ..StopReply::default() }));
    Ok(updates)
}

/// Has the runtime make the updates that a plugin asked for when it was synchronized, as far as it may. What fails of
/// them is logged: the wire has no place for it here.
async fn settle(shared: &Shared, id: &PluginId, policy: &Policy, updates: Vec<Update>) -> Result<(), SourceError> {
    let mut settled = None;
    if !updates.is_empty() {
        let place = &mut settled;
        let apply = move |updates, _evictions| async move {
            let (failed, outcome) = match shared.source.synchronized(id, updates).await {
                Ok(failed) => (failed, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            *place = Some(outcome);
            failed
        };
        let _ = Unasked::updates(updates).apply_by(shared, id, policy, apply).await;
    }
    if let Some(outcome) = settled {
        return outcome;
    }
    match timeout(shared.config.source_timeout, shared.source.synchronized(id, Vec::new())).await {
        Ok(outcome) => outcome.map(drop),
        Err(_) => Err(SourceError("it did not say in time whether it wants the plugin".to_owned())),
    }
}

async fn configure(
    shared: &Shared,
    id: &PluginId,
    plugin: &dyn Plugin,
    config: String,
) -> Result<(EventMask, crate::policy::Effective), AdmitError> {
    let before = shared.config.policies.effective(id, Declared::default()).policy;
    let introduction = Introduction {
        config,
        runtime_name: shared.config.runtime_name.clone(),
        runtime_version: shared.config.runtime_version.clone(),
        nri_version: shared.config.nri_version.clone(),
        registration_timeout: shared.config.registration_timeout,
        request_timeout: before.request_timeout,
    };
    let subscription = match timeout(before.request_timeout, plugin.configure(introduction)).await {
        Ok(configured) => configured.map_err(|source| AdmitError::Configure { plugin: id.clone(), source })?,
        Err(_) => return Err(AdmitError::TimedOut { plugin: id.clone(), step: "configured" }),
    };
    if subscription.events.unknown != 0 {
        warn!(plugin = %id, events = %subscription.events, "plugin asks for events that we do not know");
    }
    let declared = Declared {
        fail_request: subscription.declared.fail_request,
        keep_connected: subscription.declared.keep_connected,
        validates: false,
    };
    let validates = subscription.events.known.contains(Event::ValidateContainerAdjustment);
    let effective = shared.config.policies.effective(id, Declared { validates, ..declared });
    let is_allowed = |event: &Event| effective.policy.allow.allows_event(*event);
    let events: EventMask = subscription.events.known.iter().filter(is_allowed).collect();
    if events != subscription.events.known {
        warn!(plugin = %id, %events, wanted = %subscription.events.known, "plugin may not see all that it asks for");
    }
    Ok((events, effective))
}

/// Counts a plugin that is being synchronized.
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
