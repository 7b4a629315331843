//! The states of pods and containers before the operations that are open while a snapshot is taken.
//!
//! The runtime continues its work while the snapshot for a joining plugin is taken, so it depends
//! on timing whether the snapshot shows the effect of an operation. The plugin receives the
//! requests of that operation afterwards. So every object that an operation touches meanwhile is
//! restored to its state before the operation.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use nri_proto::{Container, ContainerState, Event, Pod};

use crate::api::request::Subject;
use crate::api::snapshot::Snapshot;
use crate::operation::{KnownState, KnownStates};

/// The states of the pod and the container that a request is about, before the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PriorStates {
    pod: Option<PriorObject<Pod>>,
    container: Option<PriorObject<Container>>,
}

/// The state of one pod or container before an operation.
#[derive(Clone, Debug)]
struct PriorObject<T> {
    id: String,
    /// The pod or container as the request describes it.
    words: Arc<T>,
    /// Whether the snapshot is to show the object, and in which state. `None`: as the snapshot
    /// shows it.
    shown: Option<Visibility>,
    /// Whether the operation only stops the object. If the snapshot shows the object as not
    /// stopped, the rest of what the snapshot shows is kept.
    ends: bool,
    /// Whether another operation touches the object afterwards, for example a start. The snapshot
    /// may then show the next run of the object.
    goes_on: bool,
}

/// Whether a snapshot is to show an object, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// Not shown: the object did not exist, or had stopped.
    No,
    /// Shown in the state that the request says.
    AsSaid,
    /// Shown in this state. Of a pod, the state is not used.
    In(ContainerState),
}

impl PriorStates {
    /// Returns the prior states of the objects that a request is about: as `known` says, or else as
    /// the request says. Returns `None` if the request has no effect on snapshots.
    pub(crate) fn of(event: Event, pod: &Arc<Pod>, subject: &Subject, known: KnownStates) -> Option<Self> {
        let of_pod =
            |shown, ends| PriorObject { id: pod.id.clone(), words: Arc::clone(pod), shown, ends, goes_on: false };
        let of_container = |shown: Option<Visibility>, ends| match subject {
            Subject::Container(words) | Subject::ContainerResources { container: words, .. } => {
                Some(PriorObject { id: words.id.clone(), words: Arc::clone(words), shown, ends, goes_on: false })
            }
            Subject::Pod | Subject::PodResources { .. } | Subject::Proposal(_) => None,
        };
        let (pod_shown, shown) = (shown(known.pod), shown(known.container));
        // A request about a container changes its pod only if the runtime has set the prior state
        // of the pod.
        let with_pod = (known.pod != KnownState::AsSaid).then(|| of_pod(pod_shown, false));
        match event {
            Event::RunPodSandbox => Some(Self { pod: Some(of_pod(Some(Visibility::No), false)), container: None }),
            Event::UpdatePodSandbox | Event::StopPodSandbox => {
                Some(Self { pod: Some(of_pod(pod_shown, false)), container: None })
            }
            Event::CreateContainer => Some(Self { pod: None, container: of_container(Some(Visibility::No), false) }),
            Event::StartContainer | Event::UpdateContainer | Event::RemoveContainer => {
                Some(Self { pod: with_pod, container: of_container(shown, false) })
            }
            Event::StopContainer => Some(Self { pod: with_pod, container: of_container(shown, true) }),
            // RemovePodSandbox: a snapshot need not show stopped pods, and this pod may have
            // stopped before.
            Event::RemovePodSandbox
            | Event::PostUpdatePodSandbox
            | Event::PostCreateContainer
            | Event::PostStartContainer
            | Event::PostUpdateContainer
            | Event::ValidateContainerAdjustment => None,
        }
    }
}

/// Returns whether and how an object with this prior state is shown.
fn shown(prior: KnownState) -> Option<Visibility> {
    match prior {
        KnownState::AsSaid => Some(Visibility::AsSaid),
        KnownState::AsShown => None,
        KnownState::Created => Some(Visibility::In(ContainerState::Created)),
        KnownState::Running => Some(Visibility::In(ContainerState::Running)),
        KnownState::Stopped => Some(Visibility::No),
    }
}

/// The prior state of each object that an operation has changed since a snapshot was requested.
#[derive(Debug, Default)]
pub(crate) struct TouchedObjects {
    pods: HashMap<String, PriorObject<Pod>>,
    containers: HashMap<String, PriorObject<Container>>,
}

impl TouchedObjects {
    /// Adds the prior states of the objects of a request. The first request that touches an object
    /// determines its prior state. If that request leaves the state to the snapshot, the state
    /// comes from the first request that knows it.
    pub(crate) fn add(&mut self, before: &PriorStates) {
        let PriorStates { pod, container } = before;
        pod.iter().for_each(|pod| add(&mut self.pods, pod));
        container.iter().for_each(|container| add(&mut self.containers, container));
    }

