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
    Chain, Contributions, DebugEndpoint, FailedInit, Held, Hook, InitError, Outcome, Plugin, Policy, Shelf, Site,
};
use crate::server::call::{Interceptor, said};

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
        source: Arc<FailedInit>,
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
    outcomes: Vec<Outcome>,
    /// In the order of loading.
    entries: Vec<Entry>,
    pub(crate) services: BTreeMap<String, Offered>,
    #[cfg(feature = "grpc")]
    pub(crate) grpc: super::grpc_services::Offers,
}

/// One that was loaded.
struct Entry {
    uri: Uri,
    interceptors: Vec<Arc<dyn Interceptor>>,
    debug: Vec<DebugEndpoint>,
    hooks: Vec<Hook>,
    exports: BTreeMap<String, String>,
}

/// A service, and whose it is.
pub(crate) struct Offered {
    pub(crate) plugin: Uri,
    pub(crate) service: Service,
}

/// How the end of a plugin went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
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
    pub async fn load(&self, configuration: &Configuration, site: Arc<Site>) -> Result<Loaded, LoadError> {
        self.load_until(configuration, site, &CancellationToken::new()).await
    }

    /// As `load`, but stops when it is told to: one that is being initialised is not waited for.
    pub(crate) async fn load_until(
        &self,
        configuration: &Configuration,
        site: Arc<Site>,
        over: &CancellationToken,
    ) -> Result<Loaded, LoadError> {
        let graph = self.graph(configuration)?;
        for name in configuration.unknown(self.plugins.iter().map(Plugin::uri)) {
            warn!(plugin = name, "the configuration names a plugin that is not there");
        }
        let mut loaded = Loaded {
            outcomes: vec![Outcome::Disabled; graph.nodes().len()],
            entries: Vec::new(),
            services: BTreeMap::new(),
            #[cfg(feature = "grpc")]
            grpc: super::grpc_services::Offers::default(),
            graph,
        };
        let mut shelf = Shelf::default();
        for index in loaded.graph.order().to_vec() {
            let plugin = &self.plugins[index];
            let Some(held) = over.run_until_cancelled(init(plugin, configuration, &site, &shelf)).await else {
                loaded.end().await;
                return Err(LoadError::ToldToEnd { plugin: plugin.uri().clone() });
            };
            let (outcome, value) = loaded.keep(plugin.uri(), held);
            loaded.outcomes[index] = outcome.clone();
            shelf.put(plugin.uri().clone(), value.ok_or(outcome.clone()));
            if let (Outcome::Failed { cause }, Policy::Required) = (outcome, plugin.policy) {
                loaded.end().await;
                return Err(LoadError::Plugin { plugin: plugin.uri().clone(), source: cause });
            }
        }
        Ok(loaded)
    }
}

/// How an initialisation ends when it does not end well.
enum Not {
    Wanted(String),
    Able(FailedInit),
}

async fn init(plugin: &Plugin, configuration: &Configuration, site: &Arc<Site>, shelf: &Shelf) -> Result<Held, Not> {
    let uri = plugin.uri();
    debug!(plugin = %uri, "loading");
    let table = configuration.table(uri);
    let running = AssertUnwindSafe(async {
        let prepared = plugin.init.prepare(table, site, shelf).map_err(Not::Able)?;
        for key in prepared.unknown_keys {
            warn!(plugin = %uri, key, "the plugin has no such setting");
        }
        prepared.init.await.map_err(|error| match error {
            InitError::Skip(reason) => Not::Wanted(reason),
            InitError::Failed(error) => Not::Able(FailedInit::Returned(error)),
        })
    });
    match tokio::time::timeout(plugin.limit, running.catch_unwind()).await {
        Ok(Ok(held)) => held,
        Ok(Err(panic)) => Err(Not::Able(FailedInit::Panicked { text: said(&*panic) })),
        Err(_) => Err(Not::Able(FailedInit::TooSlow { limit: plugin.limit })),
    }
}

