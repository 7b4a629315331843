//! The interface to the store that remembers pods and containers.
//!
//! Files:
//!
//! - `memory.rs` has a store in memory.

mod memory;

use std::sync::Arc;

pub use self::memory::MemoryStore;
use crate::model::{ContainerRecord, PodRecord};

/// The server's pods and containers, by id. An implementation knows nothing of NRI.
///
/// The methods are called from async code and must not block. A record that was put into the store
/// is visible to the next call.
pub trait Store: Send + Sync + 'static {
    /// Returns all pods, including stopped ones.
    fn pods(&self) -> Vec<Arc<PodRecord>>;

    /// Returns all containers, including ended ones.
    fn containers(&self) -> Vec<Arc<ContainerRecord>>;

    /// Returns the pod with this id.
    fn pod(&self, id: &str) -> Option<Arc<PodRecord>>;

    /// Returns the container with this id.
    fn container(&self, id: &str) -> Option<Arc<ContainerRecord>>;

    /// Changes a container, if the store has it. The change is atomic.
    fn change_container(&self, id: &str, change: &mut dyn FnMut(&mut ContainerRecord));
}
