//! Pods and containers that exist when NRI is started, in all states that an inventory can have.

use std::sync::Arc;

use nri_api::{Container, ContainerState, KnownPod, PodState};

use super::lives::{end_pod, run_again_and_again};
use super::world::{Has, Node, WayIn};
use crate::rig;

/// A container that exists when NRI is started, and its pod.
pub(super) struct Found {
    pod: String,
    id: String,
    /// Whether the pod is running as far as plugins know.
    pod_runs: bool,
}

/// Adds a few such containers to a node, before NRI is started.
pub(super) fn enter(node: &Node) -> Vec<Found> {
    (0..node.below(3)).map(|number| enter_one(node, number)).collect()
}

fn enter_one(node: &Node, number: u64) -> Found {
    let (id, pod) = (format!("found{number}"), format!("foundpod{number}"));
    let pod_id = if node.is_podless() { id.clone() } else { pod.clone() };
    let states = [ContainerState::Created, ContainerState::Running, ContainerState::Stopped, ContainerState::Unknown];
    let state = states[usize::try_from(node.below(4)).unwrap()];
    let of_pod =
        [Some(PodState::Running), Some(PodState::Running), Some(PodState::Stopped), Some(PodState::Unknown), None];
    let of_pod = of_pod[usize::try_from(node.below(5)).unwrap()];
    let is_alive = matches!(state, ContainerState::Created | ContainerState::Running);
    let pod_runs = if node.is_podless() { is_alive } else { of_pod == Some(PodState::Running) };
    if let Some(state) = of_pod.filter(|_| !node.is_podless()) {
        node.pods.lock().unwrap().insert(pod.clone(), KnownPod { pod: rig::pod(&pod), state });
    }
    let words = Container { state, ..rig::container(&pod_id, &id) };
    node.containers.lock().unwrap().insert(id.clone(), Has { words, runs: false, is_starting: false });
    let shown = match state {
        ContainerState::Running => Some("running"),
        ContainerState::Created => Some("created"),
        ContainerState::Paused | ContainerState::Stopped | ContainerState::Unknown | ContainerState::Unnamed(_) => None,
    };
    node.act(&format!("c/{id}"), &[&[]], &[shown.filter(|_| pod_runs)]);
    node.act(&format!("p/{pod_id}"), &[&[]], &[pod_runs.then_some("pod")]);
    Found { pod: pod_id, id, pod_runs }
}

/// Runs such a container, and its pod, to the end.
pub(super) async fn live(node: Arc<Node>, found: Found) {
    let Found { pod, id, pod_runs } = found;
    {
        let mut containers = node.containers.lock().unwrap();
        let has = containers.get_mut(&id).unwrap();
        has.runs = pod_runs && has.words.state == ContainerState::Running;
        if !pod_runs || has.words.state == ContainerState::Unknown {
            // Plugins take such a container for stopped.
            has.words.state = ContainerState::Stopped;
        }
    }
    Box::pin(run_again_and_again(Arc::clone(&node), id)).await;
    if let WayIn::Pods(handle) = node.way() {
        end_pod(&node, handle, &pod, pod_runs).await;
    }
}
