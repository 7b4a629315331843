//! The session of an admitted plugin: how requests reach the plugin, and how the plugin receives
//! requests that it missed.
//!
//! - `policy.rs` is the policy of one plugin, `roster.rs` the list of plugins in order,
//!   `services.rs` the services that all sessions share.
//! - `permit.rs` and `lane.rs` decide when a request may ask the plugin. `call.rs` is a call in
//!   flight, `outcome.rs` the effect of its result on the plugin, `patience.rs` the time that a
//!   request may wait for silent plugins.
//! - `journal.rs` is the list of missed requests. `missed.rs` fills the list, `delivery.rs`
//!   delivers its requests to the plugin, and `backlog.rs` checks that it becomes shorter.
//! - `late.rs` and `unsolicited.rs` apply changes that a plugin asks for outside a request.
//!   `visibility.rs` takes out changes of containers that the plugin may not see.
//! - `open_operation.rs` and `progress.rs` are the parts of an operation and of a request that a
//!   session uses.
//! - `phase.rs` reports the beginning and the end of a session. `log_throttle.rs` limits the rate
//!   of log messages.

pub(crate) mod call;
pub(crate) mod journal;
pub(crate) mod late;
pub(crate) mod log_throttle;
pub(crate) mod open_operation;
pub(crate) mod patience;
pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod roster;
pub(crate) mod services;
pub(crate) mod unsolicited;
pub(crate) mod visibility;

mod backlog;
mod delivery;
mod lane;
mod missed;
mod outcome;
mod permit;
mod phase;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nri_proto::{Event, EventMask, PluginId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use self::delivery::Deliveries;
pub(crate) use self::lane::Lane;
use self::lane::Lanes;
pub(crate) use self::phase::REPLACED;
use crate::api::error::Cause;
use crate::api::health::{Effect, Health, State};
use crate::api::plugin::{Plugin, Reply};
use crate::api::request::Request;
use crate::config::policy::{Declared, Identity, Mode, Policies};
use crate::events::Happening;
use crate::ledger::Occasion;
use crate::limits;
use crate::reply::recorder;
use crate::session::call::CallInFlight;
use crate::session::journal::Journal;
use crate::session::open_operation::OpenOperation;
use crate::session::patience::Allowance;
use crate::session::policy::PluginPolicy;
use crate::session::progress::RelayProgress;
use crate::session::services::Services;

/// The session of an admitted plugin.
pub(crate) struct PluginSession {
    pub(crate) id: PluginId,
    /// The identity of the plugin as the runtime itself knows it.
    pub(crate) identity: Identity,
    /// The events that the plugin subscribed to.
    wanted: EventMask,
    declared: Declared,
    /// The effective policy under the current configuration.
    terms: Mutex<Arc<PluginPolicy>>,
    pub(crate) plugin: Arc<dyn Plugin>,
    lanes: Lanes,
    /// A permit to have the runtime apply a late answer: the late answers of one plugin are applied
    /// in order.
    applying: Semaphore,
    standing: Mutex<Standing>,
    /// Notified when the state or the backlog of the plugin changes, so that waiting requests check
    /// again.
    changed: Notify,
    /// Cancelled when the plugin is closed: calls then stop waiting for an answer.
    pub(crate) closed: CancellationToken,
    reason: OnceLock<String>,
    pub(crate) services: Arc<Services>,
}

/// The health of a plugin and its journal, under one lock, so that no request overtakes an earlier
/// request that the plugin missed.
struct Standing {
    health: Health,
    journal: Journal,
    /// The requests of the journal that are being delivered.
    deliveries: Deliveries,
    stage: SessionStage,
    /// Whether nothing is added to the journal: the plugin has not begun to join, is closed, or
    /// missed more than the journal may hold.
    deaf: bool,
}

/// The stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionStage {
    /// Requests do not ask the plugin yet.
    Joining,
    /// Requests ask the plugin, and changes of its state are reported to observers.
    Joined,
    /// Only operations in which the plugin already takes part ask it. Observers were told that the
    /// plugin is closed.
    Dismissed,
}

