//! The entry point [`Nri`]: settings, namespaces, start and stop.
//!
//! - `admin`: methods of [`Nri`] for the operator of a running runtime.

mod admin;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nri_adaptation::ledger::Ledger;
use nri_adaptation::{Config, Happening, LaunchError, Metrics, NoMetrics, Plugin, PluginStatus};
use nri_proto::PluginId;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::client::NamespaceClient;
use crate::domain::Domain;
use crate::error::{AdmitError, Error, RegisterError, StartError};
use crate::handle::Handle;
use crate::handle::podless::PodlessHandle;
use crate::instance::Instance;
use crate::instance::startup::{EarlyExit, LostExits};
use crate::lifecycle::namespace::Namespace;

/// NRI for one runtime: the settings, the plugins and the namespaces. Clones share everything.
///
/// First [register](Nri::register) the namespaces, then [start](Nri::start) NRI, and at the end
/// [stop](Nri::stop) it.
#[derive(Clone)]
pub struct Nri {
    /// `None` if NRI is disabled.
    instance: Option<Arc<Instance>>,
}

impl Nri {
    /// Creates NRI with these settings. Its tasks run on the Tokio runtime of the caller.
    ///
    /// If the settings [disable](Config::disable) NRI, nothing is created, and each request returns
    /// at once as if there were no plugins.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, unless NRI is disabled.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_metrics(config, Arc::new(NoMetrics))
    }

    /// Creates NRI with these settings, as [`new`](Nri::new) does, and reports metrics.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, unless NRI is disabled.
    #[must_use]
    pub fn with_metrics(config: Config, metrics: Arc<dyn Metrics>) -> Self {
        Self { instance: (!config.disable).then(|| Instance::new(config, metrics)) }
    }

    /// Returns whether NRI is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.instance.is_some()
    }

    /// Registers a namespace of the runtime. The returned handle is the entry point for its pods
    /// and containers.
    ///
    /// # Errors
    ///
    /// There is a namespace of this name, or NRI was started.
    pub fn register(&self, namespace: &str, domain: Arc<dyn Domain>) -> Result<Handle, RegisterError> {
        self.add(namespace, domain, false)
    }

    /// Registers a namespace without pods. Plugins see a synthetic pod for each container.
    ///
    /// # Errors
    ///
    /// There is a namespace of this name, or NRI was started.
    pub fn register_podless(&self, namespace: &str, domain: Arc<dyn Domain>) -> Result<PodlessHandle, RegisterError> {
        Ok(PodlessHandle::new(self.add(namespace, domain, true)?, namespace))
    }

    fn add(&self, name: &str, domain: Arc<dyn Domain>, is_podless: bool) -> Result<Handle, RegisterError> {
        let Some(instance) = &self.instance else { return Ok(Handle::new(None)) };
        if !instance.startup.is_new() {
            return Err(RegisterError::Started(name.to_owned()));
        }
        let namespace = Arc::new(Namespace::new(name, domain, is_podless));
        if !instance.namespaces.add(&namespace) {
            return Err(RegisterError::Taken(name.to_owned()));
        }
        Ok(Handle::new(Some(NamespaceClient::new(instance, namespace))))
    }

    /// Starts NRI: reads the inventories of all domains, launches plugins, listens for others, and
    /// reports exits that came early. Until this returns, requests fail with
    /// [`Error::NotStarted`](crate::Error::NotStarted).
    ///
    /// # Errors
    ///
    /// - An inventory cannot be read, or the plugin directory or the socket cannot be used. The
    ///   start may be tried again.
    /// - NRI was started or stopped before. A stopped NRI cannot be started again.
    pub async fn start(&self) -> Result<(), StartError> {
        let Some(instance) = &self.instance else { return Ok(()) };
        let attempt = instance.startup.start()?;
        instance.namespaces.fill().await.map_err(StartError::Domain)?;
        match Box::pin(instance.adaptation.launch()).await {
            // An earlier start that failed has launched the plugins.
            Ok(()) | Err(LaunchError::Twice) => {}
            Err(error) => return Err(error.into()),
        }
        if instance.startup.is_stopped() {
            return Err(StartError::Stopped);
        }
        instance.adaptation.listen()?;
        loop {
            let exits = attempt.next_exits().ok_or(StartError::Stopped)?;
            if exits.is_empty() {
                return Ok(());
            }
            for EarlyExit { namespace, pod, container } in exits {
                NamespaceClient::new(instance, namespace).report_exit(pod, container);
            }
        }
    }

    /// Stops NRI. New requests fail with [`Error::Stopped`](crate::Error::Stopped). Notifications
    /// in progress are delivered, whether or not their callers wait, and evictions are carried out.
    /// Then the plugins are asked to shut down, and all tasks end.
    ///
    /// The first part has one deadline, [`source_timeout`](Config::source_timeout) from now. To ask
    /// plugins to shut down takes up to [`shutdown_grace`](Config::shutdown_grace). Work that is
    /// not done at the deadline is cancelled, logged and [counted](Nri::unfinished).
    pub async fn stop(&self) {
        let Some(instance) = &self.instance else { return };
        instance.startup.stop();
        let deadline = instance.namespaces.deadline();
        instance.finish_tasks(deadline).await;
        let deadline = deadline.max(Instant::now() + instance.shutdown_limit);
        if timeout_at(deadline, instance.adaptation.stop()).await.is_err() {
            warn!("the adaptation did not stop in time; no longer waiting for it");
        }
    }

    /// Returns how many tasks [`stop`](Nri::stop) has cancelled: ends that plugins were not told
    /// of, and lists of evictions. The [ledger](Nri::ledger) records the evictions.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.instance.as_ref().map(|instance| instance.n_unfinished.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Admits a plugin that is built into the runtime. The plugin is synchronized, so NRI must be
    /// started. The plugin replaces a built-in plugin of the same id.
    ///
    /// # Errors
    ///
    /// NRI is not started, the plugin fails to be configured or synchronized, or a plugin of this
    /// id was launched or has connected.
    pub async fn admit(&self, id: PluginId, plugin: Arc<dyn Plugin>) -> Result<(), AdmitError> {
        let Some(instance) = &self.instance else { return Ok(()) };
        if let Err(Error::NotStarted) = instance.startup.check() {
            return Err(AdmitError::NotStarted(id));
        }
        Ok(instance.adaptation.admit(id, plugin).await?)
    }

    /// Waits until no plugin is being synchronized. Each plugin that was is active or closed then.
    pub async fn settled(&self) {
        if let Some(instance) = &self.instance {
            instance.adaptation.settled().await;
        }
    }

    /// Returns the plugins, in the order in which they are asked.
    #[must_use]
    pub fn plugins(&self) -> Vec<PluginStatus> {
        self.instance.as_ref().map(|instance| instance.adaptation.plugins()).unwrap_or_default()
    }

    /// Subscribes to all events about plugins and requests from now on. A subscriber that is too
    /// far behind gets the number of dropped events. If NRI is disabled, there are no events.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Happening> {
        match &self.instance {
            Some(instance) => instance.adaptation.watch(),
            None => broadcast::channel(1).1,
        }
    }

    /// Subscribes to events as [`watch`](Nri::watch) does, except [`Happening::Asked`]. Unless
    /// there is a subscriber to all events, requests have no additional cost.
    #[must_use]
    pub fn watch_plugins(&self) -> broadcast::Receiver<Happening> {
        match &self.instance {
            Some(instance) => instance.adaptation.watch_plugins(),
            None => broadcast::channel(1).1,
        }
    }

    /// Calls `read` with the ledger: who changed what. Recording waits meanwhile, so return
    /// quickly; entries may be cloned.
    pub fn ledger<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        match &self.instance {
            Some(instance) => instance.adaptation.ledger(read),
            None => read(&Ledger::new(0)),
        }
    }

    /// Returns how many containers the domains reported as alive in a pod that is absent or has
    /// stopped. Such a container counts as stopped: plugins are not shown it, and are notified of
    /// its removal.
    #[must_use]
    pub fn stray_containers(&self) -> u64 {
        self.instance.as_ref().map(|instance| instance.namespaces.n_stray()).unwrap_or_default()
    }

    /// Returns how many exits plugins were not told of, because they came too early or too late, or
    /// because plugins do not know the container.
    #[must_use]
    pub fn lost_exits(&self) -> LostExits {
        self.instance.as_ref().map(|instance| instance.startup.lost_exits()).unwrap_or_default()
    }
}
