//! The interface to the runtime that runs containers.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::Field;
use serde_json::Value;

/// The runtime of the server: the operations through which plugins change a container that exists.
/// An implementation knows nothing of NRI. It must not wait for a lock that is held while plugins
/// are asked.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Returns whether the runtime can change this limit of a container that exists. An update of a
    /// limit that it cannot change is refused as a whole, and the error names the field. For runc,
    /// use [`RUNC_UPDATES`].
    fn can_update(&self, field: Field) -> bool;

    /// Sets all limits of a container. A limit to reset has an explicit value such as -1, so
    /// setting the given fields is enough, as `runc update` does. If the future is dropped, some
    /// limits may not be set: the next call has all limits again.
    ///
    /// # Errors
    ///
    /// Fails if the container has gone, or if a limit could not be set.
    async fn update(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError>;

    /// Stops a container. The container has the time `grace` to end by itself.
    ///
    /// # Errors
    ///
    /// Fails if the container has gone, or could not be stopped.
    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError>;
}

/// The limits of a container, as in its OCI spec.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerLimits {
    /// The complete `linux.resources` of the spec.
    pub resources: Value,
    /// `linux.intelRdt` of the spec, if the spec has it.
    pub rdt: Option<Value>,
}

/// Error from a [`Runtime`].
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The container does not exist any more.
    #[error("the container has gone")]
    Gone,
    /// The operation failed.
    #[error("the runtime operation failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl RuntimeError {
    /// Creates an error for an operation that failed for this reason.
    pub fn failed(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(why.into())
    }
}

/// The limits that `runc update` changes: memory and swap, CPU time, CPU and memory nodes, the
/// number of processes, and files of cgroups of version 2. `runc update` accepts other limits, but
/// does not change them.
pub const RUNC_UPDATES: [Field; 12] = [
    Field::MemLimit,
    Field::MemReservation,
    Field::MemSwapLimit,
    Field::CPUShares,
    Field::CPUQuota,
    Field::CPUPeriod,
    Field::CPURealtimeRuntime,
    Field::CPURealtimePeriod,
    Field::CPUSetCPUs,
    Field::CPUSetMems,
    Field::PidsLimit,
    Field::CgroupsUnified,
];
