//! The ends of pods and containers. Plugins hear of each Stop and each Remove once, and in order.

use std::sync::Arc;

use nri_adaptation::merge::MergedStop;
use nri_adaptation::{KnownState, KnownStates, Notice, RelayError, StopError};
use nri_proto::quote::error_line;
use nri_proto::{Container, ContainerState, Event, Pod};
use tokio::time::timeout_at;
use tracing::warn;

use super::NamespaceClient;
use super::detach::DetachOnDrop;
use super::details::{ContainerDetails, has_exit_details, stopped};
use crate::error::{Error, ObjectKind};
use crate::instance::plugin_requests::RequestContext;
use crate::lifecycle::convert::prior;
use crate::lifecycle::namespace::ContainerInfo;
use crate::lifecycle::steps::{EndGoal, EndStep, RunId};
use crate::lifecycle::table::TableEntry;
use crate::lifecycle::table::claim::ClaimedRequest;
use crate::mistake::Mistake;

/// An end in progress, which proceeds if its caller leaves.
type EndInProgress = DetachOnDrop<Result<(), RelayError>>;

impl NamespaceClient {
    /// Notifies plugins of the end of a container that the runtime reports. The notification
    /// proceeds if the caller leaves. Does nothing if plugins do not know the container; fails if
    /// it is being created.
    // Not async, and neither are the next two: their futures would contain the objects twice.
    pub(crate) fn report_container_end(
        &self,
        pod: Pod,
        container: Container,
        goal: EndGoal,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        self.wait_for_end(self.begin_container_end(pod, container, goal))
    }

    /// Notifies plugins of the end of a pod that the runtime reports. The notification proceeds if
    /// the caller leaves. Does nothing if plugins do not know the pod; fails if it is being
    /// created.
    pub(crate) fn report_pod_end(&self, pod: Pod, goal: EndGoal) -> impl Future<Output = Result<(), Error>> + Send {
        let end = match self.namespace.pods.read(&pod.id, |entry| entry.lifecycle.is_creating()) {
            None => Ok(None),
            Some(true) => Err(Error::BeingCreated { kind: ObjectKind::Pod, id: pod.id }),
            Some(false) => Ok(Some(self.begin_pod_end(pod, None, goal, RunId::LAST))),
        };
        self.wait_for_end(end)
    }

    /// Notifies plugins of the end of a container and of its synthetic pod, as
    /// [`report_container_end`](Self::report_container_end) does. Does nothing if plugins do not
    /// know the pod, or if it is being created.
    pub(crate) fn report_podless_end(
        &self,
        pod: Pod,
        container: Container,
        goal: EndGoal,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let end = self.namespace.pods.state(&pod.id).is_some().then(|| {
            let run = self.reported_run(&container.id, goal);
            self.begin_pod_end(pod, Some(container), goal, run)
        });
        self.wait_for_end(Ok(end))
    }

    /// Waits for an end until the caller's deadline. The end proceeds after the deadline.
    async fn wait_for_end(&self, end: Result<Option<EndInProgress>, Error>) -> Result<(), Error> {
        let Some(end) = end? else { return Ok(()) };
        let ended = match self.deadline {
            Some(deadline) => timeout_at(deadline, end).await.unwrap_or(Err(RelayError::Deadline)),
            None => end.await,
        };
        Ok(ended?)
    }

    fn begin_container_end(
        &self,
        pod: Pod,
        container: Container,
        goal: EndGoal,
    ) -> Result<Option<EndInProgress>, Error> {
        let containers = &self.namespace.containers;
        match containers.read(&container.id, |entry| entry.lifecycle.is_creating()) {
            None => return Ok(None),
            Some(true) => return Err(Error::BeingCreated { kind: ObjectKind::Container, id: container.id }),
            Some(false) => {}
        }
        let (client, run) = (self.clone(), self.reported_run(&container.id, goal));
        if goal == EndGoal::Removed {
            containers.edit(&container.id, |entry| entry.lifecycle.request_remove());
        }
        Ok(Some(self.run_to_end(async move {
            let (pod, id) = (Arc::new(pod), container.id.clone());
            client.end_container(&pod, &id, Some(container), goal, run).await
        })))
    }

