//! A namespace of the runtime: its domain, and what plugins know of what is in it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri_proto::{Container, ContainerState, Pod};

use crate::domain::{Domain, Inventory, PodState};
use crate::life::{Life, State};
use crate::podless::made_pod;
use crate::table::{Table, Ticket};

/// How many containers that were removed are remembered, to tell them from those that never were.
const REMEMBERED: usize = 1024;

/// What is known of a pod beside its life: the ids of its containers.
pub(crate) type PodRest = Vec<String>;

/// What is known of a container beside its life.
#[derive(Default)]
pub(crate) struct ContainerRest {
    /// The id of its pod.
    pub(crate) pod: String,
    /// It has exited, and this was said of it. Whoever makes its Stop uses that.
    pub(crate) exit: Option<Box<Container>>,
    /// A start of it came to nothing, and plugins are yet to be told that it has stopped.
    pub(crate) has_failed: bool,
}

/// A namespace.
pub(crate) struct Space {
    pub(crate) namespace: String,
    pub(crate) domain: Arc<dyn Domain>,
    /// Whether a pod is made for each container.
    pub(crate) is_podless: bool,
    pub(crate) pods: Table<PodRest>,
    pub(crate) containers: Table<ContainerRest>,
    /// The last ones that were removed, the oldest first.
    gone: Mutex<VecDeque<String>>,
}

/// Whether a namespace has a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It has it.
    Here,
    /// It is being created.
    Coming,
    /// It has stopped or was removed.
    Over,
    /// It never had it, as far as anyone remembers.
    Unknown,
}

impl Space {
    pub(crate) fn new(namespace: &str, domain: Arc<dyn Domain>, is_podless: bool) -> Self {
        Self {
            namespace: namespace.to_owned(),
            domain,
            is_podless,
            pods: Table::default(),
            containers: Table::default(),
            gone: Mutex::default(),
        }
    }

    /// Enters a pod that there is, unless it is known.
    pub(crate) fn enter_pod(&self, id: &str, state: State) {
        self.pods.enter(id, state, PodRest::new);
    }

    /// Enters a container that there is, unless it is known. So is its pod.
    pub(crate) fn enter_container(&self, id: &str, pod: &str, state: State) {
        self.enter_pod(pod, if state == State::Stopped { State::Stopped } else { State::Running });
        if self.containers.enter(id, state, || ContainerRest { pod: pod.to_owned(), ..ContainerRest::default() }) {
            self.belongs(id, pod);
        }
    }

    /// A container is one of a pod.
    fn belongs(&self, id: &str, pod: &str) {
        self.pods.look(pod, |entry| entry.rest.push(id.to_owned()));
    }

    /// A container is to be created in a pod, which is entered unless it is known. False if the pod has ended, or ends.
    pub(crate) fn may_belong(&self, id: &str, pod: &str) -> bool {
        self.enter_pod(pod, State::Running);
        let belongs = self.pods.look(pod, |entry| {
            let goes_on = entry.life.is_creating() || entry.life.needs_stop();
            if goes_on {
                entry.rest.push(id.to_owned());
            }
            goes_on
        });
        belongs == Some(true)
    }

    /// A container was not created.
    pub(crate) fn abandon_container(&self, id: &str, pod: &str) {
        if self.containers.abandon(id) {
            self.pods.look(pod, |entry| entry.rest.retain(|other| other != id));
        }
    }

    /// A container was removed, and plugins were told so.
    pub(crate) fn container_removed(&self, id: &str) {
        self.containers.removed(id, |id, ContainerRest { pod, .. }| {
            self.pods.look(&pod, |entry| entry.rest.retain(|other| other != id));
            let mut gone = self.gone();
            if gone.len() == REMEMBERED {
                gone.pop_front();
            }
            gone.push_back(id.to_owned());
        });
    }

    /// What was claimed up to this of a pod's containers was told.
    pub(crate) fn told_of_containers(&self, pod: &str, last: Ticket) {
        for id in self.containers_of(pod) {
            self.containers.told(&id, last);
        }
    }

    /// The containers of a pod.
    pub(crate) fn containers_of(&self, pod: &str) -> Vec<String> {
        self.pods.read(pod, |entry| entry.rest.clone()).unwrap_or_default()
    }

    /// Takes from callers what is asked about a pod or its containers, if they do not go on with it.
    pub(crate) fn pull_reins(&self, pod: &str, patience: Duration) {
        self.pods.held(pod).iter().for_each(|reins| reins.pull(patience));
        for id in self.containers_of(pod) {
            self.containers.held(&id).iter().for_each(|reins| reins.pull(patience));
        }
    }

    /// The id of a container's pod.
    pub(crate) fn pod_of<'c>(&self, container: &'c Container) -> &'c str {
        if self.is_podless { &container.id } else { &container.pod_id }
    }

    /// Whether it has a container.
    pub(crate) fn presence(&self, id: &str) -> Presence {
        let presence = |life: &Life| match life.shown() {
            Some(_) => Presence::Here,
            None if life.is_creating() => Presence::Coming,
            None => Presence::Over,
        };
        match self.containers.read(id, |entry| presence(&entry.life)) {
            Some(presence) => presence,
            None if self.gone().iter().any(|other| other == id) => Presence::Over,
            None => Presence::Unknown,
        }
    }

    /// Enters all that there is, before any plugin is told.
    pub(crate) fn fill(&self, inventory: Inventory) {
        let Inventory { pods, containers } = inventory;
        for known in pods.iter().filter(|_| !self.is_podless) {
            let state = match known.state {
                PodState::Running => State::Running,
                PodState::Stopped | PodState::Unknown => State::Stopped,
            };
            self.enter_pod(&known.pod.id, state);
        }
        for container in &containers {
            self.enter_container(&container.id, self.pod_of(container), state_of(container.state));
        }
    }

    /// What plugins are to see of what there is: what they know, in the state in which they know it.
    pub(crate) fn show(&self, inventory: Inventory) -> (Vec<Pod>, Vec<Container>) {
        let Inventory { pods, mut containers } = inventory;
        let is_shown = |id: &str| self.pods.read(id, |entry| entry.life.shown().is_some()) == Some(true);
        containers.retain_mut(|container| {
            let shown = self.containers.read(&container.id, |entry| entry.life.shown()).flatten();
            shown.map(|state| show(container, state)).is_some()
        });
        if !self.is_podless {
            let pods = pods.into_iter().map(|known| known.pod).filter(|pod| is_shown(&pod.id)).collect();
            return (pods, containers);
        }
        let of_container = |container: &mut Container| {
            let pod = made_pod(&self.namespace, container);
            container.pod_id.clone_from(&pod.id);
            pod
        };
        let pods = containers.iter_mut().map(of_container).filter(|pod| is_shown(&pod.id)).collect();
        (pods, containers)
    }

    fn gone(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a container is that the runtime has. One in a state that it does not know is over.
pub(crate) fn state_of(state: ContainerState) -> State {
    match state {
        ContainerState::Created => State::Created,
        ContainerState::Running | ContainerState::Paused => State::Running,
        ContainerState::Stopped | ContainerState::Unknown | ContainerState::Unnamed(_) => State::Stopped,
    }
}

/// Makes a container say what plugins know of it: that it has ended they are told later.
fn show(container: &mut Container, state: State) {
    if container.state == ContainerState::Stopped {
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
