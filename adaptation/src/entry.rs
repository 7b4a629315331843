//! A plugin that was let in, and how it is asked.

mod missing;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nri_proto::{Event, EventMask, PluginId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};
use ttrpc::Code;

use crate::act::Act;
use crate::asked::{Answer, Asked, tell_missed};
use crate::budget;
use crate::cause::Cause;
use crate::chain::{Asking, gates};
use crate::events::Happening;
use crate::health::{Effect, Gate, Health, Rules, State};
use crate::journal::{End, Journal};
use crate::plugin::{Plugin, PluginError, Reply};
use crate::policy::{Concurrency, Policy};
use crate::request::Request;
use crate::shared::Shared;
use crate::turns::{Turn, Turns};

/// How many pods a plugin is asked about at a time, if it may be asked about several.
const PODS_AT_A_TIME: u32 = 64;

/// A plugin that was let in.
pub(crate) struct Entry {
    pub(crate) id: PluginId,
    pub(crate) events: EventMask,
    pub(crate) policy: Policy,
    pub(crate) plugin: Arc<dyn Plugin>,
    lanes: Arc<Semaphore>,
    /// The pods that it is being asked about, if it may be asked about several at a time.
    pods: Turns,
    standing: Mutex<Standing>,
    /// Rung when whoever waits to ask it should look again.
    changed: Notify,
    /// Ends what still waits for an answer.
    pub(crate) closed: CancellationToken,
    reason: OnceLock<String>,
    pub(crate) shared: Arc<Shared>,
}

/// The right to ask a plugin now. A late answer keeps it, so that the plugin never has two
/// requests at a time (about a pod, if it allows several pods). An update that the plugin starts
/// takes none, so it may call back while it is asked.
pub(crate) struct Lane {
    _permit: OwnedSemaphorePermit,
    _pod: Option<Turn>,
}

/// How it is doing, and what it is owed. One lock, so that what was missed is never overtaken.
struct Standing {
    health: Health,
    journal: Journal,
    /// Someone tells it what is in its journal. Until that is done nobody asks it anything else.
    telling: bool,
    /// It has joined: requests ask it.
    joined: bool,
    /// Nothing is kept for it: more happened than there is room for, or it is gone.
    deaf: bool,
}

/// Whether a request may ask a plugin.
enum Pass {
    Ask {
        is_trial: bool,
    },
    Wait,
    /// What was asked about the pod before has to be told first.
    Behind,
    Over(State),
}

/// What a request is a part of.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The operation that it is made in.
    pub(crate) act: Option<&'a Arc<Act>>,
    /// Where it is noted that the plugin at this place has seen it.
    pub(crate) asking: Option<(&'a Asking, usize)>,
}

impl Part<'_> {
    /// It stands for itself.
    pub(crate) fn alone() -> Self {
        Self { act: None, asking: None }
    }
}

impl Entry {
    pub(crate) fn new(
        id: PluginId,
        events: EventMask,
        policy: Policy,
        plugin: Arc<dyn Plugin>,
        shared: Arc<Shared>,
    ) -> Arc<Self> {
        let rules = Rules {
            strikes: policy.strikes.get(),
            keep_connected: policy.keep_connected,
            interval: policy.request_timeout,
        };
        let journal = Journal::new(budget::JOURNAL);
        let health = Health::new(rules);
        let standing = Standing { health, journal, telling: true, joined: false, deaf: true };
        let lanes = Arc::new(Semaphore::new(n_lanes(policy.concurrency) as usize));
        Arc::new(Self {
            id,
            events,
            policy,
            plugin,
            lanes,
            pods: Turns::default(),
            standing: Mutex::new(standing),
            changed: Notify::new(),
            closed: CancellationToken::new(),
            reason: OnceLock::new(),
            shared,
        })
    }

    /// Whether it is asked about an event of a pod in this namespace.
    pub(crate) fn is_asked(&self, event: Event, namespace: &str) -> bool {
        self.events.contains(event) && self.policy.namespaces.contains(namespace)
    }

    /// How it is doing.
    pub(crate) fn state(&self) -> State {
        self.standing().health.state()
    }

    /// Asks it, waits for at most its request timeout, and judges it.
    ///
    /// The future may be dropped at any time: the plugin keeps its lane until it has answered.
    pub(crate) async fn ask(self: &Arc<Self>, request: &Arc<Request>, part: Part<'_>) -> Result<Reply, Cause> {
        let span = info_span!("plugin", plugin = %self.id);
        self.ask_in_turn(request, part).instrument(span).await
    }

