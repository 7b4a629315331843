//! A plugin that was let in, and how it is asked.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nri_proto::{EventMask, PluginId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use ttrpc::Code;

use crate::asked::{Answer, Asked};
use crate::cause::Cause;
use crate::events::Happening;
use crate::health::{Effect, Gate, Health, Rules, State};
use crate::missed::Missed;
use crate::plugin::{Plugin, PluginError, Reply};
use crate::policy::{Concurrency, Policy};
use crate::request::Request;
use crate::shared::Shared;

/// How many pods a plugin is asked about at a time, if it may be asked about several.
const PODS_AT_A_TIME: u32 = 64;

/// A plugin that was let in.
pub(crate) struct Entry {
    pub(crate) id: PluginId,
    pub(crate) events: EventMask,
    pub(crate) policy: Policy,
    pub(crate) plugin: Arc<dyn Plugin>,
    /// The right to ask it now. A late answer keeps it, so that the plugin never has two requests;
    /// an update that the plugin starts takes none, so it may call back while it is asked.
    lane: Arc<Semaphore>,
    standing: Mutex<Standing>,
    /// Rung when whoever waits for the lane need not wait any longer.
    unavailable: Notify,
    /// Ends what still waits for an answer.
    pub(crate) closed: CancellationToken,
    reason: OnceLock<String>,
    pub(crate) shared: Arc<Shared>,
}