/// The operation that a request belongs to, if any, and the role of the request in it.
#[derive(Clone, Copy)]
pub(crate) enum RequestScope<'a> {
    /// The request belongs to no operation.
    Alone,
    /// The request is made in an operation. `progress` records that the plugin at this place of the
    /// roster has seen the request.
    Of { operation: &'a Arc<dyn OpenOperation>, progress: &'a RelayProgress, place: usize },
    /// The request rolls back what an operation began.
    Undoes(&'a dyn OpenOperation),
}

impl<'a> RequestScope<'a> {
    /// Returns the operation that the request is made in.
    fn operation(self) -> Option<&'a Arc<dyn OpenOperation>> {
        match self {
            Self::Of { operation, .. } => Some(operation),
            Self::Alone | Self::Undoes(_) => None,
        }
    }

    /// Returns whether the request is pointless: it rolls back something that the plugin has not
    /// seen begin.
    fn is_moot(self, entry: &Arc<PluginSession>) -> bool {
        matches!(self, Self::Undoes(operation) if operation.is_unseen_by(entry))
    }
}

impl PluginSession {
    pub(crate) fn new(
        id: PluginId,
        identity: Identity,
        wanted: EventMask,
        declared: Declared,
        plugin: Arc<dyn Plugin>,
        services: Arc<Services>,
    ) -> Arc<Self> {
        let terms = PluginPolicy::of(&services.snapshot().policies, &id, wanted, declared);
        let journal = Journal::new(limits::JOURNAL);
        let health = Health::new(terms.rules());
        let deliveries = Deliveries::held_back();
        let standing = Standing { health, journal, deliveries, stage: SessionStage::Joining, deaf: true };
        Arc::new(Self {
            id,
            identity,
            wanted,
            declared,
            terms: Mutex::new(Arc::new(terms)),
            plugin,
            lanes: Lanes::new(),
            applying: Semaphore::new(1),
            standing: Mutex::new(standing),
            changed: Notify::new(),
            closed: CancellationToken::new(),
            reason: OnceLock::new(),
            services,
        })
    }

    /// Returns the policy that is in effect now.
    pub(crate) fn terms(&self) -> Arc<PluginPolicy> {
        Arc::clone(&self.terms.lock())
    }

    /// Applies the operator's policies to the plugin from now on. Returns whether the plugin's
    /// policy changed.
    pub(crate) fn adopt(&self, policies: &Policies) -> bool {
        let terms = PluginPolicy::of(policies, &self.id, self.wanted, self.declared);
        let is_changed = terms != *self.terms();
        if is_changed {
            self.standing().health.follow(terms.rules());
            *self.terms.lock() = Arc::new(terms);
        }
        is_changed
    }

    /// Returns the plugin's current policy, as it is reported to observers.
    pub(crate) fn policy(&self) -> Happening {
        let (plugin, terms) = (self.id.clone(), self.terms());
        Happening::Policy { plugin, events: terms.events, policy: terms.effective.to_string() }
    }

    /// Returns whether the plugin subscribed to an event, also if its policy does not allow the
    /// event.
    pub(crate) fn subscribes(&self, event: Event) -> bool {
        self.wanted.contains(event)
    }

    /// Returns whether the plugin is asked about an event of a pod in this Kubernetes namespace.
    pub(crate) fn is_asked(&self, event: Event, namespace: &str) -> bool {
        self.terms().is_asked(event, namespace)
    }

    /// Returns the context of a record about a request that the plugin was asked under this policy.
    pub(crate) fn occasion(&self, terms: &PluginPolicy, request: &Request, took: Option<Duration>) -> Occasion {
        let shadow = terms.policy().mode == Mode::Shadow;
        let id = self.id.clone().into();
        Occasion { took, shadow, ..recorder::occasion_of(id, request.event(), request.pod(), request.container()) }
    }

    /// Returns the state of the plugin's health.
    pub(crate) fn state(&self) -> State {
        self.standing().health.state()
    }

    /// Asks the plugin under this policy, and judges the plugin by the result. Waits for at most
    /// the plugin's request timeout, and for no longer than `allowance`. A call that is cut short
    /// by `allowance` is judged later, when the request timeout of the plugin is over.
    ///
    /// The future may be dropped at any time: the plugin keeps its lane until it has answered.
    pub(crate) async fn ask_on(
        self: &Arc<Self>,
        terms: &Arc<PluginPolicy>,
        request: &Arc<Request>,
        part: RequestScope<'_>,
        allowance: Allowance,
    ) -> Result<Reply, Cause> {
        let span = info_span!("plugin", plugin = %self.id);
        self.ask_in_turn(terms, request, part, allowance).instrument(span).await
    }

