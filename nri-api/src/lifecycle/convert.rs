//! Conversions: between the states of the runtime, of the adaptation and of plugins, and from a
//! container without a pod to the pod that plugins see.

use nri_adaptation::KnownState;
use nri_proto::{Container, ContainerState, LinuxPod, Pod};

use super::state::State;

/// Returns the state of a container that the runtime reports. An unknown state counts as stopped.
pub(crate) fn state_of(state: ContainerState) -> State {
    match state {
        ContainerState::Created => State::Created,
        ContainerState::Running | ContainerState::Paused => State::Running,
        ContainerState::Stopped | ContainerState::Unknown | ContainerState::Unnamed(_) => State::Stopped,
    }
}

/// Returns a state as the prior state of an operation.
pub(crate) fn prior(state: State) -> KnownState {
    match state {
        State::Created => KnownState::Created,
        State::Running => KnownState::Running,
        State::Stopped => KnownState::Stopped,
    }
}

/// Changes the state in `container` to `state`, which is what plugins know.
///
/// If plugins do not know yet that the container has stopped, its exit is cleared: plugins hear of
/// the exit later. A container that is running may keep the state Paused.
pub(crate) fn conform(container: &mut Container, state: State) {
    if container.state == ContainerState::Stopped && state != State::Stopped {
        container.exit_code = 0;
        container.finished_at = 0;
        container.status_reason.clear();
        container.status_message.clear();
    }
    container.state = match state {
        State::Created => ContainerState::Created,
        State::Running if container.state == ContainerState::Paused => ContainerState::Paused,
        State::Running => ContainerState::Running,
        State::Stopped => ContainerState::Stopped,
    };
}

/// Returns the pod that plugins see for a container of a runtime without pods.
pub(crate) fn synthetic_pod(namespace: &str, container: &Container) -> Pod {
    let cgroups_path = container.linux.as_ref().map(|linux| linux.cgroups_path.clone()).unwrap_or_default();
    let linux = (!cgroups_path.is_empty()).then(|| LinuxPod { cgroups_path, ..LinuxPod::default() });
    Pod {
        id: container.id.clone(),
        name: container.name.clone(),
        uid: container.id.clone(),
        namespace: namespace.to_owned(),
        labels: container.labels.clone(),
        annotations: container.annotations.clone(),
        linux,
        ..Pod::default()
    }
}
