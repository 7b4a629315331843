//! How plugins are told of ends: of each at most once, and in order.

use std::collections::HashMap;
use std::sync::Arc;

use nri_adaptation::merge::MergedStop;
use nri_adaptation::{Known, Notice, Prior, RelayError, StopError};
use nri_proto::quote::error_line;
use nri_proto::{Container, ContainerState, Event, Pod};
use tracing::warn;

use crate::client::NamespaceClient;
use crate::client::start::prior;
use crate::instance::RequestContext;
use crate::lifecycle::namespace::ContainerInfo;
use crate::lifecycle::state::{EndGoal, EndStep, Lifecycle, RunId};
use crate::lifecycle::table::{ClaimedRequest, TableEntry};
use crate::mistake::Mistake;

impl NamespaceClient {
    /// Tells plugins of a container's end, as far as nobody else has. Its Stop is told before its Remove; of a Stop that is not the
    /// goal an error is only logged. Without words, those of its exit are used. Its Stop is that of the run that it was said of, or nothing.
    pub(crate) async fn end_container(
        &self,
        pod: &Arc<Pod>,
        id: &str,
        words: Option<Container>,
        goal: EndGoal,
        said: RunId,
    ) -> Result<(), RelayError> {
        loop {
            let Some((step, pending)) = self.namespace.containers.claim(id, goal, said).await else { return Ok(()) };
            if step == EndStep::Remove {
                return self.remove_container(pending, pod, id, words).await;
            }
            if goal == EndGoal::Stopped {
                return self.stop_container(pending, pod, id, words).await;
            }
            if let Err(error) = self.stop_container(pending, pod, id, words.clone()).await {
                report(&error, id);
            }
        }
    }

    async fn stop_container(
        &self,
        pending: ClaimedRequest<'_, ContainerInfo>,
        pod: &Arc<Pod>,
        id: &str,
        words: Option<Container>,
    ) -> Result<(), RelayError> {
        let take = |entry: &mut TableEntry<ContainerInfo>| {
            entry.rest.is_restarted = false;
            entry.rest.take_exit(entry.life.run())
        };
        let exit = self.namespace.containers.look(id, take).flatten();
        let container = Container { state: ContainerState::Stopped, ..stopped(words, exit, id, pod) };
        let was = pending.prior.filter(|_| !self.instance.makes(Mistake::StopTellsTheState));
        let known = Known { container: was.map_or(Prior::AsSaid, prior), ..Known::default() };
        let operation = Arc::new(self.begin(pod).knowing(known));
        let (stopped, told) = pending.make(&operation, operation.stop_container(container)).await;
        told.end();
        let (MergedStop { updates, owners }, failed) = match stopped {
            Ok(merged) => (merged, None),
            Err(StopError { merged, cause }) => (merged, Some(cause)),
        };
        let asked = RequestContext { event: Event::StopContainer, pod: Arc::clone(pod) };
        self.instance.update(&self.namespace, asked, updates, &owners).await;
        failed.map_or(Ok(()), Err)
    }

    async fn remove_container(
        &self,
        pending: ClaimedRequest<'_, ContainerInfo>,
        pod: &Arc<Pod>,
        id: &str,
        words: Option<Container>,
    ) -> Result<(), RelayError> {
        let container = Container { state: ContainerState::Stopped, ..stopped(words, None, id, pod) };
        let known = Known { container: Prior::Stopped, ..Known::default() };
        let operation = Arc::new(self.begin(pod).knowing(known));
        let (removed, _told) = pending.make(&operation, operation.notify(Notice::Remove(container))).await;
        self.namespace.container_removed(id);
        removed
    }

