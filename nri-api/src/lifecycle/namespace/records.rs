//! The facts about a pod or container that are known besides its state.

use std::sync::Arc;

use nri_proto::{Container, Pod};

use crate::lifecycle::state::Lifecycle;
use crate::lifecycle::steps::RunId;

/// The ids of a pod's containers.
pub(crate) type PodContainers = Vec<String>;

/// The Kubernetes namespace of a container's pod, if it is known.
pub(crate) type KubernetesNamespace = Option<Arc<str>>;

/// Facts about a container besides its state.
#[derive(Default)]
pub(crate) struct ContainerInfo {
    /// The id of the container's pod.
    pub(crate) pod: String,
    pub(crate) pods_namespace: KubernetesNamespace,
    /// The reported ends that plugins were not notified of yet, the oldest run first. There is
    /// rarely more than one.
    pub(crate) exits: Vec<ExitRecord>,
    /// Whether plugins were asked about a restart since the last Stop. If the restart failed, the
    /// plugins that saw it may not have heard of its end yet.
    pub(crate) is_restarted: bool,
}

/// The reported end of a run: an exit, or a first start that has failed.
pub(crate) struct ExitRecord {
    /// The run that has ended.
    pub(crate) run: RunId,
    /// The container as the exit reports it. The Stop of the container contains these values.
    pub(crate) container: Option<Box<Container>>,
}

impl ContainerInfo {
    pub(crate) fn of_pod(pod: &Pod) -> Self {
        Self { pods_namespace: Some(pod.namespace.as_str().into()), ..Self::of_unknown_pod(&pod.id) }
    }

    /// Returns the record of a container of whose pod only the id is known.
    pub(super) fn of_unknown_pod(pod: &str) -> Self {
        Self { pod: pod.to_owned(), ..Self::default() }
    }

    /// Records the end of a run. Returns false if an exit of the run was recorded before.
    pub(crate) fn record_exit(&mut self, run: RunId, container: Option<Box<Container>>) -> bool {
        match self.exits.iter_mut().find(|exit| exit.run == run) {
            Some(ExitRecord { container: Some(_), .. }) => false,
            Some(exit) => {
                exit.container = container;
                true
            }
            None => {
                self.exits.push(ExitRecord { run, container });
                true
            }
        }
    }

    /// Forgets exits that no Stop will tell of any more. While the container is not being started,
    /// it has one Stop at most, which tells of the oldest exit.
    pub(crate) fn forget_exits(&mut self, lifecycle: &Lifecycle) {
        self.exits.retain(|exit| lifecycle.may_tell_end(exit.run));
        if lifecycle.needs_stop() && !lifecycle.is_being_started() {
            self.exits.truncate(1);
        }
    }

    /// Takes the exit of the current run. Exits of earlier runs are forgotten.
    pub(crate) fn take_exit(&mut self, run: RunId) -> Option<Box<Container>> {
        self.exits.retain(|exit| exit.run >= run);
        if self.exits.is_empty() { None } else { self.exits.remove(0).container }
    }
}
