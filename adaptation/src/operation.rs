//! One act of the runtime: the only way to reach plugins.

use std::sync::{Arc, OnceLock};

use nri_proto::{Container, CreateReply, Event, PluginId, Pod, Resources, StopReply, UpdateReply};
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
        self.relay(event, subject, |_, _| {}).await
    }

    /// Asks plugins what they want changed in a container being created.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`].
    pub async fn create_container(&self, container: Container) -> Result<Vec<Said<CreateReply>>, RelayError> {
        let mut said = Vec::new();
        self.relay(Event::CreateContainer, subject(container), |plugin, reply| {
            if let Reply::Create(reply) = reply {
                said.push(Said { plugin: plugin.clone(), reply: *reply });
            }
        })
        .await?;
        Ok(said)
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
        let mut said = Vec::new();
        self.relay(Event::UpdateContainer, subject, |plugin, reply| {
            if let Reply::Update(reply) = reply {
                said.push(Said { plugin: plugin.clone(), reply });
            }
        })
        .await?;
        Ok(said)
    }

    /// Tells plugins that a container has stopped, and asks what that means for others.
    ///
    /// # Errors
    ///
    /// As [`Operation::notify`]. Every plugin is told in any case.
    pub async fn stop_container(&self, container: Container) -> Result<Vec<Said<StopReply>>, RelayError> {
        let mut said = Vec::new();
        self.relay(Event::StopContainer, subject(container), |plugin, reply| {
            if let Reply::Stop(reply) = reply {
                said.push(Said { plugin: plugin.clone(), reply });
            }
        })
        .await?;
        Ok(said)
    }

    /// The runtime's store shows the outcome.
    pub fn commit(self) {}

    /// The one path of all requests.
    async fn relay(
        &self,
        event: Event,
        subject: Subject,
        mut absorb: impl FnMut(&PluginId, Reply),
    ) -> Result<(), RelayError> {
        self.shared.check_running()?;
        let participants = self.participants.get_or_init(|| self.shared.roster());
        self.check_required(participants, event)?;
        let mut subscribed = participants.subscribed(event).peekable();
        if subscribed.peek().is_none() {
            return Ok(());
        }
        let request = Arc::new(Request::new(event, Arc::clone(&self.pod), subject));
        let turn = self.shared.turns.take(self.pod.word().id.as_str().into());
        let _turn = self.in_time(turn).await.ok_or(RelayError::Deadline)?;
        let mut failed = None;
        for entry in subscribed {
            let asked = self.in_time(entry.ask(&request)).await.unwrap_or(Err(Cause::CallerDeadline));
            match asked {
                Ok(reply) => {
                    self.shared.watchers.metrics().adjustments(&entry.id, event.rpc(), &reply);
                    absorb(&entry.id, reply);
                }
                Err(cause) => {
                    if let Some(failure) = decide(entry, event, cause) {
                        if gates(event) || matches!(failure.cause, Cause::CallerDeadline) {
                            return Err(failure.into());
                        }
                        warn!(
                            error = &failure as &dyn std::error::Error,
                            "a plugin failed, the others are told all the same"
                        );
                        failed.get_or_insert(failure);
                    }
                }
            }
        }
        failed.map_or(Ok(()), |failure| Err(failure.into()))
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
        Cause::PassedOver(State::Closed) | Cause::Absent => entry.policy.required,
        Cause::Plugin(PluginError::Gone(_) | PluginError::Breach(_) | PluginError::NotTaken)
        | Cause::TimedOut
        | Cause::PassedOver(_)
        | Cause::Busy => entry.policy.on_timeout == OnTimeout::Fail,
    };
    fails.then(|| Failure::new(&entry.id, event, cause))
}
