//! What all clones of an [`Nri`](crate::Nri) and of its handles share.

pub(crate) mod log_limit;
pub(crate) mod namespaces;
pub(crate) mod startup;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use nri_adaptation::ledger::{Occasion, What};
use nri_adaptation::merge::AskedEviction;
use nri_adaptation::{Adaptation, Config, Metrics};
use nri_proto::quote::{line, quoted};
use nri_proto::{Event, Owners, PluginId, Pod, Update};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::domain::timeout::chain;
use crate::instance::log_limit::{LogLimit, excerpt};
use crate::instance::namespaces::{ChangeError, FailedUpdate, Namespaces, Requester, RoutedChanges};
use crate::instance::startup::Startup;
use crate::lifecycle::namespace::Namespace;
use crate::mistake::Mistake;

/// What the adaptation takes to close plugins that have heard that they are to go.
const MARGIN: Duration = Duration::from_secs(1);

/// Who wants an update that sets nothing: nobody owns any of it.
const NOBODY: &str = "(nobody)";

/// What one runtime has of NRI.
pub(crate) struct Instance {
    pub(crate) adaptation: Adaptation,
    pub(crate) domains: Arc<Namespaces>,
    pub(crate) stages: Startup,
    pub(crate) tasks: TaskTracker,
    /// Rung when nothing is waited for any more.
    pub(crate) over: CancellationToken,
    /// How much was left then.
    pub(crate) n_left: AtomicU64,
    /// How long the adaptation may take to let plugins go.
    pub(crate) farewell: Duration,
    runtime: Handle,
    /// What a test has us do wrong.
    #[cfg(feature = "mistakes")]
    pub(crate) mistake: std::sync::OnceLock<Mistake>,
}

/// In what plugins asked for something.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) event: Event,
    pub(crate) pod: Arc<Pod>,
}

impl Instance {
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub(crate) fn new(config: Config, metrics: Arc<dyn Metrics>) -> Arc<Self> {
        Arc::new_cyclic(|instance| {
            let domains = Arc::new(Namespaces::new(config.source_timeout, instance.clone()));
            let source = Arc::clone(&domains);
            let farewell = config.shutdown_grace + MARGIN;
            Self {
                adaptation: Adaptation::with_metrics(config, source, metrics),
                domains,
                stages: Startup::default(),
                tasks: TaskTracker::new(),
                over: CancellationToken::new(),
                n_left: AtomicU64::new(0),
                farewell,
                runtime: Handle::current(),
                #[cfg(feature = "mistakes")]
                mistake: std::sync::OnceLock::new(),
            }
        })
    }

