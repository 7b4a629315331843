//! What remembers pods and containers.

mod memory;

use std::sync::Arc;

pub use self::memory::MemoryStore;
use crate::model::{ContainerRecord, PodRecord};

/// The server's pods and containers, by id. It knows nothing of NRI.
///
/// All of it is asked from async code and must not block: a look-up in memory. What was put there is there for the next look.
pub trait Store: Send + Sync + 'static {
    /// All pods, those that were stopped too.
    fn pods(&self) -> Vec<Arc<PodRecord>>;

    /// All containers, those that have ended too.
    fn containers(&self) -> Vec<Arc<ContainerRecord>>;

    /// The pod of this id.
    fn pod(&self, id: &str) -> Option<Arc<PodRecord>>;

    /// The container of this id.
    fn container(&self, id: &str) -> Option<Arc<ContainerRecord>>;

    /// Changes a container, if it is there. Nobody else changes it meanwhile.
    fn change_container(&self, id: &str, change: &mut dyn FnMut(&mut ContainerRecord));
}
