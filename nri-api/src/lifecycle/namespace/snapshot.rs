//! How an inventory fills the tables of a namespace, and what of an inventory plugins are shown.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use nri_proto::{Container, ContainerState, Pod};
use tracing::warn;

use super::{ContainerInfo, Namespace};
use crate::domain::{Inventory, PodState};
use crate::lifecycle::convert::{conform, state_of, synthetic_pod};
use crate::lifecycle::state::State;
use crate::lifecycle::steps::RunId;

impl Namespace {
    /// Adds all pods and containers of an inventory that are not known yet. Plugins are not told.
    ///
    /// A container that is alive in a pod that is absent or has stopped counts as stopped: plugins
    /// could not handle it.
    pub(crate) fn fill(&self, inventory: Inventory) {
        self.warn_of_unknown_states(&inventory);
        let Inventory { pods, containers } = inventory;
        let known_pods: HashMap<&str, &Pod> = pods.iter().map(|known| (&*known.pod.id, &known.pod)).collect();
        for known in pods.iter().filter(|_| !self.is_podless) {
            let state = match known.state {
                PodState::Running => State::Running,
                PodState::Stopped | PodState::Unknown => State::Stopped,
            };
            self.enter_pod(&known.pod.id, state, RunId::default());
        }
        for container in &containers {
            let pod = self.pod_of(container);
            self.enter_container_of(&container.id, pod, self.fill_state(container), self.containers.next_run(), || {
                match known_pods.get(pod) {
                    _ if self.is_podless => ContainerInfo::of_pod(&synthetic_pod(&self.name, container)),
                    Some(pod) => ContainerInfo::of_pod(pod),
                    None => ContainerInfo::of_unknown_pod(pod),
                }
            });
        }
    }

    /// Returns the state in which a container of an inventory is entered. Counts stray containers.
    fn fill_state(&self, container: &Container) -> State {
        let (pod, state) = (self.pod_of(container), state_of(container.state));
        if state != State::Stopped && self.containers.state(&container.id).is_none() && self.is_stray(pod) {
            let (namespace, id) = (&self.name, &container.id);
            warn!(
                namespace,
                id, pod, "container is alive in a pod that is absent or has stopped; it counts as stopped"
            );
            self.n_stray.fetch_add(1, Ordering::Relaxed);
            return State::Stopped;
        }
        state
    }

    /// Returns whether the pod is absent or has ended. A pod that is about to run is neither.
    fn is_stray(&self, pod: &str) -> bool {
        !self.is_podless && self.pods.read(pod, |entry| entry.lifecycle.is_over()) != Some(false)
    }

    /// Logs one warning per namespace if the domain does not know the states of its objects.
    fn warn_of_unknown_states(&self, inventory: &Inventory) {
        let is_unknown = |state: ContainerState| matches!(state, ContainerState::Unknown | ContainerState::Unnamed(_));
        let n_pods = inventory.pods.iter().filter(|known| known.state == PodState::Unknown).count();
        let n_containers = inventory.containers.iter().filter(|container| is_unknown(container.state)).count();
        if n_pods + n_containers > 0 && !self.has_warned_of_unknown.swap(true, Ordering::Relaxed) {
            let namespace = &self.name;
            warn!(
                namespace,
                n_pods,
                n_containers,
                "inventory has objects in an unknown state; those that plugins do not know count as stopped"
            );
        }
    }

    /// Returns what a snapshot shows of an inventory: the objects that plugins know, each in the
    /// state that plugins know.
    pub(crate) fn snapshot(&self, inventory: Inventory) -> (Vec<Pod>, Vec<Container>) {
        self.warn_of_unknown_states(&inventory);
        let Inventory { pods, mut containers } = inventory;
        let is_shown =
            |pod: &Pod| self.pods.read(&pod.id, |entry| entry.lifecycle.snapshot_state().is_some()) == Some(true);
        let put_in_pod = |container: &mut Container| {
            let pod = synthetic_pod(&self.name, container);
            container.pod_id.clone_from(&pod.id);
            pod
        };
        // A synthetic pod stops after its container. Between the two stops it is shown alone.
        let pods: Vec<Pod> = match self.is_podless {
            true => containers.iter_mut().map(put_in_pod).filter(is_shown).collect(),
            false => pods.into_iter().map(|known| known.pod).filter(is_shown).collect(),
        };
        containers.retain_mut(|container| {
            let shown = self.containers.read(&container.id, |entry| entry.lifecycle.snapshot_state()).flatten();
            shown.map(|state| conform(container, state)).is_some()
        });
        (pods, containers)
    }
}