    /// Tells plugins of a pod's end, as far as nobody else has: of that of its containers first. Of those that are not the goal an error
    /// is only logged. If the pod was made for a container, its Stop is that of the run that it was said of, or nothing.
    pub(crate) async fn end_pod(
        &self,
        pod: &Arc<Pod>,
        known: Option<Container>,
        goal: EndGoal,
        said: RunId,
    ) -> Result<(), RelayError> {
        let mut words = ContainerDetails::of_pod(self, pod, known);
        let mut of_containers = self.end_containers(&mut words, EndGoal::Stopped, said).await;
        let told = loop {
            let Some((step, pending)) = self.namespace.pods.claim(&pod.id, goal, said).await else { break Ok(()) };
            // From now on no container is created in it; those that are being, are not.
            self.undo_creations(&pod.id).await;
            let before = if step == EndStep::Remove { EndGoal::Removed } else { EndGoal::Stopped };
            let ended = self.end_containers(&mut words, before, said).await;
            of_containers = if goal == EndGoal::Stopped { of_containers.and(ended) } else { ended };
            let known =
                Known { pod: if step == EndStep::Stop { Prior::Running } else { Prior::Stopped }, ..Known::default() };
            let operation = Arc::new(self.begin(pod).knowing(known));
            let of_containers_before = self.namespace.containers.next_ticket();
            if step == EndStep::Remove {
                let (removed, _told) = pending.make(&operation, operation.notify(Notice::RemovePod)).await;
                self.namespace.told_of_containers(&pod.id, of_containers_before);
                self.namespace.pods.removed(&pod.id, |_, _| ());
                break removed;
            }
            let (stopped, told) = pending.make(&operation, operation.notify(Notice::StopPod)).await;
            self.namespace.told_of_containers(&pod.id, of_containers_before);
            told.end();
            if goal == EndGoal::Stopped {
                break stopped;
            }
            if let Err(error) = stopped {
                report(&error, &pod.id);
            }
        };
        // Where there are no pods, the runtime asked for the container's end.
        if self.namespace.is_podless { of_containers.and(told) } else { told }
    }

    /// What is being created in a pod comes to nothing. Plugins that have seen it are told so before they are told of the pod's end.
    async fn undo_creations(&self, pod: &str) {
        for id in self.namespace.containers_of(pod) {
            if let Some(operation) = self.namespace.containers.take_creation(&id).await {
                drop(operation);
                self.namespace.abandon_container(&id, pod);
            }
        }
    }

    /// Tells plugins of the ends of a pod's containers. What fails is logged, and the last failure returned.
    async fn end_containers(
        &self,
        words: &mut ContainerDetails<'_>,
        goal: EndGoal,
        said: RunId,
    ) -> Result<(), RelayError> {
        let mut ended = Ok(());
        for id in self.namespace.containers_of(&words.pod.id) {
            // Also those whose Stop someone else makes: the pod's comes behind it.
            let is_due = |life: &Lifecycle| goal == EndGoal::Removed || life.shown().is_some();
            let needs_no_words = |entry: &TableEntry<ContainerInfo>| {
                has_words(entry) || (goal == EndGoal::Stopped && !entry.life.needs_stop())
            };
            let looked = self.namespace.containers.read(&id, |entry| (is_due(&entry.life), needs_no_words(entry)));
            let Some((true, has_exited)) = looked else { continue };
            let words_of_it = words.of(&id, has_exited).await;
            if let Err(error) = self.end_container(words.pod, &id, words_of_it, goal, said).await {
                report(&error, &id);
                ended = Err(error);
            }
        }
        ended
    }

    /// Waits until plugins were told of the end of a container.
    pub(crate) async fn container_ended(&self, id: &str) {
        let containers = &self.namespace.containers;
        containers.until_ended(id).await;
        let restarted = containers.read(id, |entry| entry.rest.is_restarted.then(|| entry.rest.pod.clone())).flatten();
        if let Some(pod) = restarted {
            // If the restart failed, its undo has a place in the queue of the pod already.
            self.instance.adaptation.settled_pod(&pod).await;
        }
    }

    /// Waits until plugins were told of the end of a pod and of its containers.
    pub(crate) async fn pod_ended(&self, id: &str) {
        self.namespace.pods.until_ended(id).await;
        for container in self.namespace.containers_of(id) {
            self.container_ended(&container).await;
        }
    }

    /// A first start came to nothing: plugins are told that the container has stopped, in a task.
    pub(crate) fn first_start_failed(&self, pod: Arc<Pod>, id: &str, run: RunId) {
        let is_noted = self.namespace.containers.look(id, |entry| {
            let has_failed = entry.life.first_start_failed(run);
            has_failed && entry.rest.note_exit(run, None)
        });
        if is_noted == Some(true) {
            self.tell_exit(pod, id);
        }
    }

