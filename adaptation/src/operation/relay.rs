//! The relay of one request to plugins, one after the other.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::quote::error_line;
use nri_proto::{Event, Owners, PluginId, Update};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{Instrument, Span, info_span, warn};

use crate::api::error::{Cause, Failure, RelayError};
use crate::api::health::State;
use crate::api::plugin::{PluginError, Reply};
use crate::api::queue::QueuePlace;
use crate::api::request::{Request, Subject};
use crate::config::policy::{Mode, OnTimeout};
use crate::merge::MergedCreate;
use crate::operation::shared::Shared;
use crate::operation::state::{KeptRequest, OperationState};
use crate::operation::validation::Validation;
use crate::reply::merging::Merging;
use crate::reply::question::{Refusal, ReplyOutcome};
use crate::reply::recorder::{self, RequestRecord};
use crate::session::RequestScope;
use crate::session::open_operation::OpenOperation;
use crate::session::patience::{Allowance, Patience};
use crate::session::progress::RelayProgress;
use crate::session::roster::{Participant, Roster};
use crate::session::visibility::{self, RequestedChanges};

/// One request that is relayed to plugins.
pub(crate) struct Relay {
    pub(crate) shared: Arc<Shared>,
    pub(crate) operation: Arc<OperationState>,
    /// The operation in the form that plugin sessions use.
    pub(crate) open: Arc<dyn OpenOperation>,
    /// The plugins that take part in the operation, with the policies that were in effect when the
    /// request was made.
    pub(crate) participants: Arc<Roster>,
    pub(crate) shown: ShownRequest,
    merging: Merging,
    pub(crate) notes: RequestRecord,
    patience: Patience,
    /// The time that the request has waited for required plugins to join.
    pub(crate) waited: Duration,
    pub(crate) progress: RelayProgress,
}

/// The request as the next plugin is shown it, with the changes of earlier plugins. When dropped,
/// its last version is kept in the operation for plugins that receive it later, and a request that
/// has not succeeded counts as failed.
pub(crate) struct ShownRequest {
    pub(crate) request: Arc<Request>,
    operation: Arc<OperationState>,
    /// The place of the request in the operation, if plugins may change the request.
    place: Option<usize>,
}

impl Drop for ShownRequest {
    fn drop(&mut self) {
        self.request.decision().fails();
        if let Some(place) = self.place {
            self.operation.keep(place, Arc::clone(&self.request));
        }
    }
}

/// The result of a relayed request. `failed` is the first failure of a request that is relayed to
/// all plugins in any case.
pub(crate) struct Relayed {
    pub(crate) merging: Merging,
    pub(crate) failed: Option<RelayError>,
}

impl Relay {
    /// Begins the relay of a request, and records the request in its operation.
    pub(crate) fn new(
        shared: Arc<Shared>,
        operation: Arc<OperationState>,
        participants: Arc<Roster>,
        event: Event,
        subject: Subject,
        merging: Merging,
    ) -> Self {
        let notes = RequestRecord::new(Arc::clone(&shared.services.records));
        let progress = RelayProgress::new();
        let before = operation.before(event, &subject);
        let decision = Arc::new(shared.decision(&operation));
        let request = Arc::new(Request::new(event, Arc::clone(&operation.pod), subject).decided(decision));
        let changes = merging.changes_the_request();
        let kept = if changes { KeptRequest::InFlight } else { KeptRequest::Request(Arc::clone(&request)) };
        let place = shared.asks(&operation, event, before, kept, Some(progress.clone()));
        let shown = ShownRequest { request, operation: Arc::clone(&operation), place: changes.then_some(place) };
        let patience = Patience::new(participants.config().request_budget);
        let open = Arc::clone(&operation) as Arc<dyn OpenOperation>;
        Self {
            shared,
            operation,
            open,
            participants,
            shown,
            merging,
            notes,
            patience,
            waited: Duration::ZERO,
            progress,
        }
    }

    /// Returns the tracing span of the request.
    pub(crate) fn span(&self) -> Span {
        let request = &self.shown.request;
        let container = request.container().map(|container| &*container.id);
        info_span!("request", event = request.event().rpc(), pod = request.pod().id, container)
    }

    /// Asks all plugins in order. Ends with the first failure of the request, or when the future is
    /// dropped.
    pub(crate) async fn run(mut self) -> Result<Relayed, RelayError> {
        let _turn = self.turn_when_heard().await?;
        self.begins();
        self.ask(|_| ()).await?;
        self.goes_on(self.merging.claims(), self.merging.updates());
        self.notes.came_true();
        Ok(Relayed { merging: self.merging, failed: None })
    }

