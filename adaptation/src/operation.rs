//! One act of the runtime: the only way to reach plugins.

use std::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

use nri_proto::{Container, CreateReply, Event, PluginId, Pod, Resources, StopReply, UpdateReply};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::warn;

use crate::cause::{Cause, Failure, RelayError};
use crate::entry::Entry;
use crate::health::State;
use crate::plugin::{PluginError, Reply};
use crate::policy::OnTimeout;
use crate::request::{Encoded, Request, Subject};
use crate::roster::Roster;
use crate::shared::Shared;
use crate::turns::Turn;

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

/// What one plugin replied.
#[derive(Clone, Debug, PartialEq)]
pub struct Said<R> {
    /// The plugin.
    pub plugin: PluginId,
    /// Its reply.
    pub reply: R,
}

impl Said<Reply> {
    fn narrow<R>(self, narrow: impl FnOnce(Reply) -> Option<R>) -> Option<Said<R>> {
        let Self { plugin, reply } = self;
        narrow(reply).map(|reply| Said { plugin, reply })
    }
}

/// One act of the runtime in flight. All requests of the act are made on it, so that the same
/// plugins take part in all of them.
///
/// Requests about one pod go one after the other, in the order in which they were made.
pub struct Operation {
    shared: Arc<Shared>,
    pod: Arc<Encoded<Pod>>,
    /// Who takes part: fixed at the first request.
    participants: OnceLock<Arc<Roster>>,
    deadline: Option<Instant>,
}

impl Operation {
    pub(crate) fn new(shared: Arc<Shared>, pod: Pod) -> Self {
        Self { shared, pod: Arc::new(Encoded::new(pod)), participants: OnceLock::new(), deadline: None }
    }

    /// With a deadline of the caller's own. It costs a plugin nothing that is asked when it is over, unless
    /// the plugin's own time is over, too.
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Tells plugins something.
    ///
    /// # Errors
    ///
    /// A plugin that refuses, or fails and is not to be passed over. What gates something, such as the start of a container, then
    /// ends there; of an end or of what has happened already, every plugin is told in any case.
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
        self.relay(event, subject).await.map(drop)
    }

    /// Asks plugins what they want changed in a container being created.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`].
    pub async fn create_container(&self, container: Container) -> Result<Vec<Said<CreateReply>>, RelayError> {
        let said = self.relay(Event::CreateContainer, subject(container)).await?;
        Ok(said.into_iter().filter_map(|said| said.narrow(Reply::into_create)).collect())
    }

    /// Asks plugins what they make of new limits of a container.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`].
    pub async fn update_container(
        &self,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<Vec<Said<UpdateReply>>, RelayError> {
        let subject = Subject::ContainerResources {
            container: Arc::new(Encoded::new(container)),
            resources: resources.map(Box::new),
        };
        let said = self.relay(Event::UpdateContainer, subject).await?;
        Ok(said.into_iter().filter_map(|said| said.narrow(Reply::into_update)).collect())
    }

    /// Tells plugins that a container has stopped, and asks what that means for others.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`]. Every plugin is told in any case.
    pub async fn stop_container(&self, container: Container) -> Result<Vec<Said<StopReply>>, RelayError> {
        let said = self.relay(Event::StopContainer, subject(container)).await?;
        Ok(said.into_iter().filter_map(|said| said.narrow(Reply::into_stop)).collect())
    }

    /// The runtime's store shows the outcome.
    pub fn commit(self) {}

    /// The one path of all requests.
    async fn relay(&self, event: Event, subject: Subject) -> Result<Vec<Said<Reply>>, RelayError> {
        self.shared.check_running()?;
        let participants = self.participants.get_or_init(|| self.shared.roster());
        self.check_required(participants, event)?;
        let entries: Vec<_> = participants.subscribed(event).cloned().collect();
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let request = Arc::new(Request::new(event, Arc::clone(&self.pod), subject));
        let asking = Arc::default();
        let chain = Chain { shared: Arc::clone(&self.shared), entries, request, asking: Arc::clone(&asking) };
        let relayed =
            if gates(event) { self.in_time(chain.run()).await } else { self.in_time(chain.run_anyway()).await };
        match relayed {
            Some(outcome) => Ok(outcome?),
            None => Err(over_at(&asking, event)),
        }
    }

    /// A plugin that the operator requires must be there before the first one is asked.
    fn check_required(&self, participants: &Roster, event: Event) -> Result<(), RelayError> {
        if !gates(event) {
            return Ok(());
        }
        let is_there =
            |key: &crate::policy::PluginKey| participants.entries().iter().any(|entry| key.matches(&entry.id));
        match self.shared.config.policies.required().find(|key| !is_there(key)) {
            Some(key) => Err(Failure { plugin: key.as_str().to_owned(), event, cause: Cause::Absent }.into()),
            None => Ok(()),
        }
    }

    /// What a future yields, unless the caller's deadline is over before.
    async fn in_time<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match self.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
            None => Some(future.await),
        }
    }
}