    /// A container has exited: that is noted now, with the run that it ends, and told in a task. Whoever makes its Stop before that uses
    /// what is noted.
    pub(crate) fn exited(&self, pod: Arc<Pod>, container: Container) {
        let id = container.id.clone();
        let is_noted = self.namespace.containers.look(&id, |entry| {
            let said = entry.life.said();
            entry.life.may_exit() && entry.rest.note_exit(said, Some(Box::new(container)))
        });
        match is_noted {
            Some(true) => self.tell_exit(pod, &id),
            // Of that plugins were told, or are being told.
            Some(false) => {}
            None => self.instance.stages.lost_unknown(),
        }
    }

    /// Tells plugins of an exit that was noted, unless the container is still being created or started: then that is done afterwards.
    pub(crate) fn tell_exit(&self, pod: Arc<Pod>, id: &str) {
        if let Some(run) = self.untold_exit(id) {
            let (client, id) = (Self { deadline: None, ..self.clone() }, id.to_owned());
            if !self.instance.tell(async move { client.end_exited(&pod, &id, run).await }) {
                self.instance.stages.lost_after_stop();
            }
        }
    }

    /// The run whose end was noted and that plugins are yet to be told of.
    pub(crate) fn untold_exit(&self, id: &str) -> Option<RunId> {
        let untold = |entry: &TableEntry<ContainerInfo>| {
            entry.rest.exits.iter().map(|exit| exit.run).find(|run| entry.life.is_to_end(*run))
        };
        self.namespace.containers.read(id, untold)?
    }

    /// Tells plugins of the end of a run that was noted, as far as nobody else has. Whatever is waited for meanwhile, no other run ends by it.
    pub(crate) async fn end_exited(&self, pod: &Arc<Pod>, id: &str, run: RunId) {
        if self.untold_exit(id) != Some(run) {
            return;
        }
        let run = if self.instance.makes(Mistake::ExitEndsAnyRun) { RunId::LAST } else { run };
        let telling = async {
            if self.namespace.is_podless {
                return self.end_pod(pod, None, EndGoal::Stopped, run).await;
            }
            let has_words = self.namespace.containers.read(id, has_words) == Some(true);
            let words = ContainerDetails::of_pod(self, pod, None).of(id, has_words).await;
            self.end_container(pod, id, words, EndGoal::Stopped, run).await
        };
        if let Err(error) = self.insist(&pod.id, telling).await {
            report(&error, id);
        }
    }
}

/// Whether the exit of the run that a container is in says what plugins are told of its end.
fn has_words(entry: &TableEntry<ContainerInfo>) -> bool {
    let of_this_run = entry.rest.exits.iter().find(|exit| exit.run >= entry.life.run());
    of_this_run.is_some_and(|exit| exit.words.is_some())
}

/// An error that nobody is given.
fn report(error: &RelayError, id: &str) {
    warn!(id, error = %error_line(error), "a plugin failed when it was told of an end");
}

/// What is known of containers whose end the runtime has not said itself.
struct ContainerDetails<'a> {
    client: &'a NamespaceClient,
    pod: &'a Arc<Pod>,
    known: HashMap<String, Container>,
    has_asked: bool,
}

impl<'a> ContainerDetails<'a> {
    fn of_pod(client: &'a NamespaceClient, pod: &'a Arc<Pod>, known: Option<Container>) -> Self {
        let known = known.into_iter().map(|known| (known.id.clone(), known)).collect();
        Self { client, pod, known, has_asked: false }
    }

    /// A container as the runtime knows it. The domain is asked once, and not for one whose exit says all.
    async fn of(&mut self, id: &str, has_exited: bool) -> Option<Container> {
        if !has_exited && !self.known.contains_key(id) && !std::mem::replace(&mut self.has_asked, true) {
            let ids = self.client.namespace.containers_of(&self.pod.id);
            let known = self.client.namespace.known(&ids, self.client.instance.domains.deadline()).await;
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
