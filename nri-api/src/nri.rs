//! The layer itself: its beginning and its end.

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

/// NRI, as a runtime has it. A clone is the same one.
///
/// Namespaces are [registered](Nri::register) first; then it is [started](Nri::start), and at the end [stopped](Nri::stop).
#[derive(Clone)]
pub struct Nri {
    /// There unless NRI is disabled.
    pub(crate) instance: Option<Arc<Instance>>,
}

impl Nri {
    /// NRI with these settings. If it is [disabled](Config::disable) nothing is made, and whatever is asked is answered at once: plugins want nothing.
    ///
    /// Its tasks run on the Tokio runtime that it is made in.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, unless it is disabled.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_metrics(config, Arc::new(NoMetrics))
    }

    /// The same, counted.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime, unless it is disabled.
    #[must_use]
    pub fn with_metrics(config: Config, metrics: Arc<dyn Metrics>) -> Self {
        Self { instance: (!config.disable).then(|| Instance::new(config, metrics)) }
    }

    /// From now on this is done wrong. For tests of this crate alone.
    #[cfg(feature = "mistakes")]
    #[doc(hidden)]
    pub fn make(&self, mistake: crate::Mistake) {
        // The first one counts.
        self.instance.iter().for_each(|instance| _ = instance.mistake.set(mistake));
    }

    /// Whether it is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.instance.is_some()
    }

    /// Registers the pods and containers of a namespace. The handle is the way in for them.
    ///
    /// # Errors
    ///
    /// There is one of this name, or it is too late.
    pub fn register(&self, namespace: &str, domain: Arc<dyn Domain>) -> Result<Handle, RegisterError> {
        self.add(namespace, domain, false)
    }

    /// The same for a namespace without pods: plugins see one for each container.
    ///
    /// # Errors
    ///
    /// There is one of this name, or it is too late.
    pub fn register_podless(&self, namespace: &str, domain: Arc<dyn Domain>) -> Result<PodlessHandle, RegisterError> {
        Ok(PodlessHandle::new(self.add(namespace, domain, true)?, namespace))
    }

    fn add(&self, name: &str, domain: Arc<dyn Domain>, is_podless: bool) -> Result<Handle, RegisterError> {
        let Some(instance) = &self.instance else { return Ok(Handle::new(None)) };
        if !instance.stages.is_new() {
            return Err(RegisterError::Started(name.to_owned()));
        }
        let namespace = Arc::new(Namespace::new(name, domain, is_podless));
        if !instance.domains.add(&namespace) {
            return Err(RegisterError::Taken(name.to_owned()));
        }
        Ok(Handle::new(Some(NamespaceClient { instance: Arc::clone(instance), namespace, deadline: None })))
    }

    /// Starts: learns from the domains what there is, launches plugins, lets others connect, and tells of exits that came too early. Until it has returned, requests are errors.
    ///
    /// # Errors
    ///
    /// A domain does not say what there is, or the directory of plugins or the socket cannot be used: then it may be tried again. Or it was started
    /// already, or stopped, after which it is not started any more.
    pub async fn start(&self) -> Result<(), StartError> {
        let Some(instance) = &self.instance else { return Ok(()) };
        let starting = instance.stages.start()?;
        instance.domains.fill().await.map_err(StartError::Domain)?;
        match Box::pin(instance.adaptation.launch()).await {
            // A start that came to nothing has done it.
            Ok(()) | Err(LaunchError::Twice) => {}
            Err(error) => return Err(error.into()),
        }
        if instance.stages.is_stopped() {
            return Err(StartError::Stopped);
        }
        instance.adaptation.listen()?;
        loop {
            let exits = starting.next_exits().ok_or(StartError::Stopped)?;
            if exits.is_empty() {
                return Ok(());
            }
            for EarlyExit { namespace, pod, container } in exits {
                NamespaceClient { instance: Arc::clone(instance), namespace, deadline: None }.exited(pod, container);
            }
        }
    }

    /// Stops: nothing is asked any more. What plugins are being told they are told to the end, whoever waits for it, and what they want stopped is stopped; then they are
    /// told to go, and nothing is left running.
    ///
    /// All of that has one deadline, [`source_timeout`](Config::source_timeout) from now; only to tell plugins to go takes its own
    /// [`shutdown_grace`](Config::shutdown_grace). What is not done by then is given up, logged and [counted](Nri::unfinished).
    pub async fn stop(&self) {
        let Some(instance) = &self.instance else { return };
        instance.stages.stop();
        let until = instance.domains.deadline();
        instance.finish(until).await;
        let until = until.max(Instant::now() + instance.farewell);
        if timeout_at(until, instance.adaptation.stop()).await.is_err() {
            warn!("NRI stops, although not all that plugins asked for has come to its end");
        }
    }

    /// How much of what was begun was not done when NRI had to [stop](Nri::stop): ends that plugins were not told of, and lists of
    /// evictions, which are in the [ledger](Nri::ledger), too.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.instance.as_ref().map(|instance| instance.n_left.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Lets a plugin in that is built into the runtime. It is told what there is, so NRI must have been started. It takes the place of one of the
    /// same id that is built in, too.
    ///
    /// # Errors
    ///
    /// It is too early, the plugin fails to be configured or synchronized, or one of its id was launched or has connected.
    pub async fn admit(&self, id: PluginId, plugin: Arc<dyn Plugin>) -> Result<(), AdmitError> {
        let Some(instance) = &self.instance else { return Ok(()) };
        if let Err(Error::NotStarted) = instance.stages.check() {
            return Err(AdmitError::NotStarted(id));
        }
        Ok(instance.adaptation.admit(id, plugin).await?)
    }

    /// Waits until no plugin is being synchronized: each that was is asked from now on, or closed.
    pub async fn settled(&self) {
        if let Some(instance) = &self.instance {
            instance.adaptation.settled().await;
        }
    }

    /// The plugins that there are, in the order in which they are asked.
    #[must_use]
    pub fn plugins(&self) -> Vec<PluginStatus> {
        self.instance.as_ref().map(|instance| instance.adaptation.plugins()).unwrap_or_default()
    }

    /// What happens from now on; nothing ever if NRI is disabled. A watcher that is too far behind is told how much was dropped.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Happening> {
        match &self.instance {
            Some(instance) => instance.adaptation.watch(),
            None => broadcast::channel(1).1,
        }
    }

    /// The same without [`Happening::Asked`], for who only looks on how plugins are doing: unless someone [watches](Nri::watch) everything, requests then cost nothing more.
    #[must_use]
    pub fn watch_plugins(&self) -> broadcast::Receiver<Happening> {
        match &self.instance {
            Some(instance) => instance.adaptation.watch_plugins(),
            None => broadcast::channel(1).1,
        }
    }

    /// Looks at who changed what. Nothing is recorded meanwhile, so look shortly: entries may be kept.
    pub fn ledger<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        match &self.instance {
            Some(instance) => instance.adaptation.ledger(look),
            None => look(&Ledger::new(0)),
        }
    }

    /// How many containers domains said to be alive in a pod that is not there, or has stopped. Those count as stopped: plugins are not
    /// shown them, and are told when they are removed.
    #[must_use]
    pub fn stray_containers(&self) -> u64 {
        self.instance.as_ref().map(|instance| instance.domains.n_stray()).unwrap_or_default()
    }

    /// How many exits plugins were not told of, because they came too early or too late, or of what they do not know.
    #[must_use]
    pub fn lost_exits(&self) -> LostExits {
        self.instance.as_ref().map(|instance| instance.stages.lost()).unwrap_or_default()
    }
}