    /// Like [`Relay::run`], for a container to be created: the validators then judge the result.
    pub(crate) async fn create(mut self) -> Result<MergedCreate, RelayError> {
        let _turn = self.turn_when_heard().await?;
        self.begins();
        let Some(mut validation) = Validation::of(&self.participants, &self.shown.request) else {
            self.ask(|_| ()).await?;
            let merged = self.merging.created();
            self.shared.created(&self.shown.request, &merged);
            self.notes.came_true();
            return Ok(merged);
        };
        self.patience.keep_for_validators(validation.timeout().unwrap_or_default());
        self.ask(|plugin| validation.answered(plugin)).await?;
        let judging = validation.judge(self.merging.created(), &self.progress, &mut self.notes, &self.patience);
        let merged = Box::pin(judging).await?;
        self.shared.created(&self.shown.request, &merged);
        self.notes.came_true();
        Ok(merged)
    }

    /// Asks all plugins in order, in a task: also after a plugin has failed, and also if this
    /// future is dropped.
    pub(crate) async fn run_anyway(mut self) -> Relayed {
        let shared = Arc::clone(&self.shared);
        let (sender, outcome) = oneshot::channel();
        // The place in the queue is taken now, before another request about the pod is made.
        let place = self.place();
        let telling = async move {
            let _turn = place.turn().await;
            self.begins();
            let failed = self.ask_anyway().await;
            self.goes_on(self.merging.claims(), self.merging.updates());
            // If the caller has left, the runtime does not apply what the plugins want, so it is
            // not recorded as applied.
            if sender.send(Relayed { merging: self.merging, failed }).is_ok() {
                self.notes.came_true();
            }
        };
        shared.services.spawn(telling.in_current_span());
        // If the task ends without a result, the adaptation is ending, too.
        outcome.await.unwrap_or(Relayed { merging: Merging::Nothing, failed: Some(RelayError::Stopped) })
    }

    /// Records that plugins are asked from now on.
    fn begins(&self) {
        self.shown.request.decision().begins(self.shared.services.update_log.now());
    }

    /// Records that the request succeeded. Late answers are applied where neither the plugins in
    /// this request nor later updates have decided.
    fn goes_on(&self, claims: Owners, updates: &[Update]) {
        let request = &self.shown.request;
        self.shared.goes_on(request.decision(), request.event(), request.container(), claims, updates);
    }

    /// Takes a place in the queue of the pod, behind all earlier requests about the pod.
    pub(crate) fn place(&self) -> QueuePlace {
        self.shared.turns.enqueue(Arc::clone(&self.operation.pod_id))
    }

    async fn ask(&mut self, mut answered: impl FnMut(&PluginId)) -> Result<(), RelayError> {
        let participants = Arc::clone(&self.participants);
        let pod = self.shown.request.pod_shared();
        for (place, entry) in participants.subscribed(self.shown.request.event(), &pod.namespace) {
            self.progress.set_current(place);
            if self.ask_one(place, entry).await? {
                answered(&entry.id);
            }
        }
        Ok(())
    }

    async fn ask_anyway(&mut self) -> Option<RelayError> {
        let participants = Arc::clone(&self.participants);
        let pod = self.shown.request.pod_shared();
        let mut failed = None;
        for (place, entry) in participants.subscribed(self.shown.request.event(), &pod.namespace) {
            self.progress.set_current(place);
            if let Err(failure) = self.ask_one(place, entry).await {
                warn!(error = %error_line(&failure), "plugin failed the request; the other plugins are still asked");
                failed.get_or_insert(failure);
            }
        }
        failed
    }

    /// Asks one plugin. Returns whether the plugin answered.
    async fn ask_one(&mut self, place: usize, entry: &Participant) -> Result<bool, RelayError> {
        let begun = Instant::now();
        let part = RequestScope::Of { operation: &self.open, progress: &self.progress, place };
        match entry.ask(&self.shown.request, part, self.allowance(place, entry)).await {
            Ok(mut reply) => {
                let took = begun.elapsed();
                if RequestedChanges::of(&mut reply).is_some() && !entry.sees_all() {
                    let request = &self.shown.request;
                    let hidden = Box::pin(visibility::take_hidden(entry, request, &mut reply)).await;
                    self.notes.hidden(entry.exchange(request, took), hidden.refusals());
                }
                self.take(entry, reply, took).map(|()| true)
            }
            Err(cause) => {
                if cause.is_unanswered() {
                    self.patience.charge(begun.elapsed(), entry.terms.policy().request_timeout);
                }
                self.go_without(entry, begun.elapsed(), cause).map(|()| false)
            }
        }
    }

