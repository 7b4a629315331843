//! An act of the runtime, such as the creation of a container: the only way to reach plugins.
//!
//! - `relay.rs` asks the plugins about one request, one after the other; `validation.rs` then asks
//!   the validators, with `default_validator.rs` among them.
//! - `wait.rs` waits for a required plugin that has yet to hear of earlier operations.
//! - `state.rs` is what is known of an open operation: its requests, its participants, and who
//!   waits for its end.
//! - `rollback.rs` undoes an operation that failed; `prior_state.rs` is what a joining plugin is
//!   shown meanwhile.
//! - `shared.rs` is what all operations of one adaptation share.

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

/// What plugins are told, and do not answer but with an error.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The pod is there, and about to run.
    RunPod,
    /// The pod is about to get new limits.
    UpdatePod {
        /// Of what the pod itself costs.
        overhead: Option<Resources>,
        /// Of all its containers together.
        resources: Option<Resources>,
    },
    /// The pod has new limits.
    PostUpdatePod,
    /// The pod stops.
    StopPod,
    /// The pod is removed.
    RemovePod,
    /// The container is created.
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

/// One act of the runtime in flight. All requests of the act are made on it, so that the same
/// plugins take part in all of them.
///
/// Requests about one pod go one after the other, in the order in which they were made. There is
/// one exception: a request that cannot do without a required plugin waits, up to its
/// `join_timeout`, until the plugin has heard how the operations about the pod ended that it
/// missed. Only then does it take its place in that order, so those operations can go on meanwhile,
/// and whatever need not wait. Requests that wait keep the order among themselves.
///
/// It ends in one of two ways. [`Operation::commit`] says that what the runtime's
/// [`Source`](crate::Source) shows includes what came of it, which it must not before the first
/// request was made. To drop it without that is to say that the act failed: then all is as it was
/// before. Plugins that were told of a pod that was to run, or asked about a container that was to
/// be created, are told that it is stopped and removed, as far as the runtime has not told them so
/// itself; [`Operation::abandon`] leaves that to the runtime. All other requests have nothing that
/// could be undone.
///
/// A start is undone only if [`Operation::undoing_start`] asked for it: then the plugins that saw
/// StartContainer are told StopContainer. By default it is not, because runtimes like those on Go's
/// NRI tell the Stop of a container that did not start themselves.
///
/// A plugin that joins while an operation is open is shown the object of the operation as it was
/// before, and told of the operation when it has ended. What was before is by default what the
/// words of the request say, of an end that it had not come yet. A runtime whose words may lag
/// behind what plugins were told, or run ahead of it, says what plugins know with
/// [`Operation::knowing`].
///
/// A plugin that could not be asked, because it was just joining or silent, hears of it when it has
/// ended. So do not leave it open: after [`operation_timeout`](crate::Config::operation_timeout)
/// that is reported, and nobody waits for it any more.
pub struct Operation {
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    /// What is known of it since the first request, which also fixes who takes part.
    operation: OnceLock<Arc<OperationState>>,
    deadline: Option<Instant>,
    nature: OperationOptions,
}

/// Options of an operation, set before its first request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationOptions {
    pub(crate) known: Known,
    pub(crate) start_undo: Option<StartUndo>,
}

/// What plugins know of a pod or container before an operation about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prior {
    /// What the words of the request say; of an end, that it had not come yet.
    #[default]
    AsSaid,
    /// What the [`Source`](crate::Source) shows: the operation changes nothing that a state says,
    /// and the source shows nothing but what plugins know.
    AsShown,
    /// It was created, and had not run.
    Created,
    /// It ran. A pod that is there and has not stopped runs.
    Running,
    /// It had stopped. Plugins that join are not shown it.
    Stopped,
}

/// What plugins know of the pod and of the container that an operation is about. See
/// [`Operation::knowing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Of the pod, if the operation is about that, or changes it with its container.
    pub pod: Prior,
    /// Of the container.
    pub container: Prior,
}

impl Operation {
    pub(crate) fn new(shared: Arc<Shared>, pod: Arc<Pod>) -> Self {
        Self { shared, pod, operation: OnceLock::new(), deadline: None, nature: OperationOptions::default() }
    }

