//! The adaptation as a whole: it is made, started, reloaded and stopped here.
//!
//! - `readiness.rs` says which required plugins are missing.
//! - `reload.rs` applies a new configuration to plugins that are connected.

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
use crate::ledger::{Ledger, Occasion, What};
use crate::limits;
use crate::operation::Operation;
use crate::operation::shared::{GOES_AWAY, Shared};
use crate::registry::admission::{AdmitError, Candidate, admit};
use crate::registry::join::Arrival;
use crate::session::roster::Participant;
use crate::transport::connection::{CHANNELS, PeerKind, take_in};
use crate::transport::listener::listen;
use crate::transport::socket::{BindError, Socket};

/// What the runtime knows of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginStatus {
    /// The plugin.
    pub id: PluginId,
    /// The identity of the plugin as the runtime knows it: its origin, and the user who connected.
    pub identity: Identity,
    /// What it subscribed to.
    pub events: EventMask,
    /// How it is doing.
    pub state: State,
    /// The policy that holds for it. It prints as one line, with who said what of it:
    /// `required=true (operator, by name), …`
    pub policy: Effective,
}

/// The runtime side of NRI. Dropping it leaves plugins without a word; [`Adaptation::stop`] tells
/// them.
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
        ConfigSnapshot::complain(&config);
        let shared = Shared::new(config, source, Watchers::new(metrics));
        shared.services.spawn(Arc::clone(&shared).watch_operations());
        Self { shared, is_launched: AtomicBool::new(false) }
    }

    /// Launches the plugins in the configured directory, and returns when each of them is asked, or
    /// has failed to join for the first time. From then on they are looked after: one that ends is
    /// started again after a pause, and programs that are added to the directory, replaced or
    /// removed are plugins accordingly, some seconds later. Without a directory there is nothing to
    /// do.
    ///
    /// A program is called as its plugin is, `10-logger`; what is called otherwise is reported and
    /// passed over. It is started as upstream has it: no arguments, three variables in its
    /// environment, its connection as file descriptor 3. What it writes goes to the log, as events
    /// of the target `nri_plugin`.
    ///
    /// To be called before [`Adaptation::listen`], so that those that connect by themselves come
    /// after.
    ///
    /// # Errors
    ///
    /// The directory is there and cannot be read in time, or others than root and the runtime's own
    /// user can change it: nothing is launched then, and this may be called again, as after a call
    /// that was dropped before it had looked there. Or plugins were launched before. What keeps a
    /// single plugin from being launched is reported and keeps no other.
    pub async fn launch(&self) -> Result<(), LaunchError> {
        launch(&self.shared, &self.is_launched).await
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
        let Some(path) = &self.shared.services.config.socket else { return Ok(()) };
        let socket = Socket::bind(path)?;
        self.shared.services.tasks.spawn(listen(Arc::clone(&self.shared), socket));
        Ok(())
    }

    /// Lets in whoever is at the other end of a connection that is there already, given as its two
    /// halves, as if they had connected to the socket. Nobody is asked who they are: a policy that
    /// binds the plugin's name to [users](crate::config::policy::Policy::uids) refuses them. If the
    /// user is known, [`Adaptation::attach_user`] takes it.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn attach<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.attach_as(None, reader, writer);
    }

    /// Lets in whoever is at the other end of a connection that is there already, as
    /// [`Adaptation::attach`] does. The runtime vouches for the user whose process that is.
    /// [`allowed_uids`](Config::allowed_uids) is not looked at.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
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

    /// Begins an act of the runtime that is about `pod`.
    #[must_use]
    pub fn begin(&self, pod: impl Into<Arc<Pod>>) -> Operation {
        Operation::new(Arc::clone(&self.shared), pod.into())
    }

    /// What happens from now on. A watcher that is too far behind is told how much was dropped.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Happening> {
        self.shared.services.watchers.subscribe()
    }

    /// The same without [`Happening::Asked`], for who only looks on how plugins are doing: unless
    /// someone [watches](Adaptation::watch) everything, requests then cost nothing more.
    #[must_use]
    pub fn watch_plugins(&self) -> broadcast::Receiver<Happening> {
        self.shared.services.watchers.subscribe_rare()
    }

    /// Looks at who changed what until now. Nobody waits for that.
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

    /// Writes into the ledger what the runtime knows and plugins do not say: that an update or
    /// eviction which a plugin had asked for could not be made.
    pub fn record(&self, occasion: &Occasion, what: What) {
        self.shared.services.records.ledger().record(occasion, what);
    }

    /// Whether the operator hides pods from any plugin.
    #[must_use]
    pub fn hides_pods(&self) -> bool {
        self.shared.roster().config().hides_any
    }

    /// Whether a plugin may see pods in this namespace of Kubernetes, and so may change what is in
    /// them; `None` if nobody knows the namespace. What plugins want is looked at before the
    /// runtime is asked to do it. A runtime in which another container may have taken the id since
    /// looks again with this when it does it.
    #[must_use]
    pub fn sees(&self, plugin: &PluginId, namespace: Option<&str>) -> bool {
        let roster = self.shared.roster();
        let policy = roster.config().policies.effective(plugin, Declared::default()).policy;
        policy.sees_all() || namespace.is_some_and(|namespace| policy.sees(namespace))
    }

    /// Waits until no plugin is being synchronized: each that was is asked from now on, or closed.
    pub async fn settled(&self) {
        // The sender lives as long as we do.
        let _ = self.shared.joining.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits until everything that was asked about a pod before this call has been answered, the
    /// undo of operations that failed included.
    pub async fn settled_pod(&self, pod: &str) {
        drop(self.shared.turns.enqueue(pod).turn().await);
    }

    /// The plugins that there are, in the order in which they are asked.
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

    /// Lets a plugin in: configures it, tells it what there is, and asks it from then on. It takes
    /// the place of one of the same id that is built in, too; one that was launched or has
    /// connected stays.
    ///
    /// # Errors
    ///
    /// The plugin fails one of the steps, or takes too long; or the operator does not permit it
    /// ([`origin`](crate::config::policy::Policy::origin),
    /// [`unnamed`](crate::config::policy::Policies::unnamed)). It is closed then.
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

    /// Tells plugins to go, closes them, and waits until nothing is left running.
    pub async fn stop(&self) {
        let roster = self.shared.stop();
        let telling = roster.entries().iter().map(|entry| entry.plugin.shutdown());
        let grace = self.shared.services.config.shutdown_grace;
        if timeout(grace, futures_util::future::join_all(telling)).await.is_err() {
            warn!("not every plugin heard in time that the runtime goes away");
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