    /// Returns how long the request waits for a plugin. A plugin that may not be cut short has its
    /// whole request timeout.
    fn allowance(&self, place: usize, entry: &Participant) -> Allowance {
        if !entry.terms.may_be_cut_short() {
            return Allowance::Whole;
        }
        // Plugins that are skipped in any case need no share.
        let is_to_ask = |(other, entry): &(usize, &Participant)| *other >= place && entry.state() == State::Active;
        let (event, namespace) = (self.shown.request.event(), &*self.operation.pod.namespace);
        let n_to_ask = || self.participants.subscribed(event, namespace).filter(is_to_ask).count();
        self.patience.of_next(entry.terms.policy().request_timeout, n_to_ask)
    }

    /// Continues without a plugin's answer, or fails if the policy says that the request fails for
    /// this cause.
    pub(crate) fn go_without(&mut self, entry: &Participant, took: Duration, cause: Cause) -> Result<(), RelayError> {
        self.notes.failed(entry.exchange(&self.shown.request, took), &cause);
        self.decide(entry, cause).map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Merges an answer and records the result. Fails if the answer is refused.
    fn take(&mut self, entry: &Participant, reply: Reply, took: Duration) -> Result<(), RelayError> {
        let event = self.shown.request.event();
        self.shared.services.watchers.metrics().adjustments(&entry.id, event.rpc(), &reply);
        let evictions = recorder::evictions(&reply).to_vec();
        let outcome = self.merge(entry, reply);
        let answered = entry.exchange(&self.shown.request, took);
        match outcome {
            Some(ReplyOutcome::Applied(applied) | ReplyOutcome::Shadow(Ok(applied))) => {
                self.notes.reply(answered, applied, evictions);
            }
            Some(ReplyOutcome::Shadow(Err(refusal))) => self.notes.refused(answered, &refusal),
            Some(ReplyOutcome::Refused(refusal)) => {
                self.notes.refused(answered, &refusal);
                return Err(match refusal {
                    Refusal::Conflict(conflict) => conflict.into(),
                    Refusal::NotAllowed(cause) => Failure::new(&entry.id, event, cause.into()).into(),
                });
            }
            Some(ReplyOutcome::NotAsked) => {}
            None => {
                let cause = PluginError::Breach("its answer is of another kind than the request");
                return self.go_without(entry, took, cause.into());
            }
        }
        Ok(())
    }

    /// Merges an answer, and updates the request that the next plugin is shown. Returns `None` if
    /// the answer is of another kind than the request.
    fn merge(&mut self, entry: &Participant, reply: Reply) -> Option<ReplyOutcome> {
        if !self.merging.may_change(&reply) {
            return self.merging.take(entry.terms.policy(), &entry.id, reply);
        }
        let request = Arc::make_mut(&mut self.shown.request);
        request.release_subject();
        let outcome = self.merging.take(entry.terms.policy(), &entry.id, reply);
        let is_changed = matches!(&outcome, Some(ReplyOutcome::Applied(applied)) if applied.view_changed());
        request.show(self.merging.shown(), is_changed);
        outcome
    }

    /// Returns the failure of the request if, by the plugin's policy, the request fails for this
    /// cause. Returns `None` if the request continues without the plugin.
    fn decide(&self, entry: &Participant, cause: Cause) -> Option<Failure> {
        let policy = entry.terms.policy();
        let fails = match &cause {
            Cause::Plugin(PluginError::Refused { .. } | PluginError::TooLarge { .. })
            | Cause::NotAllowed(_)
            | Cause::CallerDeadline => true,
            // A notice is delivered later, as soon as the plugin has received the earlier requests.
            Cause::Behind | Cause::CatchingUp if !self.shown.request.event().can_be_vetoed() => false,
            Cause::PassedOver(State::Closed) | Cause::Absent | Cause::Plugin(PluginError::Left(_)) => {
                policy.required && !self.tolerates_absence()
            }
            Cause::Plugin(PluginError::Gone(_) | PluginError::Breach(_) | PluginError::NotTaken)
            | Cause::TimedOut
            | Cause::CutShort
            | Cause::PassedOver(_)
            | Cause::CatchingUp
            | Cause::Behind
            | Cause::Busy => policy.on_timeout == OnTimeout::Fail && !(policy.required && self.is_exempt()),
        };
        let fails = fails && policy.mode == Mode::Enforce;
        fails.then(|| Failure::new(&entry.id, self.shown.request.event(), cause))
    }

    /// Returns whether the operator lets the pod proceed without required plugins that do not
    /// answer.
    pub(crate) fn is_exempt(&self) -> bool {
        self.participants.config().requirements.is_exempt(self.shown.request.pod())
    }

    /// Returns whether the pod may proceed without required plugins that are absent.
    fn tolerates_absence(&self) -> bool {
        let container = self.shown.request.container().map(|container| &*container.name);
        self.participants.config().requirements.tolerates_absence(self.shown.request.pod(), container)
    }
}
