//! The plugins that were loaded, what they contribute, and how they are ended.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tracing::{debug, info, warn};
use ttrpc::r#async::Service;

#[cfg(feature = "grpc")]
use super::grpc_services::GrpcServices;
use super::init::NotLoaded;
use crate::graph::{Graph, Uri};
use crate::plugin::{Contributions, DebugEndpoint, ErasedProvided, ErrorChain, InitFailure, LoadOutcome, ShutdownHook};
use crate::server::{Interceptor, panic_text};

/// The plugins of a shim after loading.
pub struct Loaded {
    graph: Graph,
    /// One outcome for each plugin, in the order of registration.
    outcomes: Vec<LoadOutcome>,
    /// The plugins that have to be ended, in the order of loading.
    plugins: Vec<LoadedPlugin>,
    /// ttrpc services by name.
    pub(crate) services: BTreeMap<String, OwnedService>,
    #[cfg(feature = "grpc")]
    pub(crate) grpc: GrpcServices,
}

/// A plugin that was initialized.
struct LoadedPlugin {
    uri: Uri,
    interceptors: Vec<Arc<dyn Interceptor>>,
    debug: Vec<DebugEndpoint>,
    hooks: Vec<ShutdownHook>,
    exports: BTreeMap<String, String>,
}

/// A ttrpc service and the plugin that contributes it.
pub(crate) struct OwnedService {
    pub(crate) plugin: Uri,
    pub(crate) service: Service,
}

/// How a shutdown hook of a plugin ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndOutcome {
    /// The hook returned within its limit.
    InTime,
    /// The hook exceeded its limit and was cancelled.
    TooSlow {
        /// The limit.
        limit: Duration,
    },
    /// The hook panicked.
    Panicked {
        /// The message of the panic.
        text: String,
    },
}

impl Loaded {
    /// Creates the state before loading, in which every plugin of the graph counts as disabled.
    pub(super) fn new(graph: Graph) -> Self {
        Self {
            outcomes: vec![LoadOutcome::Disabled; graph.nodes().len()],
            plugins: Vec::new(),
            services: BTreeMap::new(),
            #[cfg(feature = "grpc")]
            grpc: GrpcServices::default(),
            graph,
        }
    }

    /// Records how the initialization of a plugin ended, and adds what the plugin contributes.
    /// Returns the value for other plugins, or why the plugin has none.
    pub(super) fn add(
        &mut self,
        index: usize,
        uri: &Uri,
        initialized: Result<ErasedProvided, NotLoaded>,
    ) -> Result<Box<dyn Any + Send + Sync>, LoadOutcome> {
        let added = initialized.and_then(|(value, contributions)| {
            self.contribute(uri, contributions).map_err(NotLoaded::Failed)?;
            Ok(value)
        });
        let outcome = match added {
            Ok(value) => {
                debug!(plugin = %uri, "plugin loaded");
                self.outcomes[index] = LoadOutcome::Loaded;
                return Ok(value);
            }
            Err(NotLoaded::Skipped(reason)) => {
                info!(plugin = %uri, reason, "plugin skipped");
                LoadOutcome::Skipped { reason }
            }
            Err(NotLoaded::Failed(cause)) => {
                warn!(plugin = %uri, error = %ErrorChain(&cause), "could not load plugin");
                LoadOutcome::Failed { cause: Arc::new(cause) }
            }
        };
        self.outcomes[index] = outcome.clone();
        Err(outcome)
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
        #[cfg(feature = "grpc")]
        let added = self.grpc.check(uri, &grpc).and_then(|()| self.add_services(uri, services));
        #[cfg(feature = "grpc")]
        if added.is_ok() {
            self.grpc.add(uri, grpc);
        }
        #[cfg(not(feature = "grpc"))]
        let added = self.add_services(uri, services);
        // The hooks are kept even if the services are refused: the plugin was initialized, so it
        // has to be ended.
        self.plugins.push(LoadedPlugin { uri: uri.clone(), interceptors, debug, hooks, exports });
        added
    }

    /// Adds all ttrpc services of a plugin, or none if another plugin has a service of that name.
    fn add_services(&mut self, uri: &Uri, services: Vec<(String, Service)>) -> Result<(), InitFailure> {
        let mut added = BTreeMap::new();
        for (name, service) in services {
            let other = match self.services.get(&name) {
                Some(other) => Some(other.plugin.clone()),
                None => added
                    .insert(name.clone(), OwnedService { plugin: uri.clone(), service })
                    .map(|own: OwnedService| own.plugin),
            };
            if let Some(other) = other {
                return Err(InitFailure::DuplicateService { service: name, other });
            }
        }
        self.services.append(&mut added);
        Ok(())
    }

