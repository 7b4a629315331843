//! The session of a plugin that was let in: how it is asked, and what it hears when it could not be
//! asked.
//!
//! - `policy.rs` is what the operator and the plugin say about it, `roster.rs` the plugins in
//!   order, `services.rs` what all sessions share.
//! - `permit.rs` and `lane.rs` decide when the plugin may be asked; `call.rs` is a request in
//!   flight, `outcome.rs` what its answer means for the plugin, `patience.rs` how long a request
//!   waits for silent plugins.
//! - `journal.rs` is the list of missed requests, `missed.rs` fills it, `delivery.rs` tells the
//!   plugin what is in it, `backlog.rs` checks that it becomes shorter.
//! - `late.rs` and `unsolicited.rs` apply what a plugin wants outside a request, `visibility.rs`
//!   takes out what it may not see.
//! - `open_operation.rs` and `progress.rs` are what a session needs to know of an operation and of
//!   a request.
//! - `phase.rs` reports the beginning and the end of a session; `faults.rs` has the mistakes that
//!   tests inject.

pub(crate) mod call;
pub(crate) mod faults;
pub(crate) mod journal;
pub(crate) mod late;
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

/// A plugin that was let in.
pub(crate) struct PluginSession {
    pub(crate) id: PluginId,
    /// The identity of the plugin as the runtime itself knows it.
    pub(crate) identity: Identity,
    /// What it subscribed to, and what it says about itself.
    wanted: EventMask,
    declared: Declared,
    /// What that comes to, as the operator has it now.
    terms: Mutex<Arc<PluginPolicy>>,
    pub(crate) plugin: Arc<dyn Plugin>,
    lanes: Lanes,
    /// The right to have the runtime apply a late answer: those of one plugin are applied in order.
    applying: Semaphore,
    standing: Mutex<Standing>,
    /// Rung when whoever waits to ask it should look again.
    changed: Notify,
    /// Ends what still waits for an answer.
    pub(crate) closed: CancellationToken,
    reason: OnceLock<String>,
    pub(crate) services: Arc<Services>,
}

/// The health of a plugin and its journal, under one lock, so that no request overtakes one that
/// the plugin missed.
struct Standing {
    health: Health,
    journal: Journal,
    /// The requests of its journal that the plugin is being told.
    deliveries: Deliveries,
    stage: SessionStage,
    /// Nothing is kept for it: more happened than there is room for, or it is gone.
    deaf: bool,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionStage {
    /// Nobody asks it yet.
    Joining,
    /// Requests ask it, and whoever watches is told how it is doing.
    Joined,
    /// Only operations ask it that it takes part in. For whoever watches it is closed.
    Dismissed,
}

/// The operation that a request belongs to, if any, and how.
#[derive(Clone, Copy)]
pub(crate) enum RequestScope<'a> {
    /// It stands for itself.
    Alone,
    /// It is made in an operation, where it is noted that the plugin at this place has seen it.
    Of { operation: &'a Arc<dyn OpenOperation>, progress: &'a RelayProgress, place: usize },
    /// It undoes what was begun in an operation.
    Undoes(&'a dyn OpenOperation),
}

impl<'a> RequestScope<'a> {
    /// The operation that it is made in.
    fn operation(self) -> Option<&'a Arc<dyn OpenOperation>> {
        match self {
            Self::Of { operation, .. } => Some(operation),
            Self::Alone | Self::Undoes(_) => None,
        }
    }

    /// Whether it is of no use: it undoes what the plugin has not taken.
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

    /// The terms that hold now.
    pub(crate) fn terms(&self) -> Arc<PluginPolicy> {
        Arc::clone(&self.terms.lock())
    }

