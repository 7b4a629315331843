//! Requests that plugins have approved, or are asked to approve, while the runtime acts. A request
//! that is dropped without a commit has failed and is rolled back.

use std::sync::Arc;

use nri_adaptation::Operation;
use nri_proto::Pod;

use super::NamespaceClient;
use crate::error::Error;
use crate::lifecycle::state::{Lifecycle, State};
use crate::lifecycle::table::operations::OperationKey;

/// A pod, a container, or a container with its synthetic pod that is being created.
pub(super) struct PendingCreate {
    client: NamespaceClient,
    /// The operation while plugins are asked, and until the end for a pod.
    operation: Option<Operation>,
    /// Where the operation of a container is stored after plugins have approved it.
    key: Option<OperationKey>,
    pod: Arc<Pod>,
    /// Whether the pod is being created.
    with_pod: bool,
    /// The id of the container that is being created, if any.
    container: Option<String>,
}

impl PendingCreate {
    pub(super) fn new(client: &NamespaceClient, pod: &Arc<Pod>, with_pod: bool, container: Option<String>) -> Self {
        let operation = Some(client.begin(pod));
        Self { client: client.clone(), operation, key: None, pod: Arc::clone(pod), with_pod, container }
    }

    /// Returns the operation in which plugins are asked.
    pub(super) fn operation(&self) -> &Operation {
        self.operation.as_ref().expect("plugins are being asked")
    }

    /// Records that plugins have approved a container: the runtime creates it now. Fails if the pod
    /// has ended meanwhile.
    pub(super) fn mark_approved(&mut self) -> Result<(), Error> {
        if let (Some(id), Some(operation)) = (&self.container, self.operation.take()) {
            let key = self.client.namespace.containers.store_creation(id, operation);
            self.key = Some(key.map_err(|_operation| self.pod_ended(id))?);
        }
        Ok(())
    }

    fn pod_ended(&self, id: &str) -> Error {
        Error::PodEnded { id: id.to_owned(), pod: self.pod.id.clone() }
    }

    /// Commits the create. Fails if the pod of the container has ended meanwhile. Snapshots show
    /// the object before its operation ends.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        let Some(operation) = self.take_operation() else {
            return self.container.as_ref().map_or(Ok(()), |id| Err(self.pod_ended(id)));
        };
        let namespace = &self.client.namespace;
        if self.with_pod {
            namespace.pods.mark_created(&self.pod.id, State::Running);
        }
        if let Some(id) = &self.container {
            namespace.containers.mark_created(id, State::Created);
        }
        operation.commit();
        if self.with_pod {
            namespace.pods.operation_ended(&self.pod.id);
        }
        if let Some(id) = &self.container {
            namespace.containers.operation_ended(id);
            // The container may have exited already.
            self.client.notify_exit(Arc::clone(&self.pod), id);
        }
        Ok(())
    }

    /// Commits the create. Returns what the Post event needs.
    pub(super) fn into_committed(mut self) -> Result<(NamespaceClient, Arc<Pod>), Error> {
        self.commit()?;
        Ok((self.client.clone(), Arc::clone(&self.pod)))
    }

    /// Takes the operation. Returns `None` if the operation has ended.
    fn take_operation(&mut self) -> Option<Operation> {
        let (container, key) = (&self.container, self.key.take());
        let containers = &self.client.namespace.containers;
        let stored = || container.as_ref().zip(key).and_then(|(id, key)| containers.take_operation(id, key));
        self.operation.take().or_else(stored)
    }
}

impl Drop for PendingCreate {
    fn drop(&mut self) {
        let Some(operation) = self.take_operation() else { return };
        // The rollback takes its place in the queue before another object of the same id can be
        // created.
        drop(operation);
        if let Some(id) = &self.container {
            self.client.namespace.abandon_container(id, &self.pod.id);
        }
        if self.with_pod {
            self.client.namespace.pods.abandon(&self.pod.id);
        }
    }
}

/// A start or an update that plugins have approved, while the runtime acts. If the object ends
/// meanwhile, the request counts as done.
pub(super) struct PendingChange {
    pub(super) client: NamespaceClient,
    pub(super) pod: Arc<Pod>,
    /// The id of the container, or `None` for a change of the pod.
    pub(super) container: Option<String>,
    /// Where the operation is stored after plugins have approved it.
    pub(super) key: Option<OperationKey>,
}

impl PendingChange {
    pub(super) fn new(client: &NamespaceClient, pod: Arc<Pod>, container: Option<String>) -> Self {
        Self { client: client.clone(), pod, container, key: None }
    }

    /// Ends the operation, unless it has ended. `change` is applied before `end` is called.
    pub(super) fn end(&mut self, change: impl FnOnce(&mut Lifecycle), end: impl FnOnce(Operation)) {
        let (namespace, Some(key)) = (&self.client.namespace, self.key.take()) else { return };
        match &self.container {
            Some(id) => namespace.containers.end_operation(id, key, change, end),
            None => namespace.pods.end_operation(&self.pod.id, key, change, end),
        }
    }

    /// Commits the change.
    pub(super) fn commit(&mut self) {
        self.end(|_| (), Operation::commit);
    }

    /// Rolls the change back.
    pub(super) fn abandon(&mut self) {
        self.end(|_| (), drop);
    }

    /// Commits the change. Returns what the Post event needs.
    pub(super) fn into_committed(mut self) -> (NamespaceClient, Arc<Pod>) {
        self.commit();
        (self.client.clone(), Arc::clone(&self.pod))
    }
}

impl Drop for PendingChange {
    fn drop(&mut self) {
        self.abandon();
    }
}
