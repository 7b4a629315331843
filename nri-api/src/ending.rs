//! How plugins are told of ends: of each at most once, and in order.

use std::collections::HashMap;
use std::sync::Arc;

use nri_adaptation::merge::MergedStop;
use nri_adaptation::{Notice, RelayError, StopError};
use nri_proto::{Container, ContainerState, Event, Pod};
use tracing::warn;

use crate::life::{Goal, Life, Run, Step};
use crate::node::Asked;
use crate::space::ContainerRest;
use crate::table::{Entry, Pending};
use crate::way::Way;

impl Way {
    /// Tells plugins of a container's end, as far as nobody else has. Its Stop is told before its Remove; of a Stop that is not the
    /// goal an error is only logged. Without words, those of its exit are used.
    pub(crate) async fn end_container(
        &self,
        pod: &Arc<Pod>,
        id: &str,
        words: Option<Container>,
        goal: Goal,
    ) -> Result<(), RelayError> {
        loop {
            let Some((step, pending)) = self.space.containers.claim(id, goal).await else { return Ok(()) };
            if step == Step::Remove {
                return self.remove_container(pending, pod, id, words).await;
            }
            if goal == Goal::Stopped {
                return self.stop_container(pending, pod, id, words).await;
            }
            if let Err(error) = self.stop_container(pending, pod, id, words.clone()).await {
                report(&error, id);
            }
        }
    }

    async fn stop_container(
        &self,
        pending: Pending<'_, ContainerRest>,
        pod: &Arc<Pod>,
        id: &str,
        words: Option<Container>,
    ) -> Result<(), RelayError> {
        let take = |entry: &mut Entry<ContainerRest>| {
            entry.rest.has_failed = false;
            entry.rest.exit.take()
        };
        let exit = self.space.containers.look(id, take).flatten();
        let container = Container { state: ContainerState::Stopped, ..stopped(words, exit, id, pod) };
        let operation = Arc::new(self.begin(pod));
        let (stopped, told) = pending.make(&operation, operation.stop_container(container)).await;
        told.end();
        let (MergedStop { updates, owners }, failed) = match stopped {
            Ok(merged) => (merged, None),
            Err(StopError { merged, cause }) => (merged, Some(cause)),
        };
        let asked = Asked { event: Event::StopContainer, pod: Arc::clone(pod) };
        self.node.update(&self.space, asked, updates, &owners).await;
        failed.map_or(Ok(()), Err)
    }

    async fn remove_container(
        &self,
        pending: Pending<'_, ContainerRest>,
        pod: &Arc<Pod>,
        id: &str,
        words: Option<Container>,
    ) -> Result<(), RelayError> {
        let container = Container { state: ContainerState::Stopped, ..stopped(words, None, id, pod) };
        let operation = Arc::new(self.begin(pod));
        let (removed, _told) = pending.make(&operation, operation.notify(Notice::Remove(container))).await;
        self.space.container_removed(id);
        removed
    }

    /// Tells plugins of a pod's end, as far as nobody else has: of that of its containers first. Of those that are not the goal an error is only logged.
    pub(crate) async fn end_pod(&self, pod: &Arc<Pod>, known: Option<Container>, goal: Goal) -> Result<(), RelayError> {
        let mut words = Words::of_pod(self, pod, known);
        let mut of_containers = self.end_containers(&mut words, Goal::Stopped).await;
        let told = loop {
            let Some((step, pending)) = self.space.pods.claim(&pod.id, goal).await else { break Ok(()) };
            // From now on no container is created in it; those that are being, are not.
            self.undo_creations(&pod.id).await;
            let before = if step == Step::Remove { Goal::Removed } else { Goal::Stopped };
            let ended = self.end_containers(&mut words, before).await;
            of_containers = if goal == Goal::Stopped { of_containers.and(ended) } else { ended };
            let operation = Arc::new(self.begin(pod));
            let of_containers_before = self.space.containers.next_ticket();
            if step == Step::Remove {
                let (removed, _told) = pending.make(&operation, operation.notify(Notice::RemovePod)).await;
                self.space.told_of_containers(&pod.id, of_containers_before);
                self.space.pods.removed(&pod.id, |_, _| ());
                break removed;
            }
            let (stopped, told) = pending.make(&operation, operation.notify(Notice::StopPod)).await;
            self.space.told_of_containers(&pod.id, of_containers_before);
            told.end();
            if goal == Goal::Stopped {
                break stopped;
            }
            if let Err(error) = stopped {
                report(&error, &pod.id);
            }
        };
        // Where there are no pods, the runtime asked for the container's end.
        if self.space.is_podless { of_containers.and(told) } else { told }
    }

    /// What is being created in a pod comes to nothing. Plugins that have seen it are told so before they are told of the pod's end.
    async fn undo_creations(&self, pod: &str) {
        for id in self.space.containers_of(pod) {
            if let Some(operation) = self.space.containers.take_creation(&id).await {
                drop(operation);
                self.space.abandon_container(&id, pod);
            }
        }
    }