    async fn ask_in_turn(self: &Arc<Self>, request: &Arc<Request>, part: Part<'_>) -> Result<Reply, Cause> {
        let queued = Instant::now();
        let (lane, is_trial) = self.enter(request, part.act).await?;
        let begun = Instant::now();
        self.shared.watchers.metrics().queued(&self.id, request.event(), begun - queued);
        if let Some((asking, place)) = part.asking {
            asking.sees(place);
        }
        let act = part.act.cloned();
        let mut asked = Asked::begin(Arc::clone(self), Arc::clone(request), act, lane, is_trial);
        match timeout_at(asked.deadline(), asked.answer()).await {
            Ok(answer) => {
                // Judged while the lane is held: what it missed comes before the next request.
                let outcome = self.judge_asked(request, part.act, begun, is_trial, answer);
                asked.finish();
                outcome
            }
            Err(_elapsed) => {
                self.timed_out(request, begun, is_trial);
                asked.linger();
                Err(Cause::TimedOut)
            }
        }
    }

    /// Waits for the lane. Whoever may not ask now, or any more, is told at once.
    async fn enter(self: &Arc<Self>, request: &Arc<Request>, act: Option<&Arc<Act>>) -> Result<(Lane, bool), Cause> {
        let begun = Instant::now();
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let mut limit = begun + self.policy.lane_timeout;
            let mut busy = Cause::Busy;
            let is_trial = match self.pass(request, act) {
                Pass::Ask { is_trial } => Some(is_trial),
                Pass::Wait => None,
                Pass::Behind if self.is_waited_for(request) => {
                    (limit, busy) = (begun + self.policy.join_timeout, Cause::Behind);
                    None
                }
                Pass::Behind => {
                    self.keep(request, act, End::Back);
                    return Err(Cause::Behind);
                }
                Pass::Over(state) => return Err(Cause::PassedOver(state)),
            };
            let trial = Trial { entry: self, is_trial: is_trial == Some(true) };
            tokio::select! {
                biased;
                () = &mut changed => {}
                lane = self.lane(request), if is_trial.is_some() => {
                    // It may have become silent while this one waited.
                    if trial.is_trial || self.may_ask() {
                        return Ok((lane, trial.begins()));
                    }
                }
                () = tokio::time::sleep_until(limit) => {
                    drop(trial);
                    self.keep(request, act, End::Back);
                    return Err(busy);
                }
            }
        }
    }

    /// Whether a request waits until it has heard what was before.
    fn is_waited_for(&self, request: &Request) -> bool {
        self.policy.required && gates(request.event()) && self.standing().joined
    }

    async fn lane(&self, request: &Request) -> Lane {
        let pod = match self.policy.concurrency {
            Concurrency::Serial => None,
            Concurrency::PerPod => Some(self.pods.take(request.pod().id.as_str().into()).await),
        };
        let permit = Arc::clone(&self.lanes).acquire_owned().await.expect(NEVER_CLOSED);
        Lane { _permit: permit, _pod: pod }
    }

    /// All of its lanes: nobody else asks it meanwhile.
    pub(crate) async fn all_lanes(&self) -> Lane {
        let lanes = n_lanes(self.policy.concurrency);
        let permit = Arc::clone(&self.lanes).acquire_many_owned(lanes).await.expect(NEVER_CLOSED);
        Lane { _permit: permit, _pod: None }
    }

    /// Whether it may be asked. If it is passed over, what it must not miss is kept for it.
    fn pass(self: &Arc<Self>, request: &Arc<Request>, act: Option<&Arc<Act>>) -> Pass {
        let (pass, caught_up) = {
            let mut standing = self.standing();
            let caught_up = self.catch_up(&mut standing);
            (self.gate(&mut standing, request), caught_up)
        };
        self.apply(caught_up, "");
        if let Pass::Over(State::Silent | State::Suspended) = pass {
            self.keep(request, act, End::Back);
        }
        pass
    }

    fn gate(self: &Arc<Self>, standing: &mut Standing, request: &Request) -> Pass {
        let now = Instant::now();
        let is_held = !standing.journal.is_empty() && standing.journal.holds(&request.pod().id);
        match standing.health.state() {
            State::Active if is_held || !standing.joined => Pass::Behind,
            State::Active if standing.telling => Pass::Wait,
            // The trial of a plugin that missed something begins with that.
            State::Suspended if is_held && !standing.journal.has_ready() => Pass::Over(State::Suspended),
            State::Suspended if standing.journal.has_ready() => {
                if !standing.telling && standing.health.gate(now) == Gate::Ask {
                    standing.telling = true;
                    self.spawn_telling(true);
                }
                Pass::Over(State::Suspended)
            }
            state @ (State::Active | State::Silent | State::Suspended | State::Closed) => {
                match standing.health.gate(now) {
                    Gate::Ask => Pass::Ask { is_trial: state == State::Suspended },
                    Gate::Pass(state) => Pass::Over(state),
                }
            }
        }
    }

    fn may_ask(&self) -> bool {
        let standing = self.standing();
        standing.health.state() == State::Active && !standing.telling
    }

    /// Judges an answer. What the plugin has not even taken is kept for it.
    pub(crate) fn judge_asked(
        self: &Arc<Self>,
        request: &Arc<Request>,
        act: Option<&Arc<Act>>,
        begun: Instant,
        is_trial: bool,
        answer: Answer,
    ) -> Result<Reply, Cause> {
        let not_taken = matches!(answer, Err(PluginError::NotTaken));
        let outcome = self.judge(request, begun, is_trial, answer);
        if not_taken {
            self.keep(request, act, End::Front);
        }
        outcome
    }

    /// What an answer in time means for the plugin and for the request.
    pub(crate) fn judge(
        self: &Arc<Self>,
        request: &Arc<Request>,
        begun: Instant,
        is_trial: bool,
        answer: Answer,
    ) -> Result<Reply, Cause> {
        let reason = answer.as_ref().err().map_or_else(String::new, ToString::to_string);
        let outcome = self.update(
            |standing| match answer {
                Ok(reply) => (Ok(reply), standing.health.answered(is_trial)),
                // Its own deadline and ours are the same: which of us notices first is chance.
                Err(PluginError::Refused { code: Code::DEADLINE_EXCEEDED, .. } | PluginError::NotTaken) => {
                    (Err(Cause::TimedOut), standing.health.gave_up(Instant::now(), is_trial))
                }
                Err(error @ (PluginError::Refused { .. } | PluginError::TooLarge { .. })) => {
                    (Err(error.into()), standing.health.answered(is_trial))
                }
                Err(PluginError::Left(_)) => (Err(Cause::PassedOver(State::Closed)), standing.health.close()),
                Err(error @ (PluginError::Gone(_) | PluginError::Breach(_))) => {
                    (Err(error.into()), standing.health.close())
                }
            },
            &reason,
        );
        self.shared.watchers.asked(&self.id, request, begun.elapsed(), outcome.as_ref().err());
        outcome
    }

    /// An answer is late, and owed from now on.
    pub(crate) fn timed_out(self: &Arc<Self>, request: &Arc<Request>, begun: Instant, is_trial: bool) {
        let now = Instant::now();
        self.update(|standing| ((), standing.health.timed_out(now, is_trial)), "it did not answer in time");
        self.shared.watchers.asked(&self.id, request, begun.elapsed(), Some(&Cause::TimedOut));
    }

    /// Another interval of silence.
    pub(crate) fn still_silent(self: &Arc<Self>) {
        let now = Instant::now();
        self.update(|standing| ((), standing.health.still_silent(now)), "it was silent for too long");
    }

    /// An answer that was owed has come.
    pub(crate) fn settled(self: &Arc<Self>) {
        self.update(
            |standing| {
                standing.health.settled();
                ((), Effect::None)
            },
            "",
        );
    }

    /// Closes it, unless it is closed already. The first reason counts.
    pub(crate) fn close(self: &Arc<Self>, reason: &str) {
        self.update(|standing| ((), standing.health.close()), reason);
    }

    /// Why it was closed.
    pub(crate) fn reason(&self) -> &str {
        self.reason.get().map_or("", String::as_str)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.policy.request_timeout
    }

    /// Changes how it stands, and does what follows from that.
    fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut Standing) -> (T, Effect), reason: &str) -> T {
        let (value, effect, caught_up, is_strike) = {
            let mut standing = self.standing();
            let struck = standing.health.struck();
            let (value, effect) = change(&mut standing);
            let is_strike = standing.health.struck() != struck;
            (value, effect, self.catch_up(&mut standing), is_strike)
        };
        if is_strike {
            self.shared.watchers.strike(&self.id);
        }
        self.apply(effect, reason);
        self.apply(caught_up, "");
        value
    }

    /// A plugin that owes nothing is told what it missed, and is active again when it missed nothing.
    fn catch_up(self: &Arc<Self>, standing: &mut Standing) -> Effect {
        if standing.telling || !standing.health.owes_nothing() {
            return Effect::None;
        }
        if !standing.journal.has_ready() {
            return standing.health.caught_up();
        }
        standing.telling = true;
        self.spawn_telling(false);
        Effect::None
    }

    fn spawn_telling(self: &Arc<Self>, is_trial: bool) {
        self.shared.spawn(tell_missed(Arc::clone(self), is_trial));
    }

    fn apply(&self, effect: Effect, reason: &str) {
        let watchers = &self.shared.watchers;
        match effect {
            Effect::None => return,
            Effect::Strike => {}
            Effect::Became(State::Closed) => self.cut_off(reason),
            Effect::Became(state) => watchers.tell(Happening::State { plugin: self.id.clone(), state }),
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
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that may turn out not to be a suspended plugin's trial after all.
struct Trial<'a> {
    entry: &'a Entry,
    is_trial: bool,
}

impl Trial<'_> {
    /// It is asked now: its answer ends the trial.
    fn begins(mut self) -> bool {
        std::mem::take(&mut self.is_trial)
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.entry.standing().health.not_asked();
        }
    }
}

const NEVER_CLOSED: &str = "the lanes of a plugin are never closed";

fn n_lanes(concurrency: Concurrency) -> u32 {
    match concurrency {
        Concurrency::Serial => 1,
        Concurrency::PerPod => PODS_AT_A_TIME,
    }
}
