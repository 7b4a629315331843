//! The plugins that are asked about one request, one after the other.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use nri_proto::{Event, PluginId};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{Instrument, Span, info_span, warn};

use crate::cause::{Cause, Failure, RelayError};
use crate::entry::Entry;
use crate::health::State;
use crate::merge::MergedCreate;
use crate::merging::Merging;
use crate::plugin::{PluginError, Reply};
use crate::policy::{Mode, OnTimeout};
use crate::question::{Outcome, Refusal};
use crate::records::{self, Notes};
use crate::request::{Request, Subject};
use crate::roster::Roster;
use crate::shared::Shared;
use crate::turns::Turn;
use crate::validation::Validation;

/// One request on its way.
pub(crate) struct Chain {
    shared: Arc<Shared>,
    participants: Arc<Roster>,
    /// As the next plugin is shown it.
    request: Arc<Request>,
    merging: Merging,
    notes: Notes,
    pub(crate) asking: Asking,
}

/// Which plugin is being asked.
#[derive(Clone)]
pub(crate) struct Asking(Arc<AtomicUsize>);

const NOBODY: usize = usize::MAX;
/// Added to the place of a plugin that is asked to validate.
const VALIDATES: usize = 1 << (usize::BITS / 2);

impl Asking {
    fn nobody() -> Self {
        Self(Arc::new(AtomicUsize::new(NOBODY)))
    }

    fn is(&self, place: usize) {
        self.0.store(place, Ordering::Relaxed);
    }

    /// The first validator whose verdict is not there yet.
    pub(crate) fn validates(&self, place: usize) {
        self.is(VALIDATES + place);
    }

    /// The plugin that is being asked, and about what if `event` is what all are asked about.
    pub(crate) fn who<'a>(&self, participants: &'a Roster, event: Event) -> Option<(&'a PluginId, Event)> {
        let asked = self.0.load(Ordering::Relaxed);
        let event = if asked >= VALIDATES { Event::ValidateContainerAdjustment } else { event };
        participants.entries().get(asked % VALIDATES).map(|entry| (&entry.id, event))
    }
}

/// What a request came to. Where the whole chain is told in any case, plugins may have failed all the same.
pub(crate) struct Relayed {
    pub(crate) merging: Merging,
    pub(crate) failed: Option<RelayError>,
}

impl Chain {
    pub(crate) fn new(shared: Arc<Shared>, participants: Arc<Roster>, request: Request, merging: Merging) -> Self {
        let notes = Notes::new(Arc::clone(&shared));
        Self { shared, participants, request: Arc::new(request), merging, notes, asking: Asking::nobody() }
    }

    /// In which all that is said about the request is said.
    pub(crate) fn span(&self) -> Span {
        let request = &self.request;
        let container = request.container().map(|container| &*container.id);
        info_span!("request", event = request.event().rpc(), pod = request.pod().id, container)
    }

    /// Asks all of them while someone waits for it, and ends with the first that fails.
    pub(crate) async fn run(mut self) -> Result<Relayed, RelayError> {
        let _turn = self.turn().await;
        self.ask(|_| ()).await?;
        self.notes.came_true();
        Ok(Relayed { merging: self.merging, failed: None })
    }

    /// The same for a container to be created: what comes out is shown to validators.
    pub(crate) async fn create(mut self) -> Result<MergedCreate, RelayError> {
        let _turn = self.turn().await;
        let Some(mut validation) = Validation::of(&self.shared, &self.participants, &self.request) else {
            self.ask(|_| ()).await?;
            self.notes.came_true();
            return Ok(self.merging.created());
        };
        self.ask(|plugin| validation.answered(plugin)).await?;
        let merged = Box::pin(validation.judge(self.merging.created(), &self.asking)).await?;
        self.notes.came_true();
        Ok(merged)
    }

    /// Asks all of them, whether or not anyone still waits for it, and whether or not one fails.
    pub(crate) async fn run_anyway(mut self) -> Relayed {
        let shared = Arc::clone(&self.shared);
        let (sender, outcome) = oneshot::channel();
        // The place in the queue is taken now, before another request about the pod is made.
        let mut turn = Box::pin(self.turn());
        let taken = futures_util::poll!(&mut turn);
        let telling = async move {
            let _turn = match taken {
                Poll::Ready(turn) => turn,
                Poll::Pending => turn.await,
            };
            let failed = self.ask_anyway().await;
            // Nobody may be waiting for it any more: then nobody does what they want.
            if sender.send(Relayed { merging: self.merging, failed }).is_ok() {
                self.notes.came_true();
            }
        };
        shared.spawn(telling.in_current_span());
        // Whatever ends the task before it has told ends the adaptation.
        outcome.await.unwrap_or(Relayed { merging: Merging::Nothing, failed: Some(RelayError::Stopped) })
    }

    fn turn(&self) -> impl Future<Output = Turn> + use<> {
        let (turns, pod) = (self.shared.turns.clone(), self.request.pod().id.as_str().into());
        async move { turns.take(pod).await }
    }

