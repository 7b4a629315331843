//! The adaptation as a whole: creation, start, reload and stop.
//!
//! - `readiness.rs` reports which required plugins are missing.
//! - `reload.rs` applies a new configuration to connected plugins.

pub(crate) mod readiness;
pub(crate) mod reload;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nri_proto::mux::Mux;
use nri_proto::{EventMask, PluginId, Pod};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;
use tokio::time::timeout;
use tracing::warn;

use crate::api::health::State;
use crate::api::plugin::Plugin;
use crate::api::source::Source;
use crate::config::Config;
use crate::config::policy::{Declared, Effective, Identity};
use crate::config::snapshot::ConfigSnapshot;
use crate::events::{Happening, Metrics, NoMetrics, Watchers};
use crate::launch::{LaunchError, launch};
use crate::ledger::{EntryKind, Ledger, Occasion};
use crate::limits;
use crate::operation::Operation;
use crate::operation::shared::{GOES_AWAY, Shared};
use crate::registry::admission::{AdmitError, Candidate, admit};
use crate::registry::join::Arrival;
use crate::session::roster::Participant;
use crate::transport::connection::{CHANNELS, PeerKind, take_in};
use crate::transport::listener::listen;
use crate::transport::socket::{BindError, Socket};

/// The status of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginStatus {
    /// The id of the plugin.
    pub id: PluginId,
    /// How the plugin came to the runtime, and the user who connected.
    pub identity: Identity,
    /// The events that the plugin subscribed to.
    pub events: EventMask,
    /// The health state of the plugin.
    pub state: State,
    /// The effective policy of the plugin. It displays as one line with the origin of each setting:
    /// `required=true (operator, by name), …`
    pub policy: Effective,
}

/// The runtime side of NRI. [`Adaptation::stop`] notifies plugins and closes them; a drop only
/// closes them.
pub struct Adaptation {
    pub(crate) shared: Arc<Shared>,
    is_launched: AtomicBool,
}

impl Adaptation {
    /// Creates an adaptation without plugins. Its tasks run on the current Tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    #[must_use]
    pub fn new(config: Config, source: Arc<dyn Source>) -> Self {
        Self::with_metrics(config, source, Arc::new(NoMetrics))
    }

    /// Creates an adaptation without plugins that reports to `metrics`.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    #[must_use]
    pub fn with_metrics(config: Config, source: Arc<dyn Source>, metrics: Arc<dyn Metrics>) -> Self {
        ConfigSnapshot::complain(&config);
        let shared = Shared::new(config, source, Watchers::new(metrics));
        shared.services.spawn(Arc::clone(&shared).watch_operations());
        Self { shared, is_launched: AtomicBool::new(false) }
    }

    /// Launches the plugins in the configured directory. Returns when each plugin has joined, or
    /// has failed its first attempt to join. Without a configured directory, nothing is launched.
    ///
    /// From then on the plugins are supervised: a plugin whose process ends is started again after
    /// a pause. Programs that are added to the directory, replaced or removed are started,
    /// restarted or stopped within seconds.
    ///
    /// The name of a program is the id of its plugin, such as `10-logger`. A program with another
    /// name is reported and skipped. A program is started as upstream starts plugins: without
    /// arguments, with three environment variables, and with its connection as file descriptor 3.
    /// Its output is logged with the target `nri_plugin`.
    ///
    /// Call this before [`Adaptation::listen`], so that launched plugins join before plugins that
    /// connect.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory exists and cannot be read in time, or if users other than
    /// root and the runtime's own user can change it. Nothing is launched then, and the call may be
    /// repeated. The call may also be repeated if its future was dropped before the directory was
    /// read. Otherwise a second call returns an error. A problem with a single plugin is reported
    /// as an event and in the log, and does not affect other plugins.
    pub async fn launch(&self) -> Result<(), LaunchError> {
        launch(&self.shared, &self.is_launched).await
    }