/// The plugins that are asked about one request.
struct Chain {
    shared: Arc<Shared>,
    entries: Vec<Arc<Entry>>,
    request: Arc<Request>,
    /// The one that is being asked.
    asking: Arc<Mutex<Option<PluginId>>>,
}

impl Chain {
    /// Asks all of them while someone waits for it.
    async fn run(self) -> Result<Vec<Said<Reply>>, Failure> {
        let _turn = self.turn().await;
        self.ask().await
    }

    /// Asks all of them, whether or not anyone still waits for it.
    async fn run_anyway(self) -> Result<Vec<Said<Reply>>, Failure> {
        let shared = Arc::clone(&self.shared);
        let (sender, outcome) = oneshot::channel();
        // The place in the queue is taken now, before another request about the pod is made.
        let mut turn = Box::pin(self.turn());
        let taken = futures_util::poll!(&mut turn);
        shared.spawn(async move {
            let _turn = match taken {
                Poll::Ready(turn) => turn,
                Poll::Pending => turn.await,
            };
            // Nobody may be waiting for it.
            let _ = sender.send(self.ask().await);
        });
        outcome.await.unwrap_or(Ok(Vec::new()))
    }

    fn turn(&self) -> impl Future<Output = Turn> + use<> {
        let (turns, pod) = (self.shared.turns.clone(), self.request.pod().id.as_str().into());
        async move { turns.take(pod).await }
    }

    async fn ask(&self) -> Result<Vec<Said<Reply>>, Failure> {
        let event = self.request.event();
        let (mut said, mut failed) = (Vec::new(), None);
        for entry in &self.entries {
            *self.asking.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry.id.clone());
            match entry.ask(&self.request).await {
                Ok(reply) => {
                    self.shared.watchers.metrics().adjustments(&entry.id, event.rpc(), &reply);
                    said.push(Said { plugin: entry.id.clone(), reply });
                }
                Err(cause) => {
                    let Some(failure) = decide(entry, event, cause) else { continue };
                    if gates(event) {
                        return Err(failure);
                    }
                    warn!(error = &failure as &dyn Error, "a plugin failed, the others are told all the same");
                    failed.get_or_insert(failure);
                }
            }
        }
        failed.map_or(Ok(said), Err)
    }
}

/// The caller's deadline was over while this plugin was asked.
fn over_at(asking: &Mutex<Option<PluginId>>, event: Event) -> RelayError {
    match &*asking.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(plugin) => Failure::new(plugin, event, Cause::CallerDeadline).into(),
        None => RelayError::Deadline,
    }
}

fn subject(container: Container) -> Subject {
    Subject::Container(Arc::new(Encoded::new(container)))
}

/// Whether something happens only if plugins let it. All else has happened already, or must.
fn gates(event: Event) -> bool {
    match event {
        Event::RunPodSandbox
        | Event::UpdatePodSandbox
        | Event::CreateContainer
        | Event::StartContainer
        | Event::UpdateContainer
        | Event::ValidateContainerAdjustment => true,
        Event::PostUpdatePodSandbox
        | Event::StopPodSandbox
        | Event::RemovePodSandbox
        | Event::PostCreateContainer
        | Event::PostStartContainer
        | Event::PostUpdateContainer
        | Event::StopContainer
        | Event::RemoveContainer => false,
    }
}

/// Whether a request fails for this cause, as the policy says, or goes on without the plugin.
fn decide(entry: &Entry, event: Event, cause: Cause) -> Option<Failure> {
    let fails = match &cause {
        Cause::Plugin(PluginError::Refused { .. } | PluginError::TooLarge { .. }) | Cause::CallerDeadline => true,
        Cause::PassedOver(State::Closed) | Cause::Absent | Cause::Plugin(PluginError::Left(_)) => entry.policy.required,
        Cause::Plugin(PluginError::Gone(_) | PluginError::Breach(_) | PluginError::NotTaken)
        | Cause::TimedOut
        | Cause::PassedOver(_)
        | Cause::Busy => entry.policy.on_timeout == OnTimeout::Fail,
    };
    fails.then(|| Failure::new(&entry.id, event, cause))
}