    async fn ask(&mut self, mut answered: impl FnMut(&PluginId)) -> Result<(), RelayError> {
        let participants = Arc::clone(&self.participants);
        let pod = self.request.pod_shared();
        for (place, entry) in participants.subscribed(self.request.event(), &pod.namespace) {
            self.asking.is(place);
            if self.ask_one(entry).await? {
                answered(&entry.id);
            }
        }
        Ok(())
    }

    async fn ask_anyway(&mut self) -> Option<RelayError> {
        let participants = Arc::clone(&self.participants);
        let pod = self.request.pod_shared();
        let mut failed = None;
        for (place, entry) in participants.subscribed(self.request.event(), &pod.namespace) {
            self.asking.is(place);
            if let Err(failure) = self.ask_one(entry).await {
                warn!(error = &failure as &dyn Error, "a plugin failed, the others are told all the same");
                failed.get_or_insert(failure);
            }
        }
        failed
    }

    /// Asks one of them. Says whether it answered.
    async fn ask_one(&mut self, entry: &Arc<Entry>) -> Result<bool, RelayError> {
        let begun = Instant::now();
        match entry.ask(&self.request).await {
            Ok(reply) => self.take(entry, reply, begun.elapsed()).map(|()| true),
            Err(cause) => self.go_without(entry, begun.elapsed(), cause).map(|()| false),
        }
    }

    /// Goes on without a plugin's answer, unless the request fails for that.
    fn go_without(&mut self, entry: &Entry, took: Duration, cause: Cause) -> Result<(), RelayError> {
        self.notes.failed(entry, &self.request, took, &cause);
        self.decide(entry, cause).map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Takes an answer into account.
    fn take(&mut self, entry: &Arc<Entry>, reply: Reply, took: Duration) -> Result<(), RelayError> {
        let event = self.request.event();
        self.shared.watchers.metrics().adjustments(&entry.id, event.rpc(), &reply);
        let evictions = records::evictions(&reply).to_vec();
        let outcome = self.merge(entry, reply);
        let occasion = || records::occasion(entry, &self.request, Some(took));
        match outcome {
            Some(Outcome::Applied(applied) | Outcome::Shadow(Ok(applied))) => {
                self.notes.reply(occasion, applied, evictions);
            }
            Some(Outcome::Shadow(Err(refusal))) => self.notes.refused(occasion(), &refusal),
            Some(Outcome::Refused(refusal)) => {
                self.notes.refused(occasion(), &refusal);
                return Err(match refusal {
                    Refusal::Conflict(conflict) => conflict.into(),
                    Refusal::NotAllowed(cause) => Failure::new(&entry.id, event, cause.into()).into(),
                });
            }
            Some(Outcome::NotAsked) => {}
            None => {
                let cause = PluginError::Breach("its answer is one to something else");
                return self.go_without(entry, took, cause.into());
            }
        }
        Ok(())
    }

    /// Merges an answer, and shows the next plugin what comes out.
    fn merge(&mut self, entry: &Entry, reply: Reply) -> Option<Outcome> {
        if !self.merging.may_change(&reply) {
            return self.merging.take(&entry.policy, &entry.id, reply);
        }
        // What nobody else looks at is changed where it lies, so we do not look at it, either.
        let before = self.request.made_bytes();
        self.request = Arc::new(self.request.with(Subject::Pod, None));
        let outcome = self.merging.take(&entry.policy, &entry.id, reply);
        let is_same = !matches!(&outcome, Some(Outcome::Applied(applied)) if applied.view_changed());
        self.request = Arc::new(self.request.with(self.merging.shown(), before.filter(|_| is_same)));
        outcome
    }

    /// Whether a request fails for this cause, as the policy says, or goes on without the plugin.
    fn decide(&self, entry: &Entry, cause: Cause) -> Option<Failure> {
        let policy = &entry.policy;
        let fails = match &cause {
            Cause::Plugin(PluginError::Refused { .. } | PluginError::TooLarge { .. })
            | Cause::NotAllowed(_)
            | Cause::CallerDeadline => true,
            Cause::PassedOver(State::Closed) | Cause::Absent | Cause::Plugin(PluginError::Left(_)) => {
                policy.required && !self.is_exempt()
            }
            Cause::Plugin(PluginError::Gone(_) | PluginError::Breach(_) | PluginError::NotTaken)
            | Cause::TimedOut
            | Cause::PassedOver(_)
            | Cause::Busy => policy.on_timeout == OnTimeout::Fail && !(policy.required && self.is_exempt()),
        };
        let fails = fails && policy.mode == Mode::Enforce;
        fails.then(|| Failure::new(&entry.id, self.request.event(), cause))
    }

    fn is_exempt(&self) -> bool {
        let container = self.request.container().map(|container| &*container.name);
        self.shared.requirements.is_exempt(self.request.pod(), container)
    }
}

/// Whether something happens only if plugins let it. All else has happened already, or must.
pub(crate) fn gates(event: Event) -> bool {
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
