//! Initialises plugins one after the other, and ends them in reverse.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use ttrpc::r#async::Service;

use super::registry::Registry;
use crate::config::Configuration;
use crate::graph::{Graph, Problems, Uri};
use crate::plugin::{
    Contributions, DebugEndpoint, ErasedProvided, ErrorChain, FailurePolicy, InitError, InitFailure, LoadOutcome,
    LoadedValues, Plugin, ShimContext, ShutdownHook,
};
use crate::server::call::{Interceptor, panic_text};

/// Why the plugins of a shim were not loaded. Those that had been are ended.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Nothing was begun.
    #[error(transparent)]
    Graph(#[from] Problems),

    /// One that is required failed.
    #[error("could not load plugin {plugin}")]
    Plugin {
        /// Which one.
        plugin: Uri,
        /// Why.
        source: Arc<InitFailure>,
    },

    /// The shim was told to end before they were.
    #[error("told to end while plugin {plugin} was being loaded")]
    ToldToEnd {
        /// The plugin.
        plugin: Uri,
    },
}

/// Plugins that do their work.
pub struct Loaded {
    graph: Graph,
    /// In the order of registration.
    outcomes: Vec<LoadOutcome>,
    /// In the order of loading.
    entries: Vec<LoadedPlugin>,
    pub(crate) services: BTreeMap<String, OwnedService>,
    #[cfg(feature = "grpc")]
    pub(crate) grpc: super::grpc_services::GrpcServices,
}

/// One that was loaded.
struct LoadedPlugin {
    uri: Uri,
    interceptors: Vec<Arc<dyn Interceptor>>,
    debug: Vec<DebugEndpoint>,
    hooks: Vec<ShutdownHook>,
    exports: BTreeMap<String, String>,
}

/// A service, and whose it is.
pub(crate) struct OwnedService {
    pub(crate) plugin: Uri,
    pub(crate) service: Service,
}

/// How the end of a plugin went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndOutcome {
    /// As it should.
    InTime,
    /// It was not waited for any longer.
    TooSlow {
        /// How long it had.
        limit: Duration,
    },
    /// It panicked.
    Panicked {
        /// What it said.
        text: String,
    },
}

impl Registry {
    /// Initialises the plugins, each after what it needs.
    ///
    /// If one that is required fails, those that were loaded are ended in reverse.
    pub async fn load(&self, configuration: &Configuration, context: Arc<ShimContext>) -> Result<Loaded, LoadError> {
        self.load_until(configuration, context, &CancellationToken::new()).await
    }

    /// As `load`, but stops when it is told to: one that is being initialised is not waited for.
    pub(crate) async fn load_until(
        &self,
        configuration: &Configuration,
        context: Arc<ShimContext>,
        over: &CancellationToken,
    ) -> Result<Loaded, LoadError> {
        let graph = self.graph(configuration)?;
        for name in configuration.unknown(self.plugins.iter().map(Plugin::uri)) {
            warn!(plugin = name, "the configuration names a plugin that is not there");
        }
        let mut loaded = Loaded {
            outcomes: vec![LoadOutcome::Disabled; graph.nodes().len()],
            entries: Vec::new(),
            services: BTreeMap::new(),
            #[cfg(feature = "grpc")]
            grpc: super::grpc_services::GrpcServices::default(),
            graph,
        };
        let mut values = LoadedValues::default();
        for index in loaded.graph.order().to_vec() {
            let plugin = &self.plugins[index];
            let Some(held) = over.run_until_cancelled(init(plugin, configuration, &context, &values)).await else {
                loaded.end().await;
                return Err(LoadError::ToldToEnd { plugin: plugin.uri().clone() });
            };
            let (outcome, value) = loaded.keep(plugin.uri(), held);
            loaded.outcomes[index] = outcome.clone();
            values.put(plugin.uri().clone(), value.ok_or(outcome.clone()));
            if let (LoadOutcome::Failed { cause }, FailurePolicy::Required) = (outcome, plugin.policy) {
                loaded.end().await;
                return Err(LoadError::Plugin { plugin: plugin.uri().clone(), source: cause });
            }
        }
        Ok(loaded)
    }
}

/// How an initialisation ends when it does not end well.
enum NotLoaded {
    Skipped(String),
    Failed(InitFailure),
}

async fn init(
    plugin: &Plugin,
    configuration: &Configuration,
    context: &Arc<ShimContext>,
    values: &LoadedValues,
) -> Result<ErasedProvided, NotLoaded> {
    let uri = plugin.uri();
    debug!(plugin = %uri, "loading");
    let table = configuration.table(uri);
    let running = AssertUnwindSafe(async {
        let prepared = plugin.init.prepare(table, context, values).map_err(NotLoaded::Failed)?;
        for key in prepared.unknown_keys {
            warn!(plugin = %uri, key, "the plugin has no such setting");
        }
        prepared.init.await.map_err(|error| match error {
            InitError::Skip(reason) => NotLoaded::Skipped(reason),
            InitError::Failed(error) => NotLoaded::Failed(InitFailure::Returned(error)),
        })
    });
    match tokio::time::timeout(plugin.limit, running.catch_unwind()).await {
        Ok(Ok(held)) => held,
        Ok(Err(panic)) => Err(NotLoaded::Failed(InitFailure::Panicked { text: panic_text(&*panic) })),
        Err(_) => Err(NotLoaded::Failed(InitFailure::TooSlow { limit: plugin.limit })),
    }
}

