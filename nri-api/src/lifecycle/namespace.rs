//! A namespace of the runtime: its domain, and what plugins know of what is in it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri_proto::{Container, ContainerState, Pod};
use tracing::warn;

use crate::domain::{Domain, Inventory, PodState};
use crate::handle::podless::made_pod;
use crate::lifecycle::state::{Lifecycle, RunId, State};
use crate::lifecycle::table::{Table, Ticket};

/// How many containers that were removed are remembered, to tell them from those that never were.
const REMEMBERED: usize = 1024;

/// What is known of a pod beside its life: the ids of its containers.
pub(crate) type PodContainers = Vec<String>;

/// What is known of a container beside its life.
#[derive(Default)]
pub(crate) struct ContainerInfo {
    /// The id of its pod.
    pub(crate) pod: String,
    /// The namespace of Kubernetes that the pod is in, if that is known.
    pub(crate) pods_namespace: KubernetesNamespace,
    /// Ends that were said and that plugins are yet to be told of, by run, the oldest first. There is rarely more than one.
    pub(crate) exits: Vec<ExitRecord>,
    /// Whether plugins were asked about a restart since the last Stop. If the restart failed, the plugins that saw it may not have
    /// been told of its end yet.
    pub(crate) is_restarted: bool,
}

/// An end of a run that was said: an exit, or a first start that came to nothing.
pub(crate) struct ExitRecord {
    /// The run that it ends.
    pub(crate) run: RunId,
    /// What the exit says. Whoever makes the Stop uses that.
    pub(crate) words: Option<Box<Container>>,
}

impl ContainerInfo {
    pub(crate) fn of_pod(pod: &Pod) -> Self {
        Self { pods_namespace: Some(pod.namespace.as_str().into()), ..Self::of_unknown_pod(&pod.id) }
    }

    /// A container of a pod of which only the id is known.
    fn of_unknown_pod(pod: &str) -> Self {
        Self { pod: pod.to_owned(), ..Self::default() }
    }

    /// An end of a run was said. False if that is known.
    pub(crate) fn note_exit(&mut self, run: RunId, words: Option<Box<Container>>) -> bool {
        match self.exits.iter_mut().find(|exit| exit.run == run) {
            Some(ExitRecord { words: Some(_), .. }) => false,
            Some(exit) => {
                exit.words = words;
                true
            }
            None => {
                self.exits.push(ExitRecord { run, words });
                true
            }
        }
    }

    /// Takes what was said of the end of the run that it is in. What was said of runs before is forgotten.
    pub(crate) fn take_exit(&mut self, run: RunId) -> Option<Box<Container>> {
        self.exits.retain(|exit| exit.run >= run);
        if self.exits.is_empty() { None } else { self.exits.remove(0).words }
    }
}

/// A namespace.
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) domain: Arc<dyn Domain>,
    /// Whether a pod is made for each container.
    pub(crate) is_podless: bool,
    pub(crate) pods: Table<PodContainers>,
    pub(crate) containers: Table<ContainerInfo>,
    /// The last ones that were removed, the oldest first.
    gone: Mutex<VecDeque<RemovedContainer>>,
    /// Whether it was reported that the domain does not know all states.
    has_unknown: AtomicBool,
    /// How many containers were found alive in pods that are not there, or have stopped.
    pub(crate) n_stray: AtomicU64,
}

/// The namespace of Kubernetes that a container's pod is in, if that is known.
pub(crate) type KubernetesNamespace = Option<Arc<str>>;

