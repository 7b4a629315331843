//! What runs containers.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::Field;
use serde_json::Value;

/// What the server runs its containers with, as far as plugins can change a container that exists. It knows nothing of NRI, and must
/// not wait for a lock under which plugins are asked.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Says whether it can change this limit of a container that exists. An update of one that it cannot is refused as a whole,
    /// by its name. [`RUNC_UPDATES`] is what runc can.
    fn can_update(&self, field: Field) -> bool;

    /// Makes a container's limits these, all of them. One that is to be lifted is there with a value for that, such as -1: so it is enough to set those that are there, as
    /// `runc update` does. To drop the future may leave some undone: the next call sets all again.
    ///
    /// # Errors
    ///
    /// The container has gone, or not all could be set.
    async fn update(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError>;

    /// Stops a container: it may end by itself for so long.
    ///
    /// # Errors
    ///
    /// The container has gone, or could not be stopped.
    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError>;
}

/// The limits of a container, as OCI has them.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerLimits {
    /// `linux.resources` of its spec, all of it.
    pub resources: Value,
    /// `linux.intelRdt` of its spec, if it has one.
    pub rdt: Option<Value>,
}

/// Why a [`Runtime`] has not done something.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The container has just gone.
    #[error("the container has gone")]
    Gone,
    /// It could not be done.
    #[error("the runtime could not do it")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl RuntimeError {
    /// It could not be done, for this reason.
    pub fn failed(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(why.into())
    }
}

/// The limits that `runc update` changes: of memory and swap, of CPU time and which CPUs, of processes, and files of cgroup v2. Others it takes and leaves as
/// they are.
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
