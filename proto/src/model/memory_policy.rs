use super::{Unknown, Unnamed};

/// Which memory nodes a container's process gets its memory from, as set_mempolicy(2) describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// How nodes are chosen.
    pub mode: MemoryPolicyMode,
    /// The nodes, such as `0-1`.
    pub nodes: String,
    /// What else is asked for.
    pub flags: Vec<MemoryPolicyFlag>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// How a [`MemoryPolicy`] chooses nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryPolicyMode {
    /// `MPOL_DEFAULT`: as the system does without a policy.
    #[default]
    Default,
    /// `MPOL_PREFERRED`: from one node, and from others if it is full.
    Preferred,
    /// `MPOL_BIND`: from these nodes only.
    Bind,
    /// `MPOL_INTERLEAVE`: from these nodes in turn.
    Interleave,
    /// `MPOL_LOCAL`: from the node of the CPU that asks.
    Local,
    /// `MPOL_PREFERRED_MANY`: from these nodes, and from others if they are full.
    PreferredMany,
    /// `MPOL_WEIGHTED_INTERLEAVE`: from these nodes in turn, by their weights.
    WeightedInterleave,
    /// A mode that we do not know yet.
    Unnamed(Unnamed<Self>),
}

/// A flag of a [`MemoryPolicy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryPolicyFlag {
    /// `MPOL_F_STATIC_NODES`: the nodes are those, whatever the process may use.
    #[default]
    StaticNodes,
    /// `MPOL_F_RELATIVE_NODES`: the nodes are counted among those that the process may use.
    RelativeNodes,
    /// `MPOL_F_NUMA_BALANCING`: the kernel may move pages nearer.
    NumaBalancing,
    /// A flag that we do not know yet.
    Unnamed(Unnamed<Self>),
}