    /// Whether a test has us do this wrong.
    #[cfg(feature = "mistakes")]
    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake.get() == Some(&mistake)
    }

    /// Nobody has us do anything wrong.
    #[cfg(not(feature = "mistakes"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn makes(&self, _: Mistake) -> bool {
        false
    }

    /// Tells plugins of an end in a task that [`Nri::stop`](crate::Nri::stop) waits for. False if nothing is told any more.
    pub(crate) fn tell(&self, end: impl Future<Output = ()> + Send + 'static) -> bool {
        let over = self.over.clone();
        let goes_on = !over.is_cancelled();
        if goes_on {
            let telling = async move { _ = over.run_until_cancelled(end).await };
            self.tasks.spawn_on(telling, &self.runtime);
        }
        goes_on
    }

    /// Waits until all that is being done is done, and until then at most. Nothing is done from then on.
    pub(crate) async fn finish(&self, until: Instant) {
        self.tasks.close();
        if timeout_at(until, self.tasks.wait()).await.is_err() {
            let left = self.tasks.len();
            warn!(left, "NRI stops, although plugins were not told of all that has ended");
            self.n_left.fetch_max(left as u64, Ordering::Relaxed);
        }
        self.over.cancel();
    }

    /// Makes updates that plugins asked for in a request. What fails is in the ledger.
    pub(crate) async fn update(
        &self,
        own: &Arc<Namespace>,
        asked: RequestContext,
        updates: Vec<Update>,
        owners: &Owners,
    ) {
        if updates.is_empty() {
            return;
        }
        for FailedUpdate { update, reason } in
            self.domains.update(Some(own), updates, Requester::Owners(owners), self.domains.deadline()).await
        {
            let id = &update.container_id;
            let mut plugins = plugins_of(owners, id);
            if plugins.is_empty() {
                plugins.insert(NOBODY);
            }
            for plugin in plugins {
                self.update_failed(plugin, Some(&asked), id, reason.clone());
            }
        }
    }

    /// Whether plugins that want something of a container in a namespace may see the container's pod.
    pub(crate) fn lets(&self, by: Requester<'_>, namespace: &Namespace, container: &str) -> bool {
        if !self.adaptation.hides_pods() {
            return true;
        }
        let namespace = namespace.pods_namespace(container).flatten();
        let sees = |plugin: &PluginId| self.adaptation.sees(plugin, namespace.as_deref());
        match by {
            Requester::Plugin(plugin) => sees(plugin),
            Requester::Owners(owners) => {
                plugins_of(owners, container).iter().all(|id| id.parse().is_ok_and(|id| sees(&id)))
            }
        }
    }

    /// Writes down that an update was not made.
    pub(crate) fn update_failed(&self, plugin: &str, asked: Option<&RequestContext>, container: &str, reason: String) {
        self.adaptation.record(&occasion(plugin, asked, container), What::UpdateFailed { reason });
    }

    /// Stops containers that plugins want stopped, in a task: nobody waits for that but [`Nri::stop`](crate::Nri::stop). All of them have one deadline. What
    /// fails is in the ledger.
    pub(crate) fn evict(
        self: &Arc<Self>,
        own: Option<Arc<Namespace>>,
        wanted: Vec<AskedEviction>,
        asked: Option<RequestContext>,
    ) {
        if wanted.is_empty() {
            return;
        }
        let (instance, until) = (Arc::clone(self), self.domains.deadline());
        let evicting = async move {
            let may = |it: &AskedEviction, namespace: &Namespace| {
                instance.lets(Requester::Plugin(&it.plugin), namespace, &it.eviction.container_id)
            };
            let RoutedChanges { of_namespaces, nowhere } =
                instance.domains.sort(own.as_ref(), wanted, |it| &it.eviction.container_id, may);
            let (warnings, asked) = (LogLimit::default(), asked.as_ref());
            for (AskedEviction { plugin, eviction }, unmade) in nowhere {
                instance.eviction_failed(&plugin, asked, &eviction.container_id, &unmade, &warnings);
            }
            // One that hangs takes the time of its own evictions alone.
            let of_namespace = |(namespace, wanted)| instance.evict_from(namespace, wanted, asked, until, &warnings);
            join_all(of_namespaces.into_iter().map(of_namespace)).await;
        };
        self.tasks.spawn_on(evicting, &self.runtime);
    }

    async fn evict_from(
        &self,
        namespace: Arc<Namespace>,
        wanted: Vec<AskedEviction>,
        asked: Option<&RequestContext>,
        until: Instant,
        warnings: &LogLimit,
    ) {
        for AskedEviction { plugin, eviction } in wanted {
            let id = eviction.container_id.clone();
            let evicted = self.over.run_until_cancelled(namespace.evict(eviction, until)).await;
            if let Err(unmade) = evicted.unwrap_or(Err(ChangeError::Stopped)) {
                self.eviction_failed(&plugin, asked, &id, &unmade, warnings);
            }
        }
    }

    fn eviction_failed(
        &self,
        plugin: &PluginId,
        asked: Option<&RequestContext>,
        container: &str,
        unmade: &ChangeError,
        warnings: &LogLimit,
    ) {
        let reason = chain(unmade);
        if warnings.has_room() {
            let (container, reason) = (quoted(excerpt(container)), line(&reason));
            warn!(%plugin, %container, %reason, "a container that a plugin wants stopped was not");
        }
        self.adaptation.record(&occasion(plugin.as_ref(), asked, container), What::EvictionFailed { reason });
    }
}

/// Those who want something of a container.
pub(crate) fn plugins_of<'o>(owners: &'o Owners, container: &str) -> BTreeSet<&'o str> {
    let Some(owners) = owners.containers.get(container) else { return BTreeSet::new() };
    let compound = owners.compound.values().flat_map(|owners| owners.entries.values());
    owners.simple.values().chain(compound).flat_map(|owner| owner.plugins()).collect()
}

fn occasion(plugin: &str, asked: Option<&RequestContext>, container: &str) -> Occasion {
    Occasion {
        when: SystemTime::now(),
        plugin: plugin.into(),
        event: asked.map(|asked| asked.event),
        pod: asked.map(|asked| asked.pod.id.as_str().into()),
        container: Some(container.into()),
        took: None,
        shadow: false,
        in_vain: false,
    }
}