    /// From now on it is asked on the terms that the operator has for it. Says whether that are
    /// others.
    pub(crate) fn adopt(&self, policies: &Policies) -> bool {
        let terms = PluginPolicy::of(policies, &self.id, self.wanted, self.declared);
        let is_changed = terms != *self.terms();
        if is_changed {
            self.standing().health.follow(terms.rules());
            *self.terms.lock() = Arc::new(terms);
        }
        is_changed
    }

    /// The policy that holds for it, for whoever watches.
    pub(crate) fn policy(&self) -> Happening {
        let (plugin, terms) = (self.id.clone(), self.terms());
        Happening::Policy { plugin, events: terms.events, policy: terms.effective.to_string() }
    }

    /// Whether it wants to be asked about an event, let or not.
    pub(crate) fn subscribes(&self, event: Event) -> bool {
        self.wanted.contains(event)
    }

    /// Whether it is asked about an event of a pod in this namespace.
    pub(crate) fn is_asked(&self, event: Event, namespace: &str) -> bool {
        self.terms().is_asked(event, namespace)
    }

    /// Returns the context of a record about a request that the plugin was asked under this policy.
    pub(crate) fn occasion(&self, terms: &PluginPolicy, request: &Request, took: Option<Duration>) -> Occasion {
        let shadow = terms.policy().mode == Mode::Shadow;
        let id = self.id.clone().into();
        Occasion { took, shadow, ..recorder::occasion_of(id, request.event(), request.pod(), request.container()) }
    }

    /// How it is doing.
    pub(crate) fn state(&self) -> State {
        self.standing().health.state()
    }

    /// Asks it on these terms, waits for at most its request timeout and no longer than is allowed,
    /// and judges it. A plugin that is cut short is judged later, when its own time is over.
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
        let (lane, is_trial) = self.enter(request, part, terms.policy(), cut).await?;
        let begun = Instant::now();
        self.services.watchers.metrics().queued(&self.id, request.event(), begun - queued);
        if let RequestScope::Of { progress, place, .. } = part {
            progress.record_seen(place);
        }
        let operation = part.operation().cloned();
        let mut asked =
            CallInFlight::begin(Arc::clone(self), Arc::clone(terms), Arc::clone(request), operation, lane, is_trial);
        let cut = cut.filter(|cut| *cut < asked.deadline());
        match timeout_at(cut.unwrap_or_else(|| asked.deadline()), asked.answer()).await {
            Ok(answer) => {
                // Judged while the lane is held: what it missed comes before the next request.
                let outcome = self.judge_asked(request, part.operation(), begun, is_trial, answer);
                asked.finish();
                outcome
            }
            // Dropped, it is judged when its own time is over.
            Err(_elapsed) if cut.is_some() => Err(Cause::CutShort),
            Err(_elapsed) => {
                self.timed_out(request, begun, is_trial);
                asked.linger();
                Err(Cause::TimedOut)
            }
        }
    }

    /// Waits until earlier late answers of the plugin were applied. `None` if the adaptation stops.
    pub(crate) async fn turn_to_apply(&self) -> Option<SemaphorePermit<'_>> {
        self.services.stopping.run_until_cancelled(self.applying.acquire()).await?.ok()
    }

    /// All of its lanes: nobody else asks it meanwhile.
    pub(crate) async fn all_lanes(&self) -> Lane {
        self.lanes.all().await
    }

    /// Closes it, unless it is closed already. The first reason counts.
    pub(crate) fn close(self: &Arc<Self>, reason: &str) {
        self.update(|standing| ((), standing.health.close()), reason);
    }

    /// Why it was closed.
    pub(crate) fn reason(&self) -> &str {
        self.reason.get().map_or("", String::as_str)
    }

    /// Changes how it stands, and does what follows from that.
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

    /// Whoever watches will be told, unless the plugin is to them not there yet, or not any more.
    /// That it is closed is told when it is removed.
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
        // Another reason may have been first.
        let _ = self.reason.set(reason.to_owned());
        self.stops_listening();
        self.plugin.close();
        self.closed.cancel();
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock()
    }
}
