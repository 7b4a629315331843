//! How things were before the operations that are open while a snapshot is taken.
//!
//! A snapshot is taken while the runtime goes on. Whether it shows what an operation does depends on chance, and a plugin hears of that
//! operation afterwards. So all that is touched meanwhile is put back to how it was before.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nri_proto::{Container, ContainerState, Event, Pod};

use crate::request::Subject;
use crate::snapshot::Snapshot;

/// How something was before it was asked about.
#[derive(Clone, Debug)]
pub(crate) enum Before {
    /// There was no such pod.
    NoPod(Arc<Pod>),
    /// There was no such container.
    NoContainer(Box<str>),
    /// The pod was like this.
    Pod(Arc<Pod>),
    /// The container was like this.
    Container(Arc<Container>),
    /// The container was like this, and had not ended, whatever is said of that now.
    Alive(Arc<Container>),
}

impl Before {
    /// How what a request is about was before, as the request says. `None` if that makes no difference.
    pub(crate) fn of(event: Event, pod: &Arc<Pod>, subject: &Subject) -> Option<Self> {
        let container = || match subject {
            Subject::Container(container) | Subject::ContainerResources { container, .. } => Some(container),
            Subject::Pod | Subject::PodResources { .. } | Subject::Proposal(_) => None,
        };
        match event {
            Event::RunPodSandbox => Some(Self::NoPod(Arc::clone(pod))),
            Event::UpdatePodSandbox | Event::StopPodSandbox => Some(Self::Pod(Arc::clone(pod))),
            Event::CreateContainer => container().map(|container| Self::NoContainer(container.id.as_str().into())),
            Event::StartContainer | Event::UpdateContainer | Event::RemoveContainer => {
                container().map(|container| Self::Container(Arc::clone(container)))
            }
            Event::StopContainer => container().map(|container| Self::Alive(Arc::clone(container))),
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

/// How all that was touched since a moment was at that moment.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pods: HashMap<String, Option<Arc<Pod>>>,
    containers: HashMap<String, Option<Arc<Container>>>,
    /// Those that were touched first by their Stop: all that changes of them is that they are not shown any more.
    stopping: HashSet<String>,
}

impl Touched {
    /// Something is touched. How it was is what the first one says who touches it.
    pub(crate) fn add(&mut self, before: &Before) {
        match before {
            Before::NoPod(pod) => _ = self.pods.entry(pod.id.clone()).or_insert(None),
            Before::Pod(pod) => _ = self.pods.entry(pod.id.clone()).or_insert_with(|| Some(Arc::clone(pod))),
            Before::NoContainer(id) => _ = self.containers.entry(id.to_string()).or_insert(None),
            Before::Container(container) => {
                // The container goes on after its Stop: what a snapshot shows of it is of the next run.
                self.stopping.remove(&container.id);
                self.containers.entry(container.id.clone()).or_insert_with(|| Some(Arc::clone(container)));
            }
            Before::Alive(container) => {
                self.containers.entry(container.id.clone()).or_insert_with(|| {
                    self.stopping.insert(container.id.clone());
                    Some(alive(container))
                });
            }
        }
    }

    /// A snapshot as it was at that moment, and the pods that were not there yet.
    ///
    /// Of containers that have stopped a snapshot need not say anything: one is left out if it was.
    pub(crate) fn put_back(self, snapshot: Snapshot) -> (Snapshot, Vec<Pod>) {
        let Snapshot { mut pods, mut containers } = snapshot;
        let Self { pods: were, containers: mut were_in_them, stopping } = self;
        let is_as_it_was = |c: &&Container| stopping.contains(&c.id) && c.state != ContainerState::Stopped;
        containers.iter().filter(is_as_it_was).for_each(|container| _ = were_in_them.remove(&container.id));
        let is_hidden = |id: &str| matches!(were.get(id), Some(None));
        let hidden = pods.extract_if(.., |pod| is_hidden(&pod.id)).collect();
        // Those of a pod that is hidden, too: their own operations have ended, so nobody would tell of them.
        containers.retain(|container| !matches!(were_in_them.get(&container.id), Some(None)));
        let mut missing = restore(&mut pods, &were, |pod| &pod.id);
        missing.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        pods.extend(missing);
        let mut missing = restore(&mut containers, &were_in_them, |container| &container.id);
        missing.retain(|container| container.state != ContainerState::Stopped);
        missing.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        containers.extend(missing);
        (Snapshot { pods, containers }, hidden)
    }
}

/// A container as it was before it ended.
fn alive(container: &Arc<Container>) -> Arc<Container> {
    if container.state != ContainerState::Stopped {
        return Arc::clone(container);
    }
    let has_run = container.started_at != 0 || container.finished_at != 0;
    let state = if has_run { ContainerState::Running } else { ContainerState::Created };
    let (status_reason, status_message) = (String::new(), String::new());
    let container = Container::clone(container);
    Arc::new(Container { state, finished_at: 0, exit_code: 0, status_reason, status_message, ..container })
}

/// Makes all of them what they were. Returns those that are not there.
fn restore<T: Clone>(now: &mut [T], were: &HashMap<String, Option<Arc<T>>>, id: impl Fn(&T) -> &String) -> Vec<T> {
    let mut missing: HashMap<&String, &Arc<T>> =
        were.iter().filter_map(|(id, was)| Some((id, was.as_ref()?))).collect();
    for object in now {
        if let Some(was) = missing.remove(id(object)) {
            *object = T::clone(was);
        }
    }
    missing.into_values().map(|was| T::clone(was)).collect()
}
