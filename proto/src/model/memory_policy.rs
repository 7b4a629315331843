//! NUMA memory policies.

use super::{Unknown, Unnamed};

/// The NUMA memory policy of a container's process, as in set_mempolicy(2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// The mode, which determines how nodes are chosen.
    pub mode: MemoryPolicyMode,
    /// The memory nodes, such as `0-1`.
    pub nodes: String,
    /// The flags.
    pub flags: Vec<MemoryPolicyFlag>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The mode of a [`MemoryPolicy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryPolicyMode {
    /// `MPOL_DEFAULT`: the default of the system.
    #[default]
    Default,
    /// `MPOL_PREFERRED`: memory from one node, and from others if the node is full.
    Preferred,
    /// `MPOL_BIND`: memory from these nodes only.
    Bind,
    /// `MPOL_INTERLEAVE`: memory from these nodes in turn.
    Interleave,
    /// `MPOL_LOCAL`: memory from the node of the allocating CPU.
    Local,
    /// `MPOL_PREFERRED_MANY`: memory from these nodes, and from others if these are full.
    PreferredMany,
    /// `MPOL_WEIGHTED_INTERLEAVE`: memory from these nodes in turn, by their weights.
    WeightedInterleave,
    /// A mode that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}

/// A flag of a [`MemoryPolicy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryPolicyFlag {
    /// `MPOL_F_STATIC_NODES`: node numbers are absolute.
    #[default]
    StaticNodes,
    /// `MPOL_F_RELATIVE_NODES`: node numbers are relative to the nodes allowed for the process.
    RelativeNodes,
    /// `MPOL_F_NUMA_BALANCING`: the kernel may migrate pages to closer nodes.
    NumaBalancing,
    /// A flag that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}