/// How it is doing, and what it is owed. One lock: what is missed and being active exclude each other.
struct Standing {
    health: Health,
    missed: Missed,
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
        let standing = Standing { health: Health::new(rules), missed: Missed::default() };
        let lane = Arc::new(Semaphore::new(lanes(policy.concurrency) as usize));
        Arc::new(Self {
            id,
            events,
            policy,
            plugin,
            lane,
            standing: Mutex::new(standing),
            unavailable: Notify::new(),
            closed: CancellationToken::new(),
            reason: OnceLock::new(),
            shared,
        })
    }

    /// How it is doing.
    pub(crate) fn state(&self) -> State {
        self.standing().health.state()
    }

    /// Asks it, waits for at most its request timeout, and judges it.
    ///
    /// The future may be dropped at any time: the plugin keeps its lane until it has answered.
    pub(crate) async fn ask(self: &Arc<Self>, request: &Arc<Request>) -> Result<Reply, Cause> {
        let queued = Instant::now();
        let lane = self.enter(request).await?;
        let begun = Instant::now();
        self.shared.watchers.metrics().queued(&self.id, request.event(), begun - queued);
        let mut asked = Asked::new(Arc::clone(self), Arc::clone(request), lane, begun);
        match timeout_at(asked.deadline(), asked.answer()).await {
            Ok(answer) => {
                asked.finish();
                self.judge(request, begun, answer)
            }
            Err(_elapsed) => {
                let effect = self.standing().health.timed_out(Instant::now());
                self.shared.watchers.asked(&self.id, request, begun.elapsed(), Some(&Cause::TimedOut));
                self.apply(effect, "it did not answer in time");
                asked.linger();
                Err(Cause::TimedOut)
            }
        }
    }

    /// Waits for the lane. Whoever may not ask now, or any more, is told at once.
    async fn enter(self: &Arc<Self>, request: &Arc<Request>) -> Result<OwnedSemaphorePermit, Cause> {
        let limit = Instant::now() + self.policy.lane_timeout;
        loop {
            let unavailable = self.unavailable.notified();
            tokio::pin!(unavailable);
            unavailable.as_mut().enable();
            let is_trial = self.pass_gate(request)?;
            if let Ok(lane) = Arc::clone(&self.lane).try_acquire_owned() {
                return Ok(lane);
            }
            let trial = is_trial.then(|| Trial(self));
            tokio::select! {
                biased;
                () = &mut unavailable => {}
                lane = Arc::clone(&self.lane).acquire_owned() => {
                    // It may have become silent while this was decided: look again.
                    if (is_trial || self.state() == State::Active) && let Ok(lane) = lane {
                        std::mem::forget(trial);
                        return Ok(lane);
                    }
                }
                () = tokio::time::sleep_until(limit) => return Err(Cause::Busy),
            }
        }
    }

    /// Whether it may be asked: if so, whether as a trial of a suspended plugin; if not, what it must not miss is kept for it.
    fn pass_gate(self: &Arc<Self>, request: &Arc<Request>) -> Result<bool, Cause> {
        let mut standing = self.standing();
        let now = Instant::now();
        if !standing.missed.is_empty() && standing.health.may_try(now) {
            // A trial begins with what it missed; this request goes behind it.
            standing.health.gate(now);
            self.shared.tasks.spawn(crate::asked::catch_up(Arc::clone(self)));
            standing.missed.push(request);
            return Err(Cause::PassedOver(State::Suspended));
        }
        match standing.health.gate(now) {
            Gate::Ask => Ok(standing.health.state() == State::Suspended),
            Gate::Pass(state) => {
                let kept = state == State::Closed || standing.missed.push(request);
                drop(standing);
                if !kept {
                    self.close("it missed more than is kept for it");
                }
                Err(Cause::PassedOver(state))
            }
        }
    }

    /// What an answer in time means for the plugin and for the request.
    fn judge(&self, request: &Arc<Request>, begun: Instant, answer: Answer) -> Result<Reply, Cause> {
        let (effect, outcome) = {
            let health = &mut self.standing().health;
            match answer {
                Ok(reply) => (health.answered(), Ok(reply)),
                // Its own deadline and ours are the same: which of us notices first is chance.
                Err(PluginError::Refused { code: Code::DEADLINE_EXCEEDED, .. } | PluginError::NotTaken) => {
                    (health.gave_up(Instant::now()), Err(Cause::TimedOut))
                }
                Err(error @ (PluginError::Refused { .. } | PluginError::TooLarge { .. })) => {
                    (health.answered(), Err(error.into()))
                }
                Err(error @ (PluginError::Gone(_) | PluginError::Breach(_))) => (health.close(), Err(error.into())),
            }
        };
        self.shared.watchers.asked(&self.id, request, begun.elapsed(), outcome.as_ref().err());
        if let Effect::None = effect {
            return outcome;
        }
        let reason = outcome.as_ref().err().map_or_else(String::new, ToString::to_string);
        self.apply(effect, &reason);
        outcome
    }

    /// Does what a change of its health asks for.
    pub(crate) fn apply(&self, effect: Effect, reason: &str) {
        match effect {
            Effect::None => {}
            Effect::Strike => self.shared.watchers.strike(&self.id),
            Effect::Became(State::Closed) => self.cut_off(reason),
            Effect::Became(state) => {
                if state != State::Active {
                    self.shared.watchers.strike(&self.id);
                    self.unavailable.notify_waiters();
                }
                self.shared.watchers.tell(Happening::State { plugin: self.id.clone(), state });
            }
        }
    }

    /// Closes it, unless it is closed already. The first reason counts.
    pub(crate) fn close(&self, reason: &str) {
        let effect = self.standing().health.close();
        self.apply(effect, reason);
    }

    /// Why it was closed.
    pub(crate) fn reason(&self) -> &str {
        self.reason.get().map_or("", String::as_str)
    }

    fn cut_off(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.plugin.close();
        self.unavailable.notify_waiters();
        self.closed.cancel();
    }

    /// Another interval of silence.
    pub(crate) fn still_silent(&self) {
        let effect = self.standing().health.still_silent(Instant::now());
        self.apply(effect, "it was silent for too long");
    }

    /// An answer that was overdue has come. True if it was the last one that was.
    pub(crate) fn settled(&self) -> bool {
        self.standing().health.settled()
    }

    /// What it is to be told next of what it missed. With none left it is active again.
    pub(crate) fn next_missed(&self) -> Option<Arc<Request>> {
        let effect = {
            let mut standing = self.standing();
            match standing.missed.pop() {
                Some(request) => return Some(request),
                None => standing.health.caught_up(),
            }
        };
        self.apply(effect, "");
        None
    }

    /// The outcome of telling it what it missed: in time, or (none) not.
    pub(crate) fn told(&self, request: &Arc<Request>, begun: Instant, answer: Option<Answer>) -> Option<Reply> {
        match answer {
            Some(answer) => self.judge(request, begun, answer).ok(),
            None => {
                let effect = self.standing().health.timed_out(Instant::now());
                self.apply(effect, "it did not answer in time");
                None
            }
        }
    }

    /// All of its lanes: nobody else asks it meanwhile.
    pub(crate) async fn all_lanes(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.lane).acquire_many_owned(lanes(self.policy.concurrency)).await.ok()
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.policy.request_timeout
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that may turn out not to ask a suspended plugin after all.
struct Trial<'a>(&'a Entry);

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.0.standing().health.not_asked();
    }
}

fn lanes(concurrency: Concurrency) -> u32 {
    match concurrency {
        Concurrency::Serial => 1,
        Concurrency::PerPod => PODS_AT_A_TIME,
    }
}
