//! Which plugins there are, what they need, and the order that follows from it.
//!
//! Pure: no plugin is initialised here, nothing is read, and no time is asked for. What is wrong with a set of plugins is
//! found before anything begins, and all of it at once.

mod check;
mod order;
mod problem;
mod show;
mod slot;

#[cfg(test)]
mod tests;

pub use problem::{Absence, Problem, Problems};
pub use slot::{Interface, Kind, Slot, Uri};

/// One plugin, as the graph sees it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub uri: Uri,
    /// What it provides; `None` if that is nobody's business.
    pub provides: Option<Interface>,
    /// What it needs, in the order in which that was written.
    pub needs: Vec<Need>,
}

/// Something that has to come before a plugin.
#[derive(Clone, Debug)]
pub struct Need {
    /// What.
    pub target: Target,
    /// How much it is needed.
    pub strength: Strength,
    /// What it is expected to provide; `None` if it is not looked at.
    pub interface: Option<Interface>,
}

/// What a need points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One plugin.
    Slot(Uri),
    /// All plugins of a kind.
    Kind(String),
    /// All other plugins.
    Everything,
}

/// How much something is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Without it the plugin cannot be.
    Required,
    /// It is used if it is there.
    Optional,
    /// It only comes first.
    Order,
}

impl Target {
    /// Whether a plugin is meant.
    pub fn includes(&self, uri: &Uri) -> bool {
        match self {
            Self::Slot(slot) => slot == uri,
            Self::Kind(kind) => *kind == uri.kind,
            Self::Everything => true,
        }
    }
}

/// Plugins that fit together, and the order in which they are initialised.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    enabled: Vec<bool>,
    order: Vec<usize>,
}

impl Graph {
    /// Puts plugins in order, or says everything that is wrong with them.
    ///
    /// A disabled plugin is as good as absent. The order is that of Go's `github.com/containerd/plugin`: in the order of
    /// registration, each after what it needs, which comes in the order in which it was written.
    pub fn new(nodes: Vec<Node>, is_disabled: impl Fn(&Uri) -> bool) -> Result<Self, Problems> {
        let enabled: Vec<_> = nodes.iter().map(|node| !is_disabled(&node.uri)).collect();
        let mut problems = check::problems(&nodes, &enabled);
        let (order, cycles) = order::order(&nodes, &enabled);
        problems.extend(cycles);
        if problems.is_empty() { Ok(Self { nodes, enabled, order }) } else { Err(Problems(problems)) }
    }

    /// All plugins, in the order of registration.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The indices of the plugins to initialise, in order.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Whether the plugin of that index is to be initialised.
    pub fn is_enabled(&self, index: usize) -> bool {
        self.enabled[index]
    }

    /// The names of the plugins to initialise, in order.
    pub fn uris(&self) -> impl Iterator<Item = &Uri> {
        self.order.iter().map(|&index| &self.nodes[index].uri)
    }
}
