//! One namespace of the runtime: its domain, its pods and its containers, as plugins know them.
//!
//! - `records`: what is known of a pod or container besides its state.
//! - `snapshot`: how an inventory fills the tables, and what of it plugins are shown.
//! - `domain_calls`: calls of the namespace's domain, limited in time.

mod domain_calls;
mod records;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use nri_proto::{Container, Pod};
use parking_lot::Mutex;

pub(crate) use self::records::{ContainerInfo, KubernetesNamespace, PodContainers};
use super::state::{Lifecycle, State};
use super::steps::RunId;
use super::table::Table;
use super::table::claim::Ticket;
use crate::domain::Domain;

/// How many removed containers are remembered, to tell them from containers that never existed.
const REMEMBERED: usize = 1024;

/// One namespace of the runtime.
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) domain: Arc<dyn Domain>,
    /// Whether the runtime has no pods. Plugins see a pod for each container then.
    pub(crate) is_podless: bool,
    pub(crate) pods: Table<PodContainers>,
    pub(crate) containers: Table<ContainerInfo>,
    /// The containers that were removed last, the oldest first.
    removed: Mutex<VecDeque<RemovedContainer>>,
    /// Whether a warning about objects in an unknown state was logged.
    has_warned_of_unknown: AtomicBool,
    /// How many containers were found alive in pods that are absent or have stopped.
    pub(crate) n_stray: AtomicU64,
}

/// A container that was removed.
struct RemovedContainer {
    id: String,
    pods_namespace: KubernetesNamespace,
}

/// Whether a namespace has a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The container exists and has not stopped.
    Alive,
    /// The container is being created.
    BeingCreated,
    /// The container has stopped or was removed.
    Ended,
    /// The namespace never had the container, as far as is remembered.
    Unknown,
}

/// The objects that became known when a container was added to the tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewlyKnown {
    /// Whether the container was unknown before.
    pub(crate) is_new: bool,
    /// The state of the container's pod, if the pod was unknown before.
    pub(crate) pod: Option<State>,
}

impl Namespace {
    pub(crate) fn new(name: &str, domain: Arc<dyn Domain>, is_podless: bool) -> Self {
        Self {
            name: name.to_owned(),
            domain,
            is_podless,
            pods: Table::default(),
            containers: Table::default(),
            removed: Mutex::default(),
            has_warned_of_unknown: AtomicBool::new(false),
            n_stray: AtomicU64::new(0),
        }
    }

    /// Adds a pod that exists, unless the pod is known. Returns whether the pod was added.
    pub(crate) fn enter_pod(&self, id: &str, state: State, run: RunId) -> bool {
        self.pods.enter(id, state, run, PodContainers::new)
    }

    /// Adds a container that exists and its pod, unless they are known.
    pub(crate) fn enter_container(&self, id: &str, pod: &Pod, state: State, run: RunId) -> NewlyKnown {
        self.enter_container_of(id, &pod.id, state, run, || ContainerInfo::of_pod(pod))
    }

    fn enter_container_of(
        &self,
        id: &str,
        pod: &str,
        state: State,
        run: RunId,
        info: impl FnOnce() -> ContainerInfo,
    ) -> NewlyKnown {
        let pod_state = if state == State::Stopped { State::Stopped } else { State::Running };
        let is_new_pod = self.enter_pod(pod, pod_state, run);
        let is_new = self.containers.enter(id, state, run, info);
        if is_new {
            self.pods.edit(pod, |entry| entry.info.push(id.to_owned()));
        }
        NewlyKnown { is_new, pod: is_new_pod.then_some(pod_state) }
    }

    /// Records that a container is being created in a pod. Adds the pod unless it is known. Returns
    /// false if the pod is ending or has ended.
    pub(crate) fn begin_create_in_pod(&self, id: &str, pod: &str) -> bool {
        self.enter_pod(pod, State::Running, RunId::default());
        let is_added = self.pods.edit(pod, |entry| {
            let is_open = !entry.lifecycle.is_over();
            if is_open {
                entry.info.push(id.to_owned());
            }
            is_open
        });
        is_added == Some(true)
    }

    /// Removes a container that was not created.
    pub(crate) fn abandon_container(&self, id: &str, pod: &str) {
        if self.containers.abandon(id) {
            self.forget_in_pod(id, pod);
        }
    }

    /// Removes a container whose Remove was delivered, and remembers its id for a while.
    pub(crate) fn remove_container(&self, id: &str) {
        self.containers.remove(id, |id, ContainerInfo { pod, pods_namespace, exits: _, is_restarted: _ }| {
            self.forget_in_pod(id, &pod);
            let mut removed = self.removed.lock();
            if removed.len() == REMEMBERED {
                removed.pop_front();
            }
            removed.push_back(RemovedContainer { id: id.to_owned(), pods_namespace });
        });
    }

    fn forget_in_pod(&self, id: &str, pod: &str) {
        self.pods.edit(pod, |entry| entry.info.retain(|other| other != id));
    }

    /// Records that the runtime requests the Remove of a pod and of all its containers.
    pub(crate) fn request_pod_remove(&self, pod: &str) {
        self.pods.edit(pod, |entry| entry.lifecycle.request_remove());
        for id in self.containers_of(pod) {
            self.containers.edit(&id, |entry| entry.lifecycle.request_remove());
        }
    }

    /// Commits the claims of a pod's containers up to `last`, which plugins have heard.
    pub(crate) fn container_claims_delivered(&self, pod: &str, last: Ticket) {
        for id in self.containers_of(pod) {
            self.containers.claims_delivered(&id, last);
        }
    }

    /// Returns the ids of a pod's containers.
    pub(crate) fn containers_of(&self, pod: &str) -> Vec<String> {
        self.pods.read(pod, |entry| entry.info.clone()).unwrap_or_default()
    }

    /// Returns the id of a container's pod, as plugins see it.
    fn pod_of<'c>(&self, container: &'c Container) -> &'c str {
        if self.is_podless { &container.id } else { &container.pod_id }
    }

    /// Returns whether the namespace has a container.
    pub(crate) fn presence(&self, id: &str) -> Presence {
        let presence = |lifecycle: &Lifecycle| match lifecycle.snapshot_state() {
            Some(_) => Presence::Alive,
            None if lifecycle.is_creating() => Presence::BeingCreated,
            None => Presence::Ended,
        };
        match self.containers.read(id, |entry| presence(&entry.lifecycle)) {
            Some(presence) => presence,
            None if self.removed.lock().iter().any(|removed| removed.id == id) => Presence::Ended,
            None => Presence::Unknown,
        }
    }

    /// Returns the Kubernetes namespace of a container's pod, also for a container that was removed
    /// a short while ago. Returns `None` if the container is unknown.
    pub(crate) fn pods_namespace(&self, id: &str) -> Option<KubernetesNamespace> {
        let of_removed = || {
            let removed = self.removed.lock();
            removed.iter().rev().find(|removed| removed.id == id).map(|removed| removed.pods_namespace.clone())
        };
        self.containers.read(id, |entry| entry.info.pods_namespace.clone()).or_else(of_removed)
    }
}