impl Loaded {
    /// Takes over what a plugin contributes, or nothing of it.
    fn keep(
        &mut self,
        uri: &Uri,
        held: Result<ErasedProvided, NotLoaded>,
    ) -> (LoadOutcome, Option<Box<dyn Any + Send + Sync>>) {
        let kept = held.and_then(|(value, contributions)| {
            self.contribute(uri, contributions).map_err(NotLoaded::Failed)?;
            Ok(value)
        });
        match kept {
            Ok(value) => {
                debug!(plugin = %uri, "loaded");
                (LoadOutcome::Loaded, Some(value))
            }
            Err(NotLoaded::Skipped(reason)) => {
                info!(plugin = %uri, reason, "skipped");
                (LoadOutcome::Skipped { reason }, None)
            }
            Err(NotLoaded::Failed(cause)) => {
                warn!(plugin = %uri, error = %ErrorChain(&cause), "could not load the plugin");
                (LoadOutcome::Failed { cause: Arc::new(cause) }, None)
            }
        }
    }

    fn contribute(&mut self, uri: &Uri, contributions: Contributions) -> Result<(), InitFailure> {
        let Contributions {
            services,
            interceptors,
            debug,
            hooks,
            exports,
            #[cfg(feature = "grpc")]
            grpc,
        } = contributions;
        // Its hooks are kept even if its services are not: it has been initialised, and has to be ended.
        #[cfg(feature = "grpc")]
        let refused = self.grpc.check(uri, &grpc).and_then(|()| self.offer(uri, services));
        #[cfg(feature = "grpc")]
        if refused.is_ok() {
            self.grpc.add(uri, grpc);
        }
        #[cfg(not(feature = "grpc"))]
        let refused = self.offer(uri, services);
        self.entries.push(LoadedPlugin { uri: uri.clone(), interceptors, debug, hooks, exports });
        refused
    }

    /// All of them, or none.
    fn offer(&mut self, uri: &Uri, services: Vec<(String, Service)>) -> Result<(), InitFailure> {
        let mut offered = BTreeMap::new();
        for (name, service) in services {
            let other = match self.services.get(&name) {
                Some(other) => Some(other.plugin.clone()),
                None => offered
                    .insert(name.clone(), OwnedService { plugin: uri.clone(), service })
                    .map(|own: OwnedService| own.plugin),
            };
            if let Some(other) = other {
                return Err(InitFailure::DuplicateService { service: name, other });
            }
        }
        self.services.append(&mut offered);
        Ok(())
    }

    /// What became of a plugin; `None` if there is no such plugin.
    pub fn outcome(&self, uri: &Uri) -> Option<&LoadOutcome> {
        let index = self.graph.nodes().iter().position(|node| node.uri == *uri)?;
        Some(&self.outcomes[index])
    }

    /// The names of those that do their work, in the order of loading.
    pub fn uris(&self) -> impl Iterator<Item = &Uri> {
        let is_loaded = |uri: &&Uri| matches!(self.outcome(uri), Some(LoadOutcome::Loaded));
        self.entries.iter().map(|entry| &entry.uri).filter(is_loaded)
    }

    /// What plugins say about themselves, by plugin and key.
    pub fn exports(&self) -> impl Iterator<Item = (&Uri, &str, &str)> {
        self.entries.iter().flat_map(|LoadedPlugin { uri, exports, .. }| {
            exports.iter().map(move |(key, value)| (uri, key.as_str(), value.as_str()))
        })
    }

    /// The plugins as a table, with what became of them.
    pub fn table(&self) -> String {
        self.graph.table(|index| self.outcomes[index].to_string())
    }

    /// What each debug endpoint says.
    pub fn diagnostics(&self) -> String {
        let mut text = self.table();
        for (uri, key, value) in self.exports() {
            text.push_str(&format!("{uri}: {key} = {value}\n"));
        }
        for entry in &self.entries {
            for endpoint in &entry.debug {
                let words = std::panic::catch_unwind(AssertUnwindSafe(|| (endpoint.say)()));
                let words = words.unwrap_or_else(|panic| format!("it panicked: {}", panic_text(&*panic)));
                text.push_str(&format!("{} {}: {words}\n", entry.uri, endpoint.name));
            }
        }
        text
    }

    /// Whether no plugin serves anything.
    pub(crate) fn serves_nothing(&self) -> bool {
        #[cfg(feature = "grpc")]
        if !self.grpc.is_empty() {
            return false;
        }
        self.services.is_empty()
    }

    pub(crate) fn interceptors(&self) -> Arc<[Arc<dyn Interceptor>]> {
        self.entries.iter().flat_map(|entry| entry.interceptors.iter().cloned()).collect()
    }

    /// Ends the plugins in reverse, each within its limit, and says how it went.
    pub async fn end(&mut self) -> Vec<(Uri, EndOutcome)> {
        self.end_down_to(&[]).await
    }

    /// Ends the plugins in reverse, down to the first that is to stay.
    pub(crate) async fn end_down_to(&mut self, stay: &[Uri]) -> Vec<(Uri, EndOutcome)> {
        let mut ends = Vec::new();
        while let Some(LoadedPlugin { uri, mut hooks, .. }) = self.entries.pop_if(|entry| !stay.contains(&entry.uri)) {
            while let Some(hook) = hooks.pop() {
                let ended = end(hook).await;
                if ended != EndOutcome::InTime {
                    warn!(plugin = %uri, ?ended, "the plugin did not end well");
                }
                ends.push((uri.clone(), ended));
            }
        }
        ends
    }
}

async fn end(hook: ShutdownHook) -> EndOutcome {
    let ShutdownHook { limit, run } = hook;
    let running = AssertUnwindSafe(async move { run().await });
    match tokio::time::timeout(limit, running.catch_unwind()).await {
        Ok(Ok(())) => EndOutcome::InTime,
        Ok(Err(panic)) => EndOutcome::Panicked { text: panic_text(&*panic) },
        Err(_) => EndOutcome::TooSlow { limit },
    }
}
