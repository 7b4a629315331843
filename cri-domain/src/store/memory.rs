use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::Store;
use crate::model::{ContainerRecord, PodRecord};

/// A [`Store`] in memory. Its contents are lost when the process ends.
///
/// ```
/// use cri_domain::model::PodRecord;
/// use cri_domain::store::{MemoryStore, Store as _};
///
/// let store = MemoryStore::default();
/// store.put_pod(PodRecord { id: "4f1c".to_owned(), ..PodRecord::default() });
/// store.change_pod("4f1c", |pod| pod.status.pid = 7);
/// assert_eq!(store.pod("4f1c").unwrap().status.pid, 7);
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: RwLock<StoredRecords>,
}

#[derive(Debug, Default)]
struct StoredRecords {
    pods: BTreeMap<String, Arc<PodRecord>>,
    containers: BTreeMap<String, Arc<ContainerRecord>>,
}

impl MemoryStore {
    /// Adds a pod, or replaces the pod with the same id.
    pub fn put_pod(&self, pod: PodRecord) {
        self.records.write().pods.insert(pod.id.clone(), Arc::new(pod));
    }

    /// Adds a container, or replaces the container with the same id.
    pub fn put_container(&self, container: ContainerRecord) {
        self.records.write().containers.insert(container.id.clone(), Arc::new(container));
    }

    /// Changes a pod, if the store has it.
    pub fn change_pod(&self, id: &str, change: impl FnOnce(&mut PodRecord)) {
        if let Some(pod) = self.records.write().pods.get_mut(id) {
            change(Arc::make_mut(pod));
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&self, id: &str) {
        self.records.write().pods.remove(id);
    }

    /// Removes a container.
    pub fn remove_container(&self, id: &str) {
        self.records.write().containers.remove(id);
    }
}

impl Store for MemoryStore {
    fn pods(&self) -> Vec<Arc<PodRecord>> {
        self.records.read().pods.values().cloned().collect()
    }

    fn containers(&self) -> Vec<Arc<ContainerRecord>> {
        self.records.read().containers.values().cloned().collect()
    }

    fn pod(&self, id: &str) -> Option<Arc<PodRecord>> {
        self.records.read().pods.get(id).cloned()
    }

    fn container(&self, id: &str) -> Option<Arc<ContainerRecord>> {
        self.records.read().containers.get(id).cloned()
    }

    fn change_container(&self, id: &str, change: &mut dyn FnMut(&mut ContainerRecord)) {
        if let Some(container) = self.records.write().containers.get_mut(id) {
            change(Arc::make_mut(container));
        }
    }
}