    /// Accepts plugins on the configured socket. Without a configured socket, this does nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be created.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn listen(&self) -> Result<(), BindError> {
        let config = &self.shared.services.config;
        let Some(path) = &config.socket else { return Ok(()) };
        let socket = match config.socket_gid {
            Some(gid) => Socket::bind_for_group(path, gid)?,
            None => Socket::bind(path)?,
        };
        self.shared.services.tasks.spawn(listen(Arc::clone(&self.shared), socket));
        Ok(())
    }

    /// Serves a plugin on an existing connection, given as its two halves, as if the plugin had
    /// connected to the socket. The user of the peer is unknown: if the policy binds the plugin's
    /// name to [users](crate::config::policy::Policy::uids), the plugin is refused, and it replaces
    /// no plugin that is [required](crate::config::policy::Policy::required) or a
    /// [validator](crate::config::policy::Policy::validator). If the user is known, call
    /// [`Adaptation::attach_user`] instead.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn attach<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.attach_as(None, reader, writer);
    }

    /// Serves a plugin on an existing connection, as [`Adaptation::attach`] does, for a peer of the
    /// user `uid`. The caller vouches for the user. [`allowed_uids`](Config::allowed_uids) is not
    /// checked.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn attach_user<R, W>(&self, uid: u32, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.attach_as(Some(uid), reader, writer);
    }

    fn attach_as<R, W>(&self, uid: Option<u32>, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (mux, channels) = Mux::over(reader, writer, CHANNELS, limits::CONNECTION);
        let shared = Arc::clone(&self.shared);
        self.shared.services.spawn(async move {
            let peer = PeerKind::Connected { uid };
            if let Err(error) = take_in(Arc::clone(&shared), Arc::new(mux), channels, peer).await {
                error.log(&shared, uid, None);
            }
        });
    }

    /// Begins an operation about `pod`. Requests to plugins are made on the operation.
    #[must_use]
    pub fn begin(&self, pod: impl Into<Arc<Pod>>) -> Operation {
        Operation::new(Arc::clone(&self.shared), pod.into())
    }

    /// Subscribes to all events from now on. A receiver that lags too far behind learns how many
    /// events it missed.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Happening> {
        self.shared.services.watchers.subscribe()
    }

    /// Subscribes to all events except [`Happening::Asked`]. Unless another subscriber
    /// [watches](Adaptation::watch) all events, requests have no cost for the event stream.
    #[must_use]
    pub fn watch_plugins(&self) -> broadcast::Receiver<Happening> {
        self.shared.services.watchers.subscribe_rare()
    }

    /// Runs `look` on a copy of the ledger. Requests do not wait for `look`.
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
        let ledger = self.shared.services.records.ledger().clone();
        look(&ledger)
    }

    /// Records in the ledger that the runtime could not apply an update or eviction that a plugin
    /// had asked for.
    pub fn record(&self, occasion: &Occasion, what: EntryKind) {
        self.shared.services.records.ledger().record(occasion, what);
    }

    /// Returns whether a policy hides pods from any plugin.
    #[must_use]
    pub fn hides_pods(&self) -> bool {
        self.shared.roster().config().hides_any
    }

    /// Returns whether a plugin may see pods in a Kubernetes namespace, and so may change their
    /// containers. `None` stands for an unknown namespace.
    ///
    /// The adaptation checks this before it asks the runtime to apply the updates of a plugin. If
    /// another container may have got the same id since, the runtime has to check again when it
    /// applies the update.
    #[must_use]
    pub fn sees(&self, plugin: &PluginId, namespace: Option<&str>) -> bool {
        let roster = self.shared.roster();
        let policy = roster.config().policies.effective(plugin, Declared::default()).policy;
        policy.sees_all() || namespace.is_some_and(|namespace| policy.sees(namespace))
    }

    /// Waits until no plugin is being synchronized: each of them has joined or was closed.
    pub async fn settled(&self) {
        // The sender lives as long as the adaptation.
        let _ = self.shared.joining.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits until all requests about a pod that were made before this call have been answered,
    /// including the rollback of operations that failed.
    pub async fn settled_pod(&self, pod: &str) {
        drop(self.shared.turns.enqueue(pod).turn().await);
    }

    /// Returns the plugins that have joined, in the order in which they are asked.
    #[must_use]
    pub fn plugins(&self) -> Vec<PluginStatus> {
        let status = |entry: &Participant| PluginStatus {
            id: entry.id.clone(),
            identity: entry.identity,
            events: entry.terms.events,
            state: entry.state(),
            policy: entry.terms.effective.clone(),
        };
        self.shared.roster().entries().iter().map(status).collect()
    }

    /// Admits a built-in plugin: configures it, sends it the existing pods and containers, and asks
    /// it from then on. The plugin replaces a built-in plugin with the same id. A launched or
    /// connected plugin with the same id is not replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin fails one of the steps or takes too long, or if the operator
    /// does not permit the plugin ([`origin`](crate::config::policy::Policy::origin),
    /// [`unnamed`](crate::config::policy::Policies::unnamed)). The plugin is closed then.
    pub async fn admit(&self, id: PluginId, plugin: Arc<dyn Plugin>) -> Result<(), AdmitError> {
        let candidate = Candidate { plugin: Arc::clone(&plugin), config: String::new(), early: Arc::default() };
        let admitted = match Arrival::begin(&self.shared, id, Identity::BUILT_IN) {
            Ok(arrival) => admit(arrival, candidate).await,
            Err(error) => Err(error),
        };
        if admitted.is_err() {
            plugin.close();
        }
        admitted
    }

    /// Notifies all plugins of the shutdown, closes them, and waits until all tasks have ended.
    pub async fn stop(&self) {
        let roster = self.shared.stop();
        let telling = roster.entries().iter().map(|entry| entry.plugin.shutdown());
        let grace = self.shared.services.config.shutdown_grace;
        if timeout(grace, futures_util::future::join_all(telling)).await.is_err() {
            warn!("not all plugins acknowledged the shutdown in time");
        }
        for entry in roster.entries() {
            entry.close(GOES_AWAY);
        }
        self.shared.services.tasks.close();
        self.shared.services.tasks.wait().await;
    }
}

impl Drop for Adaptation {
    fn drop(&mut self) {
        for entry in self.shared.stop().entries() {
            entry.close(GOES_AWAY);
        }
    }
}
