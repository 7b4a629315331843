//! Starts and restarts of containers: what plugins are asked, and what a failed start rolls back.
//!
//! A start of a container that was created or has stopped begins a run. If the start fails, the
//! container is stopped, and the plugins that do not know that are notified: after a first start
//! all plugins that know the container, after a restart the plugins that saw StartContainer. A
//! start of a container that is running begins no run, and if it fails, nothing changes.

use std::sync::Arc;

use nri_adaptation::{KnownState, KnownStates, Notice, Operation};
use nri_proto::{Container, ContainerState, Pod};

use super::NamespaceClient;
use super::approval::ApprovalRequest;
use super::pending::PendingChange;
use crate::error::{Error, ObjectKind};
use crate::lifecycle::convert::prior;
use crate::lifecycle::namespace::PodContainers;
use crate::lifecycle::state::{Lifecycle, State};
use crate::lifecycle::steps::{ApprovalKind, Completion, EndGoal, RunId};
use crate::lifecycle::table::approval::Approval;
use crate::mistake::Mistake;

/// A start of a container that plugins approved.
///
/// If the value is dropped without [`started`](Self::started) or [`commit`](Self::commit), the
/// start has failed: plugins that do not know that the container is stopped are notified.
#[must_use = "a container that is not reported as started has failed"]
pub struct Start {
    /// `None` if NRI is disabled.
    pending: Option<PendingStart>,
}

/// A start in progress. If it is dropped without a commit, the container has stopped.
struct PendingStart {
    change: PendingChange,
    run: RunId,
    /// The state that plugins knew when they were asked. `None` if they were not asked yet.
    prior: Option<State>,
    is_committed: bool,
}

impl Start {
    /// Returns the value that a disabled NRI returns.
    pub(crate) fn unasked() -> Self {
        Self { pending: None }
    }

    /// Reports that the container was started.
    ///
    /// The container counts as started as soon as this is called, whether or not the returned
    /// future is awaited. The future sends PostStartContainer to plugins, unless the container has
    /// stopped meanwhile.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. The container stays started.
    pub fn started(self, container: Container) -> impl Future<Output = Result<(), Error>> + Send {
        let committed = self.pending.map(|mut pending| {
            pending.commit();
            (pending.change.client.clone(), Arc::clone(&pending.change.pod), pending.run)
        });
        async move {
            let Some((client, pod, run)) = committed else { return Ok(()) };
            Box::pin(client.post(&pod, container, Completion::Start(run), Notice::PostStart)).await
        }
    }

    /// Reports that the container was started. To notify plugins, call
    /// [`Handle::post_start_container`](crate::Handle::post_start_container).
    pub fn commit(self) {
        if let Some(mut pending) = self.pending {
            pending.commit();
        }
    }
}

impl PendingStart {
    fn commit(&mut self) {
        self.is_committed = true;
        self.change.commit();
    }

    /// Rolls a failed start back.
    fn undo(&mut self, id: &str) {
        let (run, client, pod) = (self.run, self.change.client.clone(), Arc::clone(&self.change.pod));
        match self.prior {
            Some(State::Stopped) if !Mistake::RestartUndoneForAll.is_injected() => self.undo_restart(),
            Some(State::Running) if Mistake::StartOfRunningStops.is_injected() => {
                client.namespace.containers.edit(id, |entry| entry.info.record_exit(run, None));
                client.notify_exit(pod, id);
            }
            Some(State::Running) => self.change.abandon(),
            Some(State::Created | State::Stopped) | None => {
                self.change.abandon();
                client.first_start_failed(pod, id, run);
            }
        }
    }

    /// Rolls a failed restart back: the container has stopped, as before the restart.
    fn undo_restart(&mut self) {
        let (run, namespace, pod) = (self.run, Arc::clone(&self.change.client.namespace), &self.change.pod);
        let pod = Arc::clone(pod);
        let undo_pod = |operation| {
            if namespace.is_podless {
                namespace.pods.edit_lifecycle(&pod.id, |lifecycle| lifecycle.undo_start(run));
            }
            // Notifies the plugins that saw the start. Later requests about the pod are queued
            // behind the notification.
            drop::<Operation>(operation);
        };
        self.change.end(|lifecycle| lifecycle.undo_start(run), undo_pod);
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        let Some(id) = self.change.container.clone() else { return };
        if !self.is_committed {
            self.undo(&id);
        }
        self.change.client.namespace.containers.edit(&id, |entry| {
            entry.lifecycle.start_call_ended(self.run);
            // Exits that were reported of this start.
            entry.info.forget_exits(&entry.lifecycle);
        });
    }
}