    /// Returns the outcome of loading a plugin, or `None` if no plugin of that name is registered.
    pub fn outcome(&self, uri: &Uri) -> Option<&LoadOutcome> {
        let index = self.graph.nodes().iter().position(|node| node.uri == *uri)?;
        Some(&self.outcomes[index])
    }

    /// Returns the names of the plugins that were loaded, in the order of loading.
    pub fn uris(&self) -> impl Iterator<Item = &Uri> {
        let is_loaded = |uri: &&Uri| matches!(self.outcome(uri), Some(LoadOutcome::Loaded));
        self.plugins.iter().map(|plugin| &plugin.uri).filter(is_loaded)
    }

    /// Returns what plugins export about themselves: plugin, key and value.
    pub fn exports(&self) -> impl Iterator<Item = (&Uri, &str, &str)> {
        self.plugins.iter().flat_map(|LoadedPlugin { uri, exports, .. }| {
            exports.iter().map(move |(key, value)| (uri, key.as_str(), value.as_str()))
        })
    }

    /// Formats the plugins as a table that shows the outcome of each.
    pub fn table(&self) -> String {
        self.graph.table(|index| self.outcomes[index].to_string())
    }

    /// Formats the table of plugins, their exports, and the report of each debug endpoint.
    pub fn diagnostics(&self) -> String {
        let mut text = self.table();
        for (uri, key, value) in self.exports() {
            text.push_str(&format!("{uri}: {key} = {value}\n"));
        }
        for plugin in &self.plugins {
            for endpoint in &plugin.debug {
                let report = std::panic::catch_unwind(AssertUnwindSafe(|| (endpoint.report)()));
                let report = report.unwrap_or_else(|panic| format!("panicked: {}", panic_text(&*panic)));
                text.push_str(&format!("{} {}: {report}\n", plugin.uri, endpoint.name));
            }
        }
        text
    }

    /// Returns whether no plugin contributes a service.
    pub(crate) fn serves_nothing(&self) -> bool {
        #[cfg(feature = "grpc")]
        if !self.grpc.is_empty() {
            return false;
        }
        self.services.is_empty()
    }

    /// Returns whether a plugin contributes a service of this name, over ttrpc or over gRPC.
    pub(crate) fn serves(&self, service: &str) -> bool {
        #[cfg(feature = "grpc")]
        if self.grpc.serves(service) {
            return true;
        }
        self.services.contains_key(service)
    }

    /// Returns the plugins that were not loaded, and why, in the order of registration.
    pub(crate) fn absent(&self) -> impl Iterator<Item = (&Uri, &LoadOutcome)> {
        let uris = self.graph.nodes().iter().map(|node| &node.uri);
        uris.zip(&self.outcomes).filter(|(_, outcome)| !matches!(outcome, LoadOutcome::Loaded))
    }

    /// Returns the interceptors of all plugins, the outermost first.
    pub(crate) fn interceptors(&self) -> Arc<[Arc<dyn Interceptor>]> {
        self.plugins.iter().flat_map(|plugin| plugin.interceptors.iter().cloned()).collect()
    }

    /// Ends the plugins in reverse order, each hook within its limit, and returns the outcome of
    /// each hook.
    pub async fn end(&mut self) -> Vec<(Uri, EndOutcome)> {
        self.end_down_to(&[]).await
    }

    /// Ends the plugins in reverse order, and stops at the first plugin that is in `stay`.
    pub(crate) async fn end_down_to(&mut self, stay: &[Uri]) -> Vec<(Uri, EndOutcome)> {
        let mut outcomes = Vec::new();
        while let Some(LoadedPlugin { uri, mut hooks, .. }) = self.plugins.pop_if(|plugin| !stay.contains(&plugin.uri))
        {
            while let Some(hook) = hooks.pop() {
                let outcome = run_hook(hook).await;
                if outcome != EndOutcome::InTime {
                    warn!(plugin = %uri, ?outcome, "shutdown hook of a plugin failed");
                }
                outcomes.push((uri.clone(), outcome));
            }
        }
        outcomes
    }
}

async fn run_hook(hook: ShutdownHook) -> EndOutcome {
    let ShutdownHook { limit, run } = hook;
    let running = AssertUnwindSafe(async move { run().await });
    match tokio::time::timeout(limit, running.catch_unwind()).await {
        Ok(Ok(())) => EndOutcome::InTime,
        Ok(Err(panic)) => EndOutcome::Panicked { text: panic_text(&*panic) },
        Err(_) => EndOutcome::TooSlow { limit },
    }
}
