//! An operation of the runtime, such as the creation of a container: the only way to reach plugins.
//!
//! - `relay.rs` asks the plugins about one request, one after the other. `validation.rs` then asks
//!   the validators, among them the built-in one of `default_validator.rs`.
//! - `wait.rs` waits for a required plugin that has yet to receive earlier requests.
//! - `state.rs` is the state of an open operation: its requests, its participants, and the plugins
//!   that wait for its end.
//! - `rollback.rs` rolls back an operation that failed. `prior_state.rs` restores the state before
//!   open operations in the snapshot of a joining plugin.
//! - `shared.rs` is the state that all operations of one adaptation share.

pub(crate) mod default_validator;
pub(crate) mod prior_state;
pub(crate) mod relay;
pub(crate) mod rollback;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod validation;
pub(crate) mod wait;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use nri_proto::{Container, Event, Owners, PluginId, Pod, Resources};
use tokio::time::Instant;
use tracing::Instrument;

use crate::api::error::{Cause, Failure, RelayError, StopError};
use crate::api::operation::OperationOutcome;
use crate::api::request::Subject;
use crate::api::wait::wait_until;
use crate::config::policy::PluginKey;
use crate::config::requirements::Presence;
use crate::merge::{MergedCreate, MergedStop, MergedUpdate};
use crate::operation::relay::{Relay, Relayed};
use crate::operation::rollback::StartUndo;
use crate::operation::shared::Shared;
use crate::operation::state::{KeptRequest, OperationState};
use crate::reply::merging::Merging;
use crate::reply::recorder;
use crate::session::roster::Roster;

/// An event that plugins are notified of. A plugin answers a notice with success or with an error.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The pod was created and is about to run.
    RunPod,
    /// The pod is about to get new limits.
    UpdatePod {
        /// The resources of the pod's own overhead.
        overhead: Option<Resources>,
        /// The resources of all containers of the pod together.
        resources: Option<Resources>,
    },
    /// The pod has new limits.
    PostUpdatePod,
    /// The pod stops.
    StopPod,
    /// The pod is removed.
    RemovePod,
    /// The container was created.
    PostCreate(Container),
    /// The container is about to start.
    Start(Container),
    /// The container has started.
    PostStart(Container),
    /// The container has new limits.
    PostUpdate(Container),
    /// The container is removed.
    Remove(Container),
}

/// One operation of the runtime in progress. All requests of the operation are made through this
/// value, so that the same plugins take part in all of them.
///
/// Requests about one pod are relayed one after the other, in the order in which they were made.
/// There is one exception: a request that needs a required plugin waits, up to the plugin's
/// `join_timeout`, until the plugin has received the outcome of the operations about the pod that
/// it missed. Only then does the request take its place in the order, so that those operations, and
/// requests that need not wait, can proceed meanwhile. Requests that wait keep their order among
/// themselves.
///
/// An operation ends in one of two ways:
///
/// - [`Operation::commit`] states that the operation succeeded. From then on, the runtime's
///   [`Source`](crate::Source) has to show its result; before the first request was made, it must
///   not.
/// - Dropping the operation without a commit states that the operation failed and that everything
///   is as it was before. The operation is rolled back then: plugins that were notified of a pod
///   that was to run, or asked about a container that was to be created, are notified of its stop
///   and its removal, unless the runtime has done so itself. [`Operation::abandon`] leaves this to
///   the runtime. No other request is rolled back.
///
/// A start is rolled back only after [`Operation::undoing_start`]: plugins that saw StartContainer
/// are then notified of StopContainer. This is off by default, because runtimes that follow Go's
/// NRI send the StopContainer of a container that did not start themselves.
///
/// A plugin that joins while the operation is open is shown the pod or container as it was before
/// the operation, and receives the requests of the operation after its end. By default, the state
/// before the operation is the state in the request; for a stop, it is the state before the stop. A
/// runtime whose requests may lag behind the state that plugins know, or run ahead of it, sets that
/// state with [`Operation::knowing`].
///
/// A plugin that could not be asked, because it was joining or silent, receives the requests after
/// the end of the operation. So an operation must not stay open: after
/// [`operation_timeout`](crate::Config::operation_timeout) it is reported, and nothing waits for
/// its end any more.
pub struct Operation {
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    /// The state of the operation since its first request, which also fixes the participants.
    operation: OnceLock<Arc<OperationState>>,
    deadline: Option<Instant>,
    nature: OperationOptions,
}

