//! How things were before the operations that are open while a snapshot is taken.
//!
//! A snapshot is taken while the runtime goes on. Whether it shows what an operation does depends
//! on chance, and a plugin hears of that operation afterwards. So all that is touched meanwhile is
//! put back to how it was before.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use nri_proto::{Container, ContainerState, Event, Pod};

use crate::api::request::Subject;
use crate::api::snapshot::Snapshot;
use crate::operation::{Known, Prior};

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
    /// What else is known of it.
    words: Arc<T>,
    /// Whether it was to be shown, and in which state. `None`: as the snapshot says.
    shown: Option<Visibility>,
    /// All that is done to it is that it ends: what the snapshot shows of one that has not ended is
    /// how it was.
    ends: bool,
    /// Something else is done to the object afterwards, such as a start: what the snapshot shows of
    /// it may be of its next run.
    goes_on: bool,
}

/// Whether a snapshot shows an object as it was before the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// It was not there, or had stopped.
    No,
    /// In the state that its words say.
    AsSaid,
    /// In this state. Of pods it says nothing.
    In(ContainerState),
}

impl PriorStates {
    /// How what a request is about was before, as is known of it or else as the request says.
    /// `None` if that makes no difference.
    pub(crate) fn of(event: Event, pod: &Arc<Pod>, subject: &Subject, known: Known) -> Option<Self> {
        let of_pod =
            |shown, ends| PriorObject { id: pod.id.clone(), words: Arc::clone(pod), shown, ends, goes_on: false };
        let of_container = |shown: Option<Visibility>, ends| match subject {
            Subject::Container(words) | Subject::ContainerResources { container: words, .. } => {
                Some(PriorObject { id: words.id.clone(), words: Arc::clone(words), shown, ends, goes_on: false })
            }
            Subject::Pod | Subject::PodResources { .. } | Subject::Proposal(_) => None,
        };
        let (pod_shown, shown) = (shown(known.pod), shown(known.container));
        // A request about a container changes its pod only if someone says so.
        let with_pod = (known.pod != Prior::AsSaid).then(|| of_pod(pod_shown, false));
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
            // A pod that has stopped need not be shown, and this one may have.
            Event::RemovePodSandbox
            | Event::PostUpdatePodSandbox
            | Event::PostCreateContainer
            | Event::PostStartContainer
            | Event::PostUpdateContainer
            | Event::ValidateContainerAdjustment => None,
        }
    }
}

/// How something was to be shown of which this is known.
fn shown(prior: Prior) -> Option<Visibility> {
    match prior {
        Prior::AsSaid => Some(Visibility::AsSaid),
        Prior::AsShown => None,
        Prior::Created => Some(Visibility::In(ContainerState::Created)),
        Prior::Running => Some(Visibility::In(ContainerState::Running)),
        Prior::Stopped => Some(Visibility::No),
    }
}

/// The prior state of each object that an operation has changed since a snapshot was requested.
#[derive(Debug, Default)]
pub(crate) struct TouchedObjects {
    pods: HashMap<String, PriorObject<Pod>>,
    containers: HashMap<String, PriorObject<Container>>,
}

impl TouchedObjects {
    /// Something is touched. How it was is what the first one says who touches it; and in which
    /// state, the first one who knows.
    pub(crate) fn add(&mut self, before: &PriorStates) {
        let PriorStates { pod, container } = before;
        pod.iter().for_each(|pod| add(&mut self.pods, pod));
        container.iter().for_each(|container| add(&mut self.containers, container));
    }

    /// A snapshot as it was at that moment, and the pods that were not there yet.
    ///
    /// Of containers that have stopped a snapshot need not say anything: one is left out if it was.
    pub(crate) fn put_back(self, snapshot: Snapshot) -> (Snapshot, Vec<Pod>) {
        let Snapshot { mut pods, mut containers } = snapshot;
        let Self { pods: mut pods_were, containers: mut containers_were } = self;
        let is_hidden = |pod: &Pod| pods_were.get(&pod.id).is_some_and(|was| was.shown == Some(Visibility::No));
        // Their containers may be shown all the same: the operations of those have ended, so nobody
        // would tell of them.
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

/// Those that were there and are not in the snapshot.
fn missing<T>(were: HashMap<String, PriorObject<T>>, restore: impl Fn(&PriorObject<T>) -> T) -> Vec<T> {
    let is_missing = |was: &PriorObject<T>| matches!(was.shown, Some(Visibility::AsSaid | Visibility::In(_)));
    let mut missing: Vec<_> = were.into_values().filter(is_missing).collect();
    missing.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    missing.iter().map(restore).collect()
}

impl PriorObject<Container> {
    /// Makes a container of the snapshot what it was. False if it was not to be shown.
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

    /// The container as it was, if the snapshot shows it in this state.
    fn as_it_was(&self, in_snapshot: ContainerState) -> Arc<Container> {
        let state = match self.shown {
            None => in_snapshot,
            Some(Visibility::AsSaid) if self.ends => return alive(&self.words),
            Some(_) => self.state(self.words.state),
        };
        in_state(&self.words, state)
    }

    /// The state that it was in, if someone says that it is this one. One that is frozen runs.
    fn state(&self, said: ContainerState) -> ContainerState {
        match self.shown {
            Some(Visibility::In(ContainerState::Running)) if said == ContainerState::Paused => said,
            Some(Visibility::In(state)) => state,
            Some(Visibility::AsSaid | Visibility::No) | None => said,
        }
    }
}

/// A container as it was before it ended, as far as its words tell.
fn alive(container: &Arc<Container>) -> Arc<Container> {
    if container.state != ContainerState::Stopped {
        return Arc::clone(container);
    }
    let has_run = container.started_at != 0 || container.finished_at != 0;
    in_state(container, if has_run { ContainerState::Running } else { ContainerState::Created })
}

/// A container in another state than its words say: what they say of its end is not so yet.
fn in_state(container: &Arc<Container>, state: ContainerState) -> Arc<Container> {
    if container.state == state {
        return Arc::clone(container);
    }
    let (status_reason, status_message) = (String::new(), String::new());
    let container = Container::clone(container);
    Arc::new(Container { state, finished_at: 0, exit_code: 0, status_reason, status_message, ..container })
}