    /// Tells plugins of the ends of a pod's containers. What fails is logged, and the last failure returned.
    async fn end_containers(&self, words: &mut Words<'_>, goal: Goal) -> Result<(), RelayError> {
        let mut ended = Ok(());
        for id in self.space.containers_of(&words.pod.id) {
            // Also those whose Stop someone else makes: the pod's comes behind it.
            let is_due = |life: &Life| goal == Goal::Removed || life.shown().is_some();
            let needs_no_words = |entry: &Entry<ContainerRest>| {
                entry.rest.exit.is_some() || (goal == Goal::Stopped && !entry.life.needs_stop())
            };
            let looked = self.space.containers.read(&id, |entry| (is_due(&entry.life), needs_no_words(entry)));
            let Some((true, has_exited)) = looked else { continue };
            let said = words.of(&id, has_exited).await;
            if let Err(error) = self.end_container(words.pod, &id, said, goal).await {
                report(&error, &id);
                ended = Err(error);
            }
        }
        ended
    }

    /// A start came to nothing: plugins are told that the container has stopped, in a task.
    pub(crate) fn start_failed(&self, pod: Arc<Pod>, id: String, run: Run) {
        let is_noted = self.space.containers.look(&id, |entry| {
            let is_last = entry.life.runs(run);
            entry.rest.has_failed |= is_last;
            is_last
        });
        if is_noted == Some(true) {
            self.tell_exit(pod, &id);
        }
    }

    /// A container has exited: that is noted now, and told in a task. Whoever makes its Stop before that uses what is noted.
    pub(crate) fn exited(&self, pod: Arc<Pod>, container: Container) {
        let id = container.id.clone();
        let is_noted = self.space.containers.look(&id, |entry| {
            let is_first = !entry.life.is_over() && entry.rest.exit.is_none();
            if is_first {
                entry.rest.exit = Some(Box::new(container));
            }
            is_first
        });
        match is_noted {
            Some(true) => self.tell_exit(pod, &id),
            // Of that plugins were told, or are being told.
            Some(false) => {}
            None => self.node.stages.lost_unknown(),
        }
    }

    /// Tells plugins of an exit that was noted, unless the container is still being created.
    pub(crate) fn tell_exit(&self, pod: Arc<Pod>, id: &str) {
        if self.has_exited(id) {
            let (way, id) = (Self { deadline: None, ..self.clone() }, id.to_owned());
            if !self.node.tell(async move { way.end_exited(&pod, &id).await }) {
                self.node.stages.lost_after_stop();
            }
        }
    }

    /// Whether an exit was noted that plugins are yet to be told of.
    pub(crate) fn has_exited(&self, id: &str) -> bool {
        let has_exited = |entry: &Entry<ContainerRest>| {
            entry.life.needs_stop() && (entry.rest.exit.is_some() || entry.rest.has_failed)
        };
        self.space.containers.read(id, has_exited) == Some(true)
    }

    /// Tells plugins of an exit, as far as nobody else has.
    pub(crate) async fn end_exited(&self, pod: &Arc<Pod>, id: &str) {
        if !self.has_exited(id) {
            return;
        }
        let telling = async {
            if self.space.is_podless {
                return self.end_pod(pod, None, Goal::Stopped).await;
            }
            let has_words = self.space.containers.read(id, |entry| entry.rest.exit.is_some()) == Some(true);
            let words = Words::of_pod(self, pod, None).of(id, has_words).await;
            self.end_container(pod, id, words, Goal::Stopped).await
        };
        if let Err(error) = self.insist(&pod.id, telling).await {
            report(&error, id);
        }
    }
}

/// An error that nobody is given.
fn report(error: &RelayError, id: &str) {
    warn!(id, error = error as &dyn std::error::Error, "a plugin failed when it was told of an end");
}

/// What is known of containers whose end the runtime has not said itself.
struct Words<'a> {
    way: &'a Way,
    pod: &'a Arc<Pod>,
    known: HashMap<String, Container>,
    has_asked: bool,
}

impl<'a> Words<'a> {
    fn of_pod(way: &'a Way, pod: &'a Arc<Pod>, known: Option<Container>) -> Self {
        let known = known.into_iter().map(|known| (known.id.clone(), known)).collect();
        Self { way, pod, known, has_asked: false }
    }

    /// A container as the runtime knows it. The domain is asked once, and not for one whose exit says all.
    async fn of(&mut self, id: &str, has_exited: bool) -> Option<Container> {
        if !has_exited && !self.known.contains_key(id) && !std::mem::replace(&mut self.has_asked, true) {
            let ids = self.way.space.containers_of(&self.pod.id);
            let known = self.way.space.known(&ids, self.way.node.domains.deadline()).await;
            self.known.extend(known.into_iter().map(|container| (container.id.clone(), container)));
        }
        self.known.get(id).cloned()
    }
}

/// A container that has stopped: as the runtime says, with how it has exited; else as its exit says, else with nothing but its id.
fn stopped(words: Option<Container>, exit: Option<Box<Container>>, id: &str, pod: &Pod) -> Container {
    match (words, exit) {
        (None, Some(exit)) => *exit,
        (Some(words), None) => words,
        (None, None) => Container { id: id.to_owned(), pod_id: pod.id.clone(), ..Container::default() },
        (Some(words), Some(exit)) => {
            let said = |exit: String, before: String| if exit.is_empty() { before } else { exit };
            Container {
                exit_code: exit.exit_code,
                finished_at: if exit.finished_at == 0 { words.finished_at } else { exit.finished_at },
                status_reason: said(exit.status_reason, words.status_reason),
                status_message: said(exit.status_message, words.status_message),
                ..words
            }
        }
    }
}