/// Options of an operation, set before its first request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationOptions {
    pub(crate) known: KnownStates,
    pub(crate) start_undo: Option<StartUndo>,
}

/// The state of a pod or container before an operation, as plugins know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnownState {
    /// The state in the request. For a stop, the state before the stop.
    #[default]
    AsSaid,
    /// The state that the [`Source`](crate::Source) shows. Use it if the operation does not change
    /// the state, and the source shows only states that plugins know.
    AsShown,
    /// The container was created and has not run.
    Created,
    /// The container was running. A pod that exists and has not stopped counts as running.
    Running,
    /// The pod or container had stopped. Plugins that join are not shown it.
    Stopped,
}

/// The states of a pod and a container before an operation about them, as plugins know them. See
/// [`Operation::knowing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownStates {
    /// The state of the pod, if the operation is about the pod or changes the pod together with its
    /// container.
    pub pod: KnownState,
    /// The state of the container.
    pub container: KnownState,
}

impl Operation {
    pub(crate) fn new(shared: Arc<Shared>, pod: Arc<Pod>) -> Self {
        Self { shared, pod, operation: OnceLock::new(), deadline: None, nature: OperationOptions::default() }
    }

    /// Sets the states of the pod and the container before this operation, as plugins know them. A
    /// plugin that joins while the operation is open is shown these states, whatever the requests
    /// say. Call this before the first request.
    #[must_use]
    pub fn knowing(mut self, known: KnownStates) -> Self {
        self.nature.known = known;
        self
    }

    /// Makes a failure of the operation roll back a start, too: exactly the plugins that saw
    /// StartContainer are notified of StopContainer. If `with_pod` is set, they are then notified
    /// of StopPodSandbox, for a pod that runs only while its container runs. Call this before the
    /// first request.
    #[must_use]
    pub fn undoing_start(mut self, with_pod: bool) -> Self {
        self.nature.start_undo = Some(StartUndo { with_pod });
        self
    }

    /// Sets a deadline of the caller for all requests of the operation. A plugin that is being
    /// asked when the deadline passes is not penalized, unless its own request timeout passes, too.
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Notifies plugins of an event.
    ///
    /// # Errors
    ///
    /// A plugin refused the event, or failed and its policy does not let the request continue
    /// without it. An event that plugins can veto, such as the start of a container, ends with the
    /// first such plugin. For any other event, all plugins are notified in any case.
    pub async fn notify(&self, notice: Notice) -> Result<(), RelayError> {
        let (event, subject) = match notice {
            Notice::RunPod => (Event::RunPodSandbox, Subject::Pod),
            Notice::UpdatePod { overhead, resources } => {
                let (overhead, resources) = (overhead.map(Box::new), resources.map(Box::new));
                (Event::UpdatePodSandbox, Subject::PodResources { overhead, resources })
            }
            Notice::PostUpdatePod => (Event::PostUpdatePodSandbox, Subject::Pod),
            Notice::StopPod => (Event::StopPodSandbox, Subject::Pod),
            Notice::RemovePod => (Event::RemovePodSandbox, Subject::Pod),
            Notice::PostCreate(container) => (Event::PostCreateContainer, subject(container)),
            Notice::Start(container) => (Event::StartContainer, subject(container)),
            Notice::PostStart(container) => (Event::PostStartContainer, subject(container)),
            Notice::PostUpdate(container) => (Event::PostUpdateContainer, subject(container)),
            Notice::Remove(container) => (Event::RemoveContainer, subject(container)),
        };
        let Relayed { merging: _, failed } = self.relay(event, subject, Merging::Nothing).await?;
        failed.map_or(Ok(()), Err)
    }