impl NamespaceClient {
    /// Asks plugins whether a container may be started.
    pub(crate) async fn start(self, pod: Arc<Pod>, mut container: Container) -> Result<Start, Error> {
        let id = container.id.clone();
        let run = self.namespace.containers.next_run();
        self.namespace.containers.edit(&id, |entry| entry.lifecycle.record_start_call(run));
        let change = PendingChange::new(&self, Arc::clone(&pod), Some(id.clone()));
        let mut pending = PendingStart { change, run, prior: None, is_committed: false };
        self.deliver_earlier_ends(&id, &pod, run).await;
        // First the pod, then the container: an end of both waits for them in the same order.
        let of_pod = self.begin_pod_approval(&id, &pod.id).await?;
        let asked = self.begin_approval(&id, &pod, State::Created, run, ApprovalKind::Start).await?;
        let ApprovalRequest { approval, state, newly_known } = asked;
        let restarts_pod =
            state == State::Stopped && of_pod.as_ref().is_some_and(|(state, _)| *state == State::Stopped);
        pending.prior = Some(state);
        if state == State::Stopped {
            self.namespace.containers.edit(&id, |entry| entry.info.is_restarted = true);
        }
        let operation = self.begin_start(&pod, state, restarts_pod, newly_known.pod);
        // The process exists and does not run, whatever the runtime's store says of an earlier run.
        container.state = ContainerState::Created;
        operation.notify(Notice::Start(container)).await?;
        let mut begins_run = false;
        let start_approved = |lifecycle: &mut Lifecycle| begins_run = lifecycle.start_approved(run);
        pending.change.key = Some(approval.grant(operation, start_approved));
        if let (true, Some((_, approval))) = (begins_run, of_pod) {
            approval.grant_without_operation(|lifecycle| lifecycle.begin_run(run));
        }
        // The container may have exited while plugins were asked.
        self.notify_exit(pod, &id);
        Ok(Start { pending: Some(pending) })
    }

    /// Begins the operation of a start of a container that plugins know in the state `state`.
    fn begin_start(&self, pod: &Arc<Pod>, state: State, restarts_pod: bool, new_pod: Option<State>) -> Operation {
        let of_pod = if restarts_pod { KnownState::Stopped } else { new_pod.map_or(KnownState::AsSaid, prior) };
        let container = if Mistake::RestartIsShown.is_injected() { KnownState::Created } else { prior(state) };
        let operation = self.begin(pod).knowing(KnownStates { pod: of_pod, container });
        if state != State::Stopped {
            return operation;
        }
        operation.undoing_start(restarts_pod && !Mistake::RestartLeavesPod.is_injected())
    }

    /// Notifies plugins of ends that were reported before a start, also if the caller leaves.
    async fn deliver_earlier_ends(&self, id: &str, pod: &Arc<Pod>, run: RunId) {
        let (client, pod, id) = (self.without_deadline(), Arc::clone(pod), id.to_owned());
        if let Some(run) = self.undelivered_exit(&id) {
            self.run_to_end(async move { client.deliver_exit(&pod, &id, run).await }).await;
        } else if self.namespace.is_podless && self.is_pod_left_running(&id, &pod.id) {
            // Another caller is about to stop the synthetic pod. That must not end the pod after it
            // is started again.
            let end = async move { client.end_pod(&pod, None, EndGoal::Stopped, run).await };
            self.run_to_end(end).await.unwrap_or_default();
        }
    }

    /// Returns whether a synthetic pod is running although its container has stopped.
    fn is_pod_left_running(&self, id: &str, pod: &str) -> bool {
        let is_over = self.namespace.containers.read(id, |entry| entry.lifecycle.is_over()) == Some(true);
        is_over && self.namespace.pods.read(pod, |entry| entry.lifecycle.needs_stop()) == Some(true)
    }

    /// Begins the start of a synthetic pod together with its container. Fails if the pod is not
    /// synthetic and has ended.
    async fn begin_pod_approval<'a>(
        &'a self,
        id: &str,
        pod: &'a str,
    ) -> Result<Option<(State, Approval<'a, PodContainers>)>, Error> {
        if self.namespace.is_podless {
            let begun = self.namespace.pods.begin_approval(pod, ApprovalKind::Start).await.transpose();
            return begun.map_err(|refusal| refusal.error(ObjectKind::Container, id));
        }
        match self.namespace.pods.read(pod, |entry| entry.lifecycle.is_over()) {
            Some(true) => Err(Error::PodEnded { id: id.to_owned(), pod: pod.to_owned() }),
            Some(false) | None => Ok(None),
        }
    }
}
