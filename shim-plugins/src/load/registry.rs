//! The plugins that make up a shim, and how they are loaded.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::init::initialize;
use super::loaded::Loaded;
use crate::config::Configuration;
use crate::graph::{Graph, Node, Problems, Uri};
use crate::plugin::{FailurePolicy, InitFailure, LoadOutcome, LoadedValues, Plugin, ShimContext};

/// Why the plugins of a shim could not be loaded. Plugins that were already loaded have been ended.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plugins have no valid order. No plugin was initialized.
    #[error(transparent)]
    Graph(#[from] Problems),

    /// A required plugin failed to initialize.
    #[error("could not load plugin {plugin}")]
    Plugin {
        /// The plugin that failed.
        plugin: Uri,
        /// The cause.
        source: Arc<InitFailure>,
    },

    /// The shim was told to end while a plugin was being initialized.
    #[error("told to end while plugin {plugin} was being loaded")]
    ToldToEnd {
        /// The plugin that was being initialized.
        plugin: Uri,
    },
}

/// The plugins of a shim, in the order in which they were registered.
///
/// A registry is a plain value: a process may have several registries, and none of them is global.
#[derive(Default)]
pub struct Registry {
    pub(crate) plugins: Vec<Plugin>,
}

impl Registry {
    /// Creates a registry without plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a plugin. [`Registry::graph`] checks whether it fits with the other plugins.
    #[must_use]
    pub fn with(mut self, plugin: Plugin) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Puts the plugins in order, or returns everything that is wrong with them.
    pub fn graph(&self, configuration: &Configuration) -> Result<Graph, Problems> {
        let nodes: Vec<Node> = self.plugins.iter().map(|plugin| plugin.node.clone()).collect();
        Graph::new(nodes, |uri| configuration.is_disabled(uri))
    }

    /// Initializes the plugins, each after the plugins that it needs.
    ///
    /// If a required plugin fails, the plugins that were already loaded are ended in reverse order.
    pub async fn load(&self, configuration: &Configuration, context: Arc<ShimContext>) -> Result<Loaded, LoadError> {
        self.load_until(configuration, context, &CancellationToken::new()).await
    }

    /// Loads the plugins like [`Registry::load`], but stops as soon as `shutdown` is cancelled,
    /// without waiting for the plugin that is being initialized.
    pub(crate) async fn load_until(
        &self,
        configuration: &Configuration,
        context: Arc<ShimContext>,
        shutdown: &CancellationToken,
    ) -> Result<Loaded, LoadError> {
        let graph = self.graph(configuration)?;
        for name in configuration.unknown(self.plugins.iter().map(Plugin::uri)) {
            warn!(plugin = name, "configuration names an unknown plugin");
        }
        let order = graph.order().to_vec();
        let mut loaded = Loaded::new(graph);
        let mut values = LoadedValues::default();
        for index in order {
            let plugin = &self.plugins[index];
            let initializing = initialize(plugin, configuration, &context, &values);
            let Some(initialized) = shutdown.run_until_cancelled(initializing).await else {
                loaded.end().await;
                return Err(LoadError::ToldToEnd { plugin: plugin.uri().clone() });
            };
            let value = loaded.add(index, plugin.uri(), initialized);
            if let (Err(LoadOutcome::Failed { cause }), FailurePolicy::Required) = (&value, plugin.policy) {
                loaded.end().await;
                return Err(LoadError::Plugin { plugin: plugin.uri().clone(), source: Arc::clone(cause) });
            }
            values.insert(plugin.uri().clone(), value);
        }
        Ok(loaded)
    }
}

impl Extend<Plugin> for Registry {
    fn extend<I: IntoIterator<Item = Plugin>>(&mut self, plugins: I) {
        self.plugins.extend(plugins);
    }
}
