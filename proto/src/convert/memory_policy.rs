//! Conversions of memory policies.

use protobuf::EnumOrUnknown;

use super::{Translate, message, numbers};
use crate::model::{MemoryPolicy, MemoryPolicyFlag, MemoryPolicyMode, Unnamed};
use crate::schema::api;

message! {
    LinuxMemoryPolicy as MemoryPolicy { mode, nodes, flags }, encode
}

numbers! {
    api::MpolMode as MemoryPolicyMode {
        MPOL_DEFAULT as Default,
        MPOL_PREFERRED as Preferred,
        MPOL_BIND as Bind,
        MPOL_INTERLEAVE as Interleave,
        MPOL_LOCAL as Local,
        MPOL_PREFERRED_MANY as PreferredMany,
        MPOL_WEIGHTED_INTERLEAVE as WeightedInterleave,
    }
}

numbers! {
    api::MpolFlag as MemoryPolicyFlag {
        MPOL_F_STATIC_NODES as StaticNodes,
        MPOL_F_RELATIVE_NODES as RelativeNodes,
        MPOL_F_NUMA_BALANCING as NumaBalancing,
    }
}
