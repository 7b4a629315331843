//! The plugins of a shim.

use crate::config::Configuration;
use crate::graph::{Graph, Node, Problems};
use crate::plugin::Plugin;

/// The plugins of a shim, in the order in which they were registered.
///
/// It is a value like any other: a process may have several, and none is global.
#[derive(Default)]
pub struct Registry {
    pub(crate) plugins: Vec<Plugin>,
}

impl Registry {
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a plugin. Whether it fits is seen by [`Registry::graph`], with all others.
    #[must_use]
    pub fn with(mut self, plugin: Plugin) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Puts the plugins in order, or says everything that is wrong with them.
    pub fn graph(&self, configuration: &Configuration) -> Result<Graph, Problems> {
        let nodes: Vec<Node> = self.plugins.iter().map(|plugin| plugin.node.clone()).collect();
        Graph::new(nodes, |uri| configuration.is_disabled(uri))
    }
}

impl Extend<Plugin> for Registry {
    fn extend<I: IntoIterator<Item = Plugin>>(&mut self, plugins: I) {
        self.plugins.extend(plugins);
    }
}