    /// Restores the touched objects in a snapshot. Returns the snapshot, and the pods that were
    /// taken out of it because they did not exist before, or had stopped.
    ///
    /// Snapshots need not show stopped containers, so a container that is missing is added back
    /// only if it had not stopped.
    pub(crate) fn put_back(self, snapshot: Snapshot) -> (Snapshot, Vec<Pod>) {
        let Snapshot { mut pods, mut containers } = snapshot;
        let Self { pods: mut pods_were, containers: mut containers_were } = self;
        let is_hidden = |pod: &Pod| pods_were.get(&pod.id).is_some_and(|was| was.shown == Some(Visibility::No));
        // The containers of such a pod may stay in the snapshot: their operations have ended, so
        // the plugin will not be notified of them.
        let hidden = pods.extract_if(.., |pod| is_hidden(pod)).collect();
        for pod in &mut pods {
            if let Some(was) = pods_were.remove(&pod.id) {
                *pod = Pod::clone(&was.words);
            }
        }
        pods.extend(missing(pods_were, |was| Pod::clone(&was.words)));
        containers.retain_mut(|container| match containers_were.remove(&container.id) {
            Some(was) => was.restore(container),
            None => true,
        });
        let restored = missing(containers_were, |was| Container::clone(&was.as_it_was(was.words.state)));
        containers.extend(restored.into_iter().filter(|container| container.state != ContainerState::Stopped));
        (Snapshot { pods, containers }, hidden)
    }
}

fn add<T>(touched: &mut HashMap<String, PriorObject<T>>, was: &PriorObject<T>) {
    match touched.entry(was.id.clone()) {
        Entry::Vacant(place) => {
            place.insert(PriorObject { id: was.id.clone(), words: Arc::clone(&was.words), ..*was });
        }
        Entry::Occupied(mut place) => {
            let first = place.get_mut();
            first.shown = first.shown.or(was.shown);
            first.goes_on |= !was.ends;
        }
    }
}

/// Restores the objects that existed before and are not in the snapshot.
fn missing<T>(were: HashMap<String, PriorObject<T>>, restore: impl Fn(&PriorObject<T>) -> T) -> Vec<T> {
    let is_missing = |was: &PriorObject<T>| matches!(was.shown, Some(Visibility::AsSaid | Visibility::In(_)));
    let mut missing: Vec<_> = were.into_values().filter(is_missing).collect();
    missing.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    missing.iter().map(restore).collect()
}

impl PriorObject<Container> {
    /// Restores a container of the snapshot to its prior state. Returns false if the container is
    /// not to be shown.
    fn restore(&self, container: &mut Container) -> bool {
        if self.shown == Some(Visibility::No) {
            return false;
        }
        if self.ends && !self.goes_on && container.state != ContainerState::Stopped {
            container.state = self.state(container.state);
        } else {
            *container = Container::clone(&self.as_it_was(container.state));
        }
        true
    }

    /// Returns the container in its prior state. `in_snapshot` is the state that the snapshot
    /// shows.
    fn as_it_was(&self, in_snapshot: ContainerState) -> Arc<Container> {
        let state = match self.shown {
            None => in_snapshot,
            Some(Visibility::AsSaid) if self.ends => return alive(&self.words),
            Some(_) => self.state(self.words.state),
        };
        in_state(&self.words, state)
    }

    /// Returns the prior state of a container for which the snapshot or the request says `said`. A
    /// paused container counts as running.
    fn state(&self, said: ContainerState) -> ContainerState {
        match self.shown {
            Some(Visibility::In(ContainerState::Running)) if said == ContainerState::Paused => said,
            Some(Visibility::In(state)) => state,
            Some(Visibility::AsSaid | Visibility::No) | None => said,
        }
    }
}

/// Returns a container as it was before it stopped, as far as its start and finish times show that.
fn alive(container: &Arc<Container>) -> Arc<Container> {
    if container.state != ContainerState::Stopped {
        return Arc::clone(container);
    }
    let has_run = container.started_at != 0 || container.finished_at != 0;
    in_state(container, if has_run { ContainerState::Running } else { ContainerState::Created })
}

/// Returns a container in another state, without the fields about its exit.
fn in_state(container: &Arc<Container>, state: ContainerState) -> Arc<Container> {
    if container.state == state {
        return Arc::clone(container);
    }
    let (status_reason, status_message) = (String::new(), String::new());
    let container = Container::clone(container);
    Arc::new(Container { state, finished_at: 0, exit_code: 0, status_reason, status_message, ..container })
}