/// A container that was removed.
struct RemovedContainer {
    id: String,
    pods_namespace: KubernetesNamespace,
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

/// What became known when a container was entered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewlyKnown {
    /// Whether the container was unknown before.
    pub(crate) is_new: bool,
    /// The state of its pod, if the pod was unknown before.
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
            gone: Mutex::default(),
            has_unknown: AtomicBool::new(false),
            n_stray: AtomicU64::new(0),
        }
    }

    /// Enters a pod that there is, unless it is known. True if it was not.
    pub(crate) fn enter_pod(&self, id: &str, state: State, run: RunId) -> bool {
        self.pods.enter(id, state, run, PodContainers::new)
    }

    /// Enters a container that there is, unless it is known, and likewise its pod.
    pub(crate) fn enter_container(&self, id: &str, pod: &Pod, state: State, run: RunId) -> NewlyKnown {
        self.enter_container_of(id, &pod.id, state, run, || ContainerInfo::of_pod(pod))
    }

    fn enter_container_of(
        &self,
        id: &str,
        pod: &str,
        state: State,
        run: RunId,
        rest: impl FnOnce() -> ContainerInfo,
    ) -> NewlyKnown {
        let of_pod = if state == State::Stopped { State::Stopped } else { State::Running };
        let is_new_pod = self.enter_pod(pod, of_pod, run);
        let is_new = self.containers.enter(id, state, run, rest);
        if is_new {
            self.belongs(id, pod);
        }
        NewlyKnown { is_new, pod: is_new_pod.then_some(of_pod) }
    }

    /// A container is one of a pod.
    fn belongs(&self, id: &str, pod: &str) {
        self.pods.look(pod, |entry| entry.rest.push(id.to_owned()));
    }

    /// A container is to be created in a pod, which is entered unless it is known. False if the pod has ended, or ends.
    pub(crate) fn may_belong(&self, id: &str, pod: &str) -> bool {
        self.enter_pod(pod, State::Running, RunId::default());
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
        self.containers.removed(id, |id, ContainerInfo { pod, pods_namespace, exits: _, is_restarted: _ }| {
            self.pods.look(&pod, |entry| entry.rest.retain(|other| other != id));
            let mut gone = self.gone();
            if gone.len() == REMEMBERED {
                gone.pop_front();
            }
            gone.push_back(RemovedContainer { id: id.to_owned(), pods_namespace });
        });
    }

    /// Notes that the runtime asks for the Remove of a pod and of all containers in it.
    pub(crate) fn pod_remove_asked(&self, pod: &str) {
        self.pods.look(pod, |entry| entry.life.remove_asked());
        for id in self.containers_of(pod) {
            self.containers.look(&id, |entry| entry.life.remove_asked());
        }
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
        self.pods.held(pod).iter().for_each(|revoke| revoke.pull(patience));
        for id in self.containers_of(pod) {
            self.containers.held(&id).iter().for_each(|revoke| revoke.pull(patience));
        }
    }

    /// The id of a container's pod.
    pub(crate) fn pod_of<'c>(&self, container: &'c Container) -> &'c str {
        if self.is_podless { &container.id } else { &container.pod_id }
    }

    /// Whether it has a container.
    pub(crate) fn presence(&self, id: &str) -> Presence {
        let presence = |life: &Lifecycle| match life.shown() {
            Some(_) => Presence::Here,
            None if life.is_creating() => Presence::Coming,
            None => Presence::Over,
        };
        match self.containers.read(id, |entry| presence(&entry.life)) {
            Some(presence) => presence,
            None if self.gone().iter().any(|gone| gone.id == id) => Presence::Over,
            None => Presence::Unknown,
        }
    }

    /// In which namespace of Kubernetes a container is, or was when it was removed; `None` if it never was here, as far as anyone
    /// remembers.
    pub(crate) fn pods_namespace(&self, id: &str) -> Option<KubernetesNamespace> {
        let of_gone = || self.gone().iter().rev().find(|gone| gone.id == id).map(|gone| gone.pods_namespace.clone());
        self.containers.read(id, |entry| entry.rest.pods_namespace.clone()).or_else(of_gone)
    }

    /// Enters all that there is, before any plugin is told.
    ///
    /// A container that is said to be alive in a pod that is not there, or has stopped, counts as stopped: plugins could make nothing of it.
    pub(crate) fn fill(&self, inventory: Inventory) {
        self.look_for_unknown(&inventory);
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
            let (pod, mut state) = (self.pod_of(container), state_of(container.state));
            if state != State::Stopped && self.containers.state(&container.id).is_none() && self.is_stray(pod) {
                let (namespace, id) = (&self.name, &container.id);
                warn!(namespace, id, pod, "a container is alive in a pod that is not there, or has stopped");
                self.n_stray.fetch_add(1, Ordering::Relaxed);
                state = State::Stopped;
            }
            self.enter_container_of(&container.id, pod, state, self.containers.next_run(), || {
                match known_pods.get(pod) {
                    _ if self.is_podless => ContainerInfo::of_pod(&made_pod(&self.name, container)),
                    Some(pod) => ContainerInfo::of_pod(pod),
                    None => ContainerInfo::of_unknown_pod(pod),
                }
            });
        }
    }

    /// Whether what is in this pod cannot be alive: the pod is absent, or over. One that is about to run is not.
    fn is_stray(&self, pod: &str) -> bool {
        !self.is_podless && self.pods.read(pod, |entry| entry.life.is_over()) != Some(false)
    }

    /// A domain is to know the states of what it has. That it does not is reported once.
    fn look_for_unknown(&self, inventory: &Inventory) {
        let is_unknown = |state: ContainerState| matches!(state, ContainerState::Unknown | ContainerState::Unnamed(_));
        let n_pods = inventory.pods.iter().filter(|known| known.state == PodState::Unknown).count();
        let n_containers = inventory.containers.iter().filter(|container| is_unknown(container.state)).count();
        if n_pods + n_containers > 0 && !self.has_unknown.swap(true, Ordering::Relaxed) {
            let namespace = &self.name;
            warn!(
                namespace,
                n_pods,
                n_containers,
                "inventory has objects in an unknown state: those that plugins do not know count as stopped"
            );
        }
    }

    /// What plugins are to see of what there is: what they know, in the state in which they know it.
    pub(crate) fn show(&self, inventory: Inventory) -> (Vec<Pod>, Vec<Container>) {
        self.look_for_unknown(&inventory);
        let Inventory { pods, mut containers } = inventory;
        let is_shown = |pod: &Pod| self.pods.read(&pod.id, |entry| entry.life.shown().is_some()) == Some(true);
        let of_container = |container: &mut Container| {
            let pod = made_pod(&self.name, container);
            container.pod_id.clone_from(&pod.id);
            pod
        };
        // A pod that was made stops after its container: between the two it is shown alone.
        let pods: Vec<Pod> = match self.is_podless {
            true => containers.iter_mut().map(of_container).filter(is_shown).collect(),
            false => pods.into_iter().map(|known| known.pod).filter(is_shown).collect(),
        };
        containers.retain_mut(|container| {
            let shown = self.containers.read(&container.id, |entry| entry.life.shown()).flatten();
            shown.map(|state| conform(container, state)).is_some()
        });
        (pods, containers)
    }

    fn gone(&self) -> MutexGuard<'_, VecDeque<RemovedContainer>> {
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

/// Makes a container say what plugins know of it: that it has ended they are told later. One that is frozen may say so.
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
