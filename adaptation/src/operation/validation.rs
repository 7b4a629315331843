//! The validation of a container to be created: validators judge the merged adjustments of all
//! plugins.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use nri_proto::quote::error_line;
use nri_proto::{Event, PluginId, PluginInstance, Proposal, TakeUnknown, Verdict};
use tokio::time::Instant;
use tracing::warn;

use crate::api::error::{Cause, RelayError};
use crate::api::health::State;
use crate::api::plugin::{PluginError, Reply};
use crate::api::request::{Request, Subject};
use crate::config::DefaultValidator;
use crate::config::policy::{Effective, Mode, OnTimeout, Origin};
use crate::ledger::{EntryKind, Occasion};
use crate::merge::MergedCreate;
use crate::reply::recorder::{self, RequestRecord};
use crate::session::patience::{Allowance, Patience};
use crate::session::progress::RelayProgress;
use crate::session::roster::{Participant, Roster};
use crate::session::{PluginSession, RequestScope};

const EVENT: Event = Event::ValidateContainerAdjustment;
/// The reason for a rejection by a validator that gives no reason.
const NO_REASON: &str = "unknown rejection reason";

/// Returns whether any validator judges new containers of pods in this Kubernetes namespace.
pub(crate) fn is_wanted(participants: &Roster, namespace: &str) -> bool {
    participants.config().default_validator().is_some() || participants.has_subscriber(EVENT, namespace)
}

/// The validation of one container to be created.
pub(crate) struct Validation {
    participants: Arc<Roster>,
    /// The request as it was before any plugin changed the container.
    original: Arc<Request>,
    answered: Vec<PluginId>,
}

impl Validation {
    /// Begins the validation of a container. Returns `None` if there is no validator for it.
    pub(crate) fn of(participants: &Arc<Roster>, original: &Arc<Request>) -> Option<Self> {
        is_wanted(participants, &original.pod().namespace).then(|| Self {
            participants: Arc::clone(participants),
            original: Arc::clone(original),
            answered: Vec::new(),
        })
    }

