//! The graph of plugins: their names, what they need, and the order that follows.
//!
//! - `slot`: the names of plugins, tied to types. `order`: the order of loading.
//! - `check`, `problem`: what is wrong with a set of plugins. `show`: a graph as table and drawing.
//!
//! This module is pure: it initializes no plugin, reads nothing, and asks for no time. All problems
//! of a set of plugins are found at once, before anything runs.

mod check;
mod order;
mod problem;
mod show;
mod slot;

#[cfg(test)]
mod tests;

pub use problem::{Absence, Problem, Problems};
pub use slot::{AllOfKind, Interface, Kind, LoadAfter, OneOfKind, OptionalSlot, Slot, Uri};

/// One plugin of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of the plugin.
    pub uri: Uri,
    /// The type that the plugin provides; `None` if the type is not checked.
    pub provides: Option<Interface>,
    /// The needs of the plugin, in the order in which its author wrote them.
    pub needs: Vec<Need>,
}

/// A need of a plugin: other plugins that must be loaded before it.
#[derive(Clone, Debug)]
pub struct Need {
    /// The plugins that must be loaded before.
    pub target: Target,
    /// How strong the need is.
    pub strength: Strength,
    /// The type that is expected; `None` if the type is not checked.
    pub interface: Option<Interface>,
}

/// The plugins that a need refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One plugin.
    Slot(Uri),
    /// All plugins of a kind.
    Kind(String),
    /// All other plugins.
    Everything,
}

/// How strong a need is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// The plugin cannot be loaded without the target.
    Required,
    /// The plugin uses the target if it is loaded.
    Optional,
    /// The target is only loaded first, and not used.
    Order,
}

impl Target {
    /// Returns whether a plugin is part of the target.
    pub fn includes(&self, uri: &Uri) -> bool {
        match self {
            Self::Slot(slot) => slot == uri,
            Self::Kind(kind) => *kind == uri.kind,
            Self::Everything => true,
        }
    }
}

/// A valid set of plugins, and the order in which they are loaded.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    enabled: Vec<bool>,
    order: Vec<usize>,
}

impl Graph {
    /// Puts plugins in order, or returns everything that is wrong with them.
    ///
    /// A disabled plugin counts as absent. The order is that of Go's
    /// `github.com/containerd/plugin`: the order of registration, with each plugin after its needs,
    /// and its needs in their own order.
    pub fn new(nodes: Vec<Node>, is_disabled: impl Fn(&Uri) -> bool) -> Result<Self, Problems> {
        let enabled: Vec<_> = nodes.iter().map(|node| !is_disabled(&node.uri)).collect();
        let mut problems = check::problems(&nodes, &enabled);
        let (order, cycles) = order::order(&nodes, &enabled);
        problems.extend(cycles);
        if problems.is_empty() { Ok(Self { nodes, enabled, order }) } else { Err(Problems(problems)) }
    }

    /// Returns all plugins, in the order of registration.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the indices of the plugins to load, in order.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns whether the plugin of an index is to be loaded.
    pub fn is_enabled(&self, index: usize) -> bool {
        self.enabled[index]
    }

    /// Returns the names of the plugins to load, in order.
    pub fn uris(&self) -> impl Iterator<Item = &Uri> {
        self.order.iter().map(|&index| &self.nodes[index].uri)
    }
}