    /// Asks plugins which changes they want in a container that is to be created, and validators
    /// whether they accept the result.
    ///
    /// # Errors
    ///
    /// The errors of [`Operation::notify`]; plugins that ask for conflicting changes; a validator
    /// that does not accept the result.
    pub async fn create_container(&self, container: Container) -> Result<MergedCreate, RelayError> {
        let (event, made) = (Event::CreateContainer, Instant::now());
        let (operation, participants) = self.operation(event, Some(&container)).await?;
        let namespace = &*self.pod.namespace;
        if !participants.has_subscriber(event, namespace) && !validation::is_wanted(&participants, namespace) {
            let container = Arc::new(container);
            self.nobody_asks(operation, event, Subject::Container(Arc::clone(&container)));
            return Ok(MergedCreate::unchanged(container));
        }
        let (merging, subject) = Merging::create(container);
        let waited = made.elapsed();
        let mut relay =
            Relay::new(Arc::clone(&self.shared), Arc::clone(operation), participants, event, subject, merging);
        relay.waited = waited;
        let (progress, span) = (relay.progress.clone(), relay.span());
        self.in_time(Box::pin(relay.create().instrument(span)))
            .await
            .unwrap_or_else(|| Err(over(progress.current(&operation.participants, event))))
    }

    /// Asks plugins which changes they want in new resources of a container.
    ///
    /// # Errors
    ///
    /// The errors of [`Operation::notify`]; plugins that ask for conflicting changes.
    pub async fn update_container(
        &self,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<MergedUpdate, RelayError> {
        let (merging, subject) = Merging::update(container, resources);
        Ok(self.relay(Event::UpdateContainer, subject, merging).await?.merging.updated())
    }

    /// Notifies plugins that a container has stopped, and asks which updates of other containers
    /// they want.
    ///
    /// # Errors
    ///
    /// The errors of [`Operation::notify`]; plugins that ask for conflicting changes. All plugins
    /// are notified in any case. The error contains the updates that the other plugins want, unless
    /// the caller's own deadline passed before all plugins had answered.
    pub async fn stop_container(&self, container: Container) -> Result<MergedStop, StopError> {
        let (merged, failed) = match self.relay(Event::StopContainer, subject(container), Merging::stop()).await {
            Ok(Relayed { merging, failed }) => (merging.stopped(), failed),
            Err(cause) => (MergedStop::default(), Some(cause)),
        };
        match failed {
            None => Ok(merged),
            Some(cause) => Err(StopError { merged, cause }),
        }
    }

    /// Ends the operation as successful. The runtime's [`Source`](crate::Source) shows its result.
    pub fn commit(mut self) {
        self.end(OperationOutcome::Committed);
    }

    /// Like [`Operation::commit`], for an operation that has several owners. The first end of the
    /// operation counts: a later commit or drop has no effect.
    pub fn committed(&self) {
        if let Some(operation) = self.operation.get() {
            self.shared.end(operation, OperationOutcome::Committed);
        }
    }

    /// Ends the operation as failed, without a rollback: the runtime itself sends plugins the
    /// events that follow, as runtimes that follow Go's NRI do. Plugins that could not be asked are
    /// not notified of a pod that was to run, or of a container that was to be created.
    pub fn abandon(mut self) {
        if let Some(operation) = self.operation.take() {
            self.shared.end_and(&operation, OperationOutcome::Failed, false);
        }
    }

    fn end(&mut self, outcome: OperationOutcome) {
        if let Some(operation) = self.operation.take() {
            self.shared.end(&operation, outcome);
        }
    }

    /// Relays a request of any kind but a create, and waits for its result.
    async fn relay(&self, event: Event, subject: Subject, merging: Merging) -> Result<Relayed, RelayError> {
        let made = Instant::now();
        let (operation, participants) = self.operation(event, subject.container()).await?;
        if !participants.has_subscriber(event, &self.pod.namespace) {
            self.nobody_asks(operation, event, subject);
            return Ok(Relayed { merging, failed: None });
        }
        let waited = made.elapsed();
        let mut relay =
            Relay::new(Arc::clone(&self.shared), Arc::clone(operation), participants, event, subject, merging);
        relay.waited = waited;
        let (progress, span) = (relay.progress.clone(), relay.span());
        let relayed = if event.can_be_vetoed() {
            self.in_time(Box::pin(relay.run().instrument(span))).await
        } else {
            self.in_time(Box::pin(relay.run_anyway().instrument(span))).await.map(Ok)
        };
        relayed.unwrap_or_else(|| Err(over(progress.current(&operation.participants, event))))
    }

    /// Records a request that no plugin is asked about, for plugins that join later.
    fn nobody_asks(&self, operation: &OperationState, event: Event, subject: Subject) {
        let before = operation.before(event, &subject);
        let decision = Arc::new(self.shared.decision(operation));
        self.shared.goes_on(&decision, event, subject.container(), Owners::default(), &[]);
        self.shared.asks(operation, event, before, KeptRequest::Bare(subject, decision), None);
    }

    /// Returns the state of the operation, which begins with the first request, and the
    /// participants. Fails if a plugin is missing that the operator requires for the request.
    async fn operation(
        &self,
        event: Event,
        container: Option<&Container>,
    ) -> Result<(&Arc<OperationState>, Arc<Roster>), RelayError> {
        self.shared.services.check_running()?;
        if self.operation.get().is_none() && event.can_be_vetoed() && is_anyone_wanted(&self.shared.roster(), event) {
            let waiting = Box::pin(self.wait_for_the_wanted(event, container));
            self.in_time(waiting).await.ok_or(RelayError::Deadline)?;
            self.shared.services.check_running()?;
        }
        let operation = self.operation.get_or_init(|| self.shared.begin(&self.pod, self.nature));
        let participants = self.shared.participants(operation);
        let Some((key, event)) = self.missing(&participants, event, container) else {
            return Ok((operation, participants));
        };
        let occasion = recorder::occasion_of(key.as_str().into(), event, &self.pod, container);
        self.shared.services.records.ledger().record(&occasion, (&Cause::Absent).into());
        Err(Failure { plugin: key.as_str().to_owned(), event, cause: Cause::Absent }.into())
    }

    /// Waits while a missing plugin that the operator requires is joining, for at most the
    /// `join_timeout` of that plugin.
    async fn wait_for_the_wanted(&self, event: Event, container: Option<&Container>) {
        let begun = Instant::now();
        // The `join_timeout` of the plugin that is waited for now, if any.
        let limit = || {
            let roster = self.shared.roster();
            let (key, _) = self.missing(&roster, event, container)?;
            self.shared.join_timeout(key)
        };
        while let Some(now) = limit() {
            let changed = wait_until(&self.shared.arrived, || limit() != Some(now));
            if tokio::time::timeout_at(begun + now, changed).await.is_err() {
                return;
            }
        }
    }

    /// Returns the first plugin that the operator requires for the request and that is missing,
    /// with the event that needs the plugin.
    fn missing<'r>(
        &self,
        participants: &'r Roster,
        event: Event,
        container: Option<&Container>,
    ) -> Option<(&'r PluginKey, Event)> {
        let requirements = &participants.config().requirements;
        if !is_anyone_wanted(participants, event) {
            return None;
        }
        let name = container.map(|container| &*container.name);
        let presence = |key: &PluginKey, is_there: bool| match is_there {
            true => Presence::Present,
            false if self.shared.is_arriving(|id| key.matches(id)) => Presence::Joining,
            false => Presence::Absent,
        };
        let is_there = |key: &PluginKey| participants.entries().iter().any(|entry| key.matches(&entry.id));
        if let Some(key) = requirements.missing(&self.pod, name, |key| presence(key, is_there(key))) {
            return Some((key, event));
        }
        let validation = Event::ValidateContainerAdjustment;
        let validates = |key: &PluginKey| {
            let mut validators = participants.subscribed(validation, &self.pod.namespace);
            validators.any(|(_, entry)| key.matches(&entry.id))
        };
        let is_validated = event == Event::CreateContainer;
        let presence = |key: &PluginKey| presence(key, validates(key));
        let key = is_validated.then(|| requirements.missing_validator(&self.pod, name, presence)).flatten()?;
        Some((key, validation))
    }

    /// Returns the output of a future, or `None` if the caller's deadline passes first.
    async fn in_time<T>(&self, future: Pin<Box<impl Future<Output = T>>>) -> Option<T> {
        match self.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
            None => Some(future.await),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.end(OperationOutcome::Failed);
    }
}

/// Returns whether the operator requires any plugin for an event.
fn is_anyone_wanted(participants: &Roster, event: Event) -> bool {
    event.can_be_vetoed() && !participants.config().requirements.are_none()
}

/// Returns the error for a caller's deadline that passed while this plugin was asked about this
/// event.
fn over(asked: Option<(&PluginId, Event)>) -> RelayError {
    match asked {
        Some((plugin, event)) => Failure::new(plugin, event, Cause::CallerDeadline).into(),
        None => RelayError::Deadline,
    }
}

fn subject(container: Container) -> Subject {
    Subject::Container(Arc::new(container))
}