    /// Returns the longest request timeout of the plugins that validate. Returns `None` if no
    /// plugin does.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let validators = self.participants.subscribed(EVENT, &self.original.pod().namespace);
        validators.map(|(_, entry)| entry.terms.policy().request_timeout).max()
    }

    /// Records that a plugin has answered the CreateContainer.
    pub(crate) fn answered(&mut self, plugin: &PluginId) {
        self.answered.push(plugin.clone());
    }

    /// Asks all validators at the same time. The container is created only if each of them accepts
    /// it, or gives no verdict and is not needed.
    pub(crate) async fn judge(
        self,
        merged: MergedCreate,
        progress: &RelayProgress,
        notes: &mut RequestRecord,
        patience: &Patience,
    ) -> Result<MergedCreate, RelayError> {
        let proposal = Arc::new(self.proposal(&merged));
        let request = Arc::new(self.original.of(EVENT, Subject::Proposal(Arc::clone(&proposal))));
        if let Some(validator) = self.participants.config().default_validator() {
            accept_by_default(validator, &proposal, &request, notes)?;
        }
        let validators: Vec<_> = self.participants.subscribed(EVENT, &self.original.pod().namespace).collect();
        let mut verdicts: FuturesOrdered<_> =
            validators.iter().map(|(_, entry)| self.verdict(entry, &request, patience)).collect();
        let (mut failed, mut without) = (None, Vec::new());
        for (place, entry) in &validators {
            progress.set_current_validator(*place);
            let Some(Err(FailedVerdict { failure, is_needed, occasion, what })) = verdicts.next().await else {
                continue;
            };
            let is_shadow = occasion.shadow;
            notes.fact(occasion, what);
            match (is_shadow, is_needed) {
                (true, _) => {}
                (false, true) => {
                    warn!(error = %error_line(&failure), "validation failed; the container is not created");
                    failed.get_or_insert(failure);
                }
                (false, false) => without.push((*entry, failure)),
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        for (entry, failure) in without {
            warn!(error = %error_line(&failure), "validator gave no verdict; the container is created without it");
            entry.services.watchers.metrics().unvalidated(&entry.id);
        }
        Ok(merged)
    }

    fn proposal(&self, merged: &MergedCreate) -> Proposal {
        Proposal {
            pod: Some(self.original.pod().clone()),
            container: self.original.container().cloned(),
            adjustment: Some(merged.adjustment.clone()),
            updates: merged.updates.clone(),
            owners: Some(merged.owners.clone()),
            plugins: self.consulted(),
            ..Proposal::default()
        }
    }

    /// Returns the plugins that the proposal lists as consulted: plugins that have answered the
    /// CreateContainer, active plugins that did not subscribe to it, and, as upstream, the default
    /// validator. Not listed are plugins in shadow mode, and plugins that subscribed and have not
    /// answered, for example because the operator hides the pod from them.
    fn consulted(&self) -> Vec<PluginInstance> {
        let is_consulted = |entry: &&Participant| {
            let is_heard = if entry.subscribes(Event::CreateContainer) {
                self.answered.contains(&entry.id)
            } else {
                entry.state() == State::Active
            };
            is_heard && entry.terms.policy().mode == Mode::Enforce
        };
        let plugins = self.participants.entries().iter().filter(is_consulted);
        let mut consulted: Vec<PluginId> = plugins.map(|entry| entry.id.clone()).collect();
        if self.participants.config().default_validator().is_some() {
            let validator = DefaultValidator::ID.parse().expect("it is the id of a plugin");
            let place = consulted.partition_point(|plugin| *plugin < validator);
            consulted.insert(place, validator);
        }
        consulted.iter().map(PluginInstance::from).collect()
    }

    /// Returns whether the pod may proceed without the verdict of a validator that the operator
    /// names or requires, and that gave none for this cause.
    fn is_exempt_from(&self, cause: &Cause) -> bool {
        let container = self.original.container().map(|container| &*container.name);
        let (requirements, pod) = (&self.participants.config().requirements, self.original.pod());
        is_silence(cause) && requirements.is_exempt(pod)
            || is_absence(cause) && requirements.tolerates_absence(pod, container)
    }

    /// Asks one validator. Fails if the validator does not accept the container, or if it gives no
    /// verdict and the pod may not proceed without it. The failure says whether the container is
    /// not created for it.
    async fn verdict(
        &self,
        entry: &Participant,
        request: &Arc<Request>,
        patience: &Patience,
    ) -> Result<(), FailedVerdict> {
        let begun = Instant::now();
        // This request may be the probe of a suspended validator. If the probe fails, the validator
        // counts as suspended, not as silent.
        let is_suspended = entry.state() == State::Suspended;
        let allowance = match is_listed(entry) {
            true => Allowance::Whole,
            false => patience.of_validators(entry.terms.policy().request_timeout),
        };
        let verdict = match entry.ask(request, RequestScope::Alone, allowance).await {
            Ok(Reply::Verdict(mut verdict)) => {
                let occasion = entry.occasion(&entry.terms, request, Some(begun.elapsed()));
                entry.services.records.unread(&occasion, verdict.take_unknown());
                accepted(entry.id.as_str(), &verdict)
            }
            Ok(_) => Err(failed(entry, PluginError::Breach("its answer is not a verdict").into())),
            // An unavailable validator does not prevent creates in pods that may proceed without
            // it.
            Err(cause) if is_listed(entry) && self.is_exempt_from(&cause) => Ok(()),
            Err(cause) => Err(failed(entry, cause)),
        };
        let Err(failure) = verdict else { return Ok(()) };
        // The suspension may have ended before the validator was asked.
        let is_suspended = is_suspended && matches!(entry.state(), State::Suspended | State::Closed);
        let occasion = entry.occasion(&entry.terms, request, Some(begun.elapsed()));
        let (is_needed, what) = match &failure {
            RelayError::Validator { cause, .. } => {
                (is_needed(&entry.terms.effective, is_suspended, cause), cause.into())
            }
            RelayError::Rejected { reason, .. } => (true, EntryKind::Rejected { reason: reason.clone() }),
            RelayError::Failed(_) | RelayError::Contrary(_) | RelayError::Deadline | RelayError::Stopped => {
                (true, EntryKind::Failed { reason: failure.to_string() })
            }
        };
        Err(FailedVerdict { failure, is_needed, occasion, what })
    }
}

/// Why a validator has not accepted a container, and the record of that. A validator in shadow mode
/// can fail to accept, too.
struct FailedVerdict {
    failure: RelayError,
    /// Whether this prevents the creation of the container. Otherwise, the container is created
    /// without the verdict.
    is_needed: bool,
    occasion: Occasion,
    what: EntryKind,
}

fn accept_by_default(
    validator: &DefaultValidator,
    proposal: &Proposal,
    request: &Request,
    notes: &mut RequestRecord,
) -> Result<(), RelayError> {
    let accepted = accepted(DefaultValidator::ID, &validator.validate(proposal));
    if let Err(RelayError::Rejected { reason, .. }) = &accepted {
        let occasion = recorder::occasion_of(DefaultValidator::ID.into(), EVENT, request.pod(), request.container());
        notes.fact(occasion, EntryKind::Rejected { reason: reason.clone() });
    }
    accepted
}

/// Returns whether a missing verdict of a plugin prevents the creation of a container.
///
/// A plugin that only subscribes to validation, and that the operator neither names as a validator
/// nor requires, prevents the create that it does not answer, and creates while it is silent. Once
/// it is closed or suspended, it cannot block the node by its own subscription alone. The same
/// holds for the request that probes a suspended plugin.
fn is_needed(Effective { policy, origins }: &Effective, is_suspended: bool, cause: &Cause) -> bool {
    if policy.validator || policy.required {
        return true;
    }
    let operator_says_fail = || {
        policy.on_timeout == OnTimeout::Fail
            && matches!(origins.on_timeout, Origin::Id | Origin::Name | Origin::Defaults)
    };
    match cause {
        Cause::PassedOver(State::Closed) | Cause::Plugin(PluginError::Left(_)) | Cause::Absent => false,
        Cause::PassedOver(State::Suspended) | Cause::CatchingUp | Cause::Behind => operator_says_fail(),
        Cause::TimedOut
        | Cause::CutShort
        | Cause::Busy
        | Cause::Plugin(PluginError::Gone(_) | PluginError::Breach(_))
            if is_suspended =>
        {
            operator_says_fail()
        }
        Cause::PassedOver(State::Active | State::Silent)
        | Cause::TimedOut
        | Cause::CutShort
        | Cause::Busy
        | Cause::Plugin(_)
        | Cause::NotAllowed(_)
        | Cause::CallerDeadline => true,
    }
}

/// Returns whether the cause is that the validator gave no answer.
fn is_silence(cause: &Cause) -> bool {
    match cause {
        Cause::TimedOut
        | Cause::CutShort
        | Cause::PassedOver(_)
        | Cause::CatchingUp
        | Cause::Busy
        | Cause::Behind
        | Cause::Absent => true,
        Cause::Plugin(PluginError::Left(_) | PluginError::Gone(_) | PluginError::NotTaken) => true,
        Cause::Plugin(PluginError::Refused { .. } | PluginError::Breach(_) | PluginError::TooLarge { .. })
        | Cause::NotAllowed(_)
        | Cause::CallerDeadline => false,
    }
}

/// Returns whether the cause is that the plugin had left before it was asked.
fn is_absence(cause: &Cause) -> bool {
    match cause {
        Cause::PassedOver(State::Closed) | Cause::Absent | Cause::Plugin(PluginError::Left(_)) => true,
        Cause::PassedOver(State::Active | State::Silent | State::Suspended)
        | Cause::TimedOut
        | Cause::CutShort
        | Cause::CatchingUp
        | Cause::Busy
        | Cause::Behind
        | Cause::Plugin(_)
        | Cause::NotAllowed(_)
        | Cause::CallerDeadline => false,
    }
}

/// Returns whether the operator names the plugin as a validator or requires it.
fn is_listed(entry: &Participant) -> bool {
    let policy = entry.terms.policy();
    policy.validator || policy.required
}

/// Reports in the log, the metrics and the ledger that a closed plugin could have validated: from
/// now on, containers are created without its verdict. Reports nothing if the operator names the
/// plugin as a validator or requires it.
pub(crate) fn lost(entry: &PluginSession) {
    let terms = entry.terms();
    let policy = terms.policy();
    let is_listed = policy.validator || policy.required;
    let could_validate = policy.mode == Mode::Enforce && terms.events.contains(EVENT);
    if is_listed || !could_validate || entry.services.check_running().is_err() {
        return;
    }
    let (plugin, reason) = (&entry.id, entry.reason());
    warn!(%plugin, reason, "validating plugin was closed; containers are created without its verdict from now on");
    entry.services.watchers.metrics().unvalidated(plugin);
    let occasion = Occasion { event: Some(EVENT), ..recorder::unasked(plugin, policy.mode) };
    let reason = format!("it was closed, and containers are created without its verdict: {reason}");
    entry.services.records.ledger().record(&occasion, EntryKind::Failed { reason });
}

fn failed(entry: &PluginSession, cause: Cause) -> RelayError {
    RelayError::Validator { plugin: entry.id.clone(), cause }
}

fn accepted(validator: &str, verdict: &Verdict) -> Result<(), RelayError> {
    let Some(reason) = verdict.rejection() else { return Ok(()) };
    let reason = if reason.is_empty() { NO_REASON } else { reason };
    Err(RelayError::Rejected { validator: validator.to_owned(), reason: reason.to_owned() })
}