    /// Says what plugins know of the pod and the container before this operation. A plugin that
    /// joins while it is open is shown that, whatever state the words of the requests say. To be
    /// called before the first request.
    #[must_use]
    pub fn knowing(mut self, known: Known) -> Self {
        self.nature.known = known;
        self
    }

    /// Undoes a start, too, if the operation fails: StopContainer is told to exactly those plugins
    /// that saw StartContainer. With `with_pod` they are told StopPodSandbox after that, for a pod
    /// that runs only while its container does. To be called before the first request.
    #[must_use]
    pub fn undoing_start(mut self, with_pod: bool) -> Self {
        self.nature.start_undo = Some(StartUndo { with_pod });
        self
    }

    /// With a deadline of the caller's own. It costs a plugin nothing that is asked when it is
    /// over, unless the plugin's own time is over, too.
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Tells plugins something.
    ///
    /// # Errors
    ///
    /// A plugin that refuses, or fails and is not to be passed over. What gates something, such as
    /// the start of a container, then ends there; of an end or of what has happened already, every
    /// plugin is told in any case.
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

    /// Asks plugins what they want changed in a container being created, and validators whether
    /// that may be.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`]; plugins that want contrary things; a validator that does not
    /// accept.
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

    /// Asks plugins what they make of new limits of a container.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`]; plugins that want contrary things.
    pub async fn update_container(
        &self,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<MergedUpdate, RelayError> {
        let (merging, subject) = Merging::update(container, resources);
        Ok(self.relay(Event::UpdateContainer, subject, merging).await?.merging.updated())
    }

    /// Tells plugins that a container has stopped, and asks what that means for others.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`]; plugins that want contrary things. Every plugin is told in any
    /// case, and what the others want is in the error, unless the caller's own deadline was over
    /// before they had said it.
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

    /// The runtime's store shows the outcome.
    pub fn commit(mut self) {
        self.end(OperationOutcome::Committed);
    }

    /// The same for one that several hold: whoever says it first ends it, and whatever becomes of
    /// it afterwards changes nothing.
    pub fn committed(&self) {
        if let Some(operation) = self.operation.get() {
            self.shared.end(operation, OperationOutcome::Committed);
        }
    }

    /// The act failed, and the runtime itself tells plugins what follows from that, as runtimes on
    /// Go's NRI do. Who could not be asked hears nothing of what was to begin.
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

    /// The one path of all requests.
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

    /// Nobody is asked, but someone may join and want to hear of it.
    fn nobody_asks(&self, operation: &OperationState, event: Event, subject: Subject) {
        let before = operation.before(event, &subject);
        let decision = Arc::new(self.shared.decision(operation));
        self.shared.goes_on(&decision, event, subject.container(), Owners::default(), &[]);
        self.shared.asks(operation, event, before, KeptRequest::Bare(subject, decision), None);
    }

    /// What is known of it, and who takes part. Those that the operator wants must be there before
    /// the first one is asked.
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

    /// Waits while one of those is joining, each up to its own limit.
    async fn wait_for_the_wanted(&self, event: Event, container: Option<&Container>) {
        let begun = Instant::now();
        loop {
            let arrived = self.shared.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let roster = self.shared.roster();
            let Some((key, _)) = self.missing(&roster, event, container) else { return };
            let Some(limit) = self.shared.join_timeout(key) else { return };
            if tokio::time::timeout_at(begun + limit, arrived).await.is_err() {
                return;
            }
        }
    }

    /// Who is wanted and not there, and what for.
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

    /// What a future yields, unless the caller's deadline is over before.
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

/// Whether anyone must be there for an event.
fn is_anyone_wanted(participants: &Roster, event: Event) -> bool {
    event.can_be_vetoed() && !participants.config().requirements.are_none()
}

/// The caller's deadline was over while this plugin was asked about this.
fn over(asked: Option<(&PluginId, Event)>) -> RelayError {
    match asked {
        Some((plugin, event)) => Failure::new(plugin, event, Cause::CallerDeadline).into(),
        None => RelayError::Deadline,
    }
}

fn subject(container: Container) -> Subject {
    Subject::Container(Arc::new(container))
}