    async fn ask_in_turn(
        self: &Arc<Self>,
        terms: &Arc<PluginPolicy>,
        request: &Arc<Request>,
        part: RequestScope<'_>,
        allowance: Allowance,
    ) -> Result<Reply, Cause> {
        let queued = Instant::now();
        let cut = allowance.ends(queued);
        let (lane, is_probe) = self.enter(request, part, terms.policy(), cut).await?;
        let begun = Instant::now();
        self.services.watchers.metrics().queued(&self.id, request.event(), begun - queued);
        if let RequestScope::Of { progress, place, .. } = part {
            progress.record_seen(place);
        }
        let operation = part.operation().cloned();
        let mut asked =
            CallInFlight::begin(Arc::clone(self), Arc::clone(terms), Arc::clone(request), operation, lane, is_probe);
        let cut = cut.filter(|cut| *cut < asked.deadline());
        match timeout_at(cut.unwrap_or_else(|| asked.deadline()), asked.answer()).await {
            Ok(answer) => {
                // Judged while the lane is held: a request that the plugin did not take is kept
                // before the next request asks the plugin.
                let outcome = self.judge_asked(request, part.operation(), begun, is_probe, answer);
                asked.finish();
                outcome
            }
            // The call is dropped here, and judged when the plugin's own request timeout is over.
            Err(_elapsed) if cut.is_some() => Err(Cause::CutShort),
            Err(_elapsed) => {
                self.timed_out(request, begun, is_probe);
                asked.linger();
                Err(Cause::TimedOut)
            }
        }
    }

    /// Waits until earlier late answers of the plugin were applied. Returns `None` if the
    /// adaptation stops.
    pub(crate) async fn turn_to_apply(&self) -> Option<SemaphorePermit<'_>> {
        self.services.stopping.run_until_cancelled(self.applying.acquire()).await?.ok()
    }

    /// Waits for all lanes of the plugin. While they are held, no request asks the plugin.
    pub(crate) async fn all_lanes(&self) -> Lane {
        self.lanes.all().await
    }

    /// Closes the plugin, unless the plugin is closed already. The first reason counts.
    pub(crate) fn close(self: &Arc<Self>, reason: &str) {
        self.update(|standing| ((), standing.health.close()), reason);
    }

    /// Returns the reason for which the plugin was closed. Empty if the plugin is not closed.
    pub(crate) fn reason(&self) -> &str {
        self.reason.get().map_or("", String::as_str)
    }

    /// Changes the standing of the plugin, and applies the effects: reports the new state, delivers
    /// requests of the journal, and closes the plugin if its state became closed.
    fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut Standing) -> (T, Effect), reason: &str) -> T {
        let (value, effect, caught_up, is_strike) = {
            let mut standing = self.standing();
            let struck = standing.health.struck();
            let (value, effect) = change(&mut standing);
            let is_strike = standing.health.struck() != struck;
            self.note_state(&standing, effect);
            (value, effect, self.catch_up(&mut standing), is_strike)
        };
        if is_strike {
            self.services.watchers.strike(&self.id);
        }
        self.apply(effect, reason);
        self.apply(caught_up, "");
        value
    }

    /// Queues a new state for observers if the plugin has joined and was not dismissed.
    /// [`State::Closed`] is not queued here: it is reported when the plugin is removed.
    fn note_state(&self, standing: &Standing, effect: Effect) {
        if let (Effect::Became(state), SessionStage::Joined) = (effect, standing.stage)
            && state != State::Closed
        {
            self.services.watchers.note(Happening::State { plugin: self.id.clone(), state });
        }
    }

    fn apply(&self, effect: Effect, reason: &str) {
        match effect {
            Effect::None => return,
            Effect::Strike => {}
            Effect::Became(State::Closed) => self.cut_off(reason),
            Effect::Became(_) => self.services.watchers.flush(),
        }
        self.changed.notify_waiters();
    }

    fn cut_off(&self, reason: &str) {
        // Does nothing if the plugin already has a reason.
        let _ = self.reason.set(reason.to_owned());
        self.stops_listening();
        self.plugin.close();
        self.closed.cancel();
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock()
    }
}