impl Loaded {
    /// Takes over what a plugin contributes, or nothing of it.
    fn keep(&mut self, uri: &Uri, held: Result<Held, Not>) -> (Outcome, Option<Box<dyn Any + Send + Sync>>) {
        let kept = held.and_then(|(value, contributions)| {
            self.contribute(uri, contributions).map_err(Not::Able)?;
            Ok(value)
        });
        match kept {
            Ok(value) => {
                debug!(plugin = %uri, "loaded");
                (Outcome::Loaded, Some(value))
            }
            Err(Not::Wanted(reason)) => {
                info!(plugin = %uri, reason, "skipped");
                (Outcome::Skipped { reason }, None)
            }
            Err(Not::Able(cause)) => {
                warn!(plugin = %uri, error = %Chain(&cause), "could not load the plugin");
                (Outcome::Failed { cause: Arc::new(cause) }, None)
            }
        }
    }

    fn contribute(&mut self, uri: &Uri, contributions: Contributions) -> Result<(), FailedInit> {
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
        self.entries.push(Entry { uri: uri.clone(), interceptors, debug, hooks, exports });
        refused
    }

    /// All of them, or none.
    fn offer(&mut self, uri: &Uri, services: Vec<(String, Service)>) -> Result<(), FailedInit> {
        let mut offered = BTreeMap::new();
        for (name, service) in services {
            let other = match self.services.get(&name) {
                Some(other) => Some(other.plugin.clone()),
                None => offered
                    .insert(name.clone(), Offered { plugin: uri.clone(), service })
                    .map(|own: Offered| own.plugin),
            };
            if let Some(other) = other {
                return Err(FailedInit::DuplicateService { service: name, other });
            }
        }
        self.services.append(&mut offered);
        Ok(())
    }

    /// What became of a plugin; `None` if there is no such plugin.
    pub fn outcome(&self, uri: &Uri) -> Option<&Outcome> {
        let index = self.graph.nodes().iter().position(|node| node.uri == *uri)?;
        Some(&self.outcomes[index])
    }

    /// The names of those that do their work, in the order of loading.
    pub fn uris(&self) -> impl Iterator<Item = &Uri> {
        let is_loaded = |uri: &&Uri| matches!(self.outcome(uri), Some(Outcome::Loaded));
        self.entries.iter().map(|entry| &entry.uri).filter(is_loaded)
    }

    /// What plugins say about themselves, by plugin and key.
    pub fn exports(&self) -> impl Iterator<Item = (&Uri, &str, &str)> {
        self.entries.iter().flat_map(|Entry { uri, exports, .. }| {
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
                let words = words.unwrap_or_else(|panic| format!("it panicked: {}", said(&*panic)));
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
    pub async fn end(&mut self) -> Vec<(Uri, Ended)> {
        self.end_down_to(&[]).await
    }

    /// Ends the plugins in reverse, down to the first that is to stay.
    pub(crate) async fn end_down_to(&mut self, stay: &[Uri]) -> Vec<(Uri, Ended)> {
        let mut ends = Vec::new();
        while let Some(Entry { uri, mut hooks, .. }) = self.entries.pop_if(|entry| !stay.contains(&entry.uri)) {
            while let Some(hook) = hooks.pop() {
                let ended = end(hook).await;
                if ended != Ended::InTime {
                    warn!(plugin = %uri, ?ended, "the plugin did not end well");
                }
                ends.push((uri.clone(), ended));
            }
        }
        ends
    }
}

async fn end(hook: Hook) -> Ended {
    let Hook { limit, run } = hook;
    let running = AssertUnwindSafe(async move { run().await });
    match tokio::time::timeout(limit, running.catch_unwind()).await {
        Ok(Ok(())) => Ended::InTime,
        Ok(Err(panic)) => Ended::Panicked { text: said(&*panic) },
        Err(_) => Ended::TooSlow { limit },
    }
}