    fn begin_pod_end(&self, pod: Pod, known: Option<Container>, goal: EndGoal, run: RunId) -> EndInProgress {
        if goal == EndGoal::Removed {
            self.namespace.request_pod_remove(&pod.id);
        }
        let client = self.clone();
        self.run_to_end(async move { client.end_pod(&Arc::new(pod), known, goal, run).await })
    }

    /// Returns the run of a container that an end belongs to. A Remove ends all runs.
    fn reported_run(&self, id: &str, goal: EndGoal) -> RunId {
        let run = self.namespace.containers.read(id, |entry| entry.lifecycle.reported_run());
        run.filter(|_| goal == EndGoal::Stopped).unwrap_or(RunId::LAST)
    }

    /// Notifies plugins of a container's end, except for the steps that other callers have claimed.
    ///
    /// The Stop comes before the Remove. If `goal` is the Remove, an error of the Stop is only
    /// logged. The Stop applies only to the run that it was reported for. Without `reported`,
    /// plugins are told the values of the exit.
    pub(super) async fn end_container(
        &self,
        pod: &Arc<Pod>,
        id: &str,
        reported: Option<Container>,
        goal: EndGoal,
        run: RunId,
    ) -> Result<(), RelayError> {
        loop {
            let Some((step, claimed)) = self.namespace.containers.claim_end(id, goal, run).await else {
                return Ok(());
            };
            if step == EndStep::Remove {
                return self.send_remove(claimed, pod, id, reported).await;
            }
            if goal == EndGoal::Stopped {
                return self.send_stop(claimed, pod, id, reported).await;
            }
            if let Err(error) = self.send_stop(claimed, pod, id, reported.clone()).await {
                log_failure(&error, id);
            }
        }
    }

    async fn send_stop(
        &self,
        claimed: ClaimedRequest<'_, ContainerInfo>,
        pod: &Arc<Pod>,
        id: &str,
        reported: Option<Container>,
    ) -> Result<(), RelayError> {
        let take_exit = |entry: &mut TableEntry<ContainerInfo>| {
            entry.info.is_restarted = false;
            entry.info.take_exit(entry.lifecycle.run())
        };
        let exit = self.namespace.containers.edit(id, take_exit).flatten();
        let container = Container { state: ContainerState::Stopped, ..stopped(reported, exit, id, pod) };
        let was = claimed.prior.filter(|_| !Mistake::StopTellsTheState.is_injected());
        let known = KnownStates { container: was.map_or(KnownState::AsSaid, prior), ..KnownStates::default() };
        let operation = Arc::new(self.begin(pod).knowing(known));
        let (outcome, claimed) = claimed.send(&operation, operation.stop_container(container)).await;
        claimed.delivered();
        let (MergedStop { updates, owners }, failed) = match outcome {
            Ok(merged) => (merged, None),
            Err(StopError { merged, cause }) => (merged, Some(cause)),
        };
        let context = RequestContext { event: Event::StopContainer, pod: Arc::clone(pod) };
        self.instance.apply_updates(&self.namespace, context, updates, &owners).await;
        failed.map_or(Ok(()), Err)
    }

    async fn send_remove(
        &self,
        claimed: ClaimedRequest<'_, ContainerInfo>,
        pod: &Arc<Pod>,
        id: &str,
        reported: Option<Container>,
    ) -> Result<(), RelayError> {
        let container = Container { state: ContainerState::Stopped, ..stopped(reported, None, id, pod) };
        let known = KnownStates { container: KnownState::Stopped, ..KnownStates::default() };
        let operation = Arc::new(self.begin(pod).knowing(known));
        let (outcome, _claimed) = claimed.send(&operation, operation.notify(Notice::Remove(container))).await;
        self.namespace.remove_container(id);
        outcome
    }

    /// Notifies plugins of a pod's end, after the ends of its containers. Steps that other callers
    /// have claimed are skipped.
    ///
    /// Errors of steps before `goal` are only logged. The Stop of a synthetic pod applies only to
    /// the run of its container that it was reported for.
    pub(super) async fn end_pod(
        &self,
        pod: &Arc<Pod>,
        known: Option<Container>,
        goal: EndGoal,
        run: RunId,
    ) -> Result<(), RelayError> {
        let mut details = ContainerDetails::new(self, pod, known);
        let mut of_containers = self.end_containers(&mut details, EndGoal::Stopped, run).await;
        let of_pod = loop {
            let Some((step, claimed)) = self.namespace.pods.claim_end(&pod.id, goal, run).await else { break Ok(()) };
            // From now on no container is created in the pod.
            self.cancel_creations(&pod.id).await;
            let before = if step == EndStep::Remove { EndGoal::Removed } else { EndGoal::Stopped };
            let ended = self.end_containers(&mut details, before, run).await;
            of_containers = if goal == EndGoal::Stopped { of_containers.and(ended) } else { ended };
            let prior = if step == EndStep::Stop { KnownState::Running } else { KnownState::Stopped };
            let known = KnownStates { pod: prior, ..KnownStates::default() };
            let operation = Arc::new(self.begin(pod).knowing(known));
            let last_container_claim = self.namespace.containers.next_ticket();
            if step == EndStep::Remove {
                let (removed, _claimed) = claimed.send(&operation, operation.notify(Notice::RemovePod)).await;
                self.namespace.container_claims_delivered(&pod.id, last_container_claim);
                self.namespace.pods.remove(&pod.id, |_, _| ());
                break removed;
            }
            let (stopped, claimed) = claimed.send(&operation, operation.notify(Notice::StopPod)).await;
            self.namespace.container_claims_delivered(&pod.id, last_container_claim);
            claimed.delivered();
            if goal == EndGoal::Stopped {
                break stopped;
            }
            if let Err(error) = stopped {
                log_failure(&error, &pod.id);
            }
        };
        // In a namespace without pods the runtime has reported the end of the container.
        if self.namespace.is_podless { of_containers.and(of_pod) } else { of_pod }
    }

    /// Cancels the creates in a pod. Plugins that have seen such a container hear its Stop and its
    /// Remove before they hear of the pod's end.
    async fn cancel_creations(&self, pod: &str) {
        for id in self.namespace.containers_of(pod) {
            if let Some(operation) = self.namespace.containers.take_creation(&id).await {
                drop(operation);
                self.namespace.abandon_container(&id, pod);
            }
        }
    }

    /// Notifies plugins of the ends of a pod's containers. Logs the failures and returns the last
    /// one.
    async fn end_containers(
        &self,
        details: &mut ContainerDetails<'_>,
        goal: EndGoal,
        run: RunId,
    ) -> Result<(), RelayError> {
        let mut ended = Ok(());
        for id in self.namespace.containers_of(&details.pod.id) {
            let look = |entry: &TableEntry<ContainerInfo>| {
                // Also if another caller sends the Stop: the Stop of the pod must come after it.
                let is_due = goal == EndGoal::Removed || entry.lifecycle.snapshot_state().is_some();
                let sends_stop = goal == EndGoal::Removed || entry.lifecycle.needs_stop();
                (is_due, has_exit_details(entry) || !sends_stop)
            };
            let Some((true, needs_no_details)) = self.namespace.containers.read(&id, look) else { continue };
            let reported = details.of(&id, needs_no_details).await;
            if let Err(error) = self.end_container(details.pod, &id, reported, goal, run).await {
                log_failure(&error, &id);
                ended = Err(error);
            }
        }
        ended
    }

    /// Waits until plugins were told of the end of a container.
    pub(crate) async fn container_ended(&self, id: &str) {
        let containers = &self.namespace.containers;
        containers.wait_until_ended(id).await;
        let restarted = containers.read(id, |entry| entry.info.is_restarted.then(|| entry.info.pod.clone())).flatten();
        if let Some(pod) = restarted {
            // If the restart failed, its rollback has a place in the queue of the pod already.
            self.instance.adaptation.settled_pod(&pod).await;
        }
    }

    /// Waits until plugins were told of the end of a pod and of its containers.
    pub(crate) async fn pod_ended(&self, id: &str) {
        self.namespace.pods.wait_until_ended(id).await;
        for container in self.namespace.containers_of(id) {
            self.container_ended(&container).await;
        }
    }
}

/// Logs the failure of an end whose caller gets no error.
pub(super) fn log_failure(error: &RelayError, id: &str) {
    warn!(id, error = %error_line(error), "a plugin failed to handle the end of a pod or container");
}
