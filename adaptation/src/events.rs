//! What is seen from outside: metrics, and a stream of events.
//!
//! - [`Metrics`] is the trait that a runtime implements to count requests, and [`Happening`] one
//!   event of the stream.
//! - `outbox.rs` sends events in the order in which they were recorded, without a lock held while
//!   anyone receives them.

mod outbox;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use nri_proto::quote::line;
use nri_proto::{Event, EventMask, PluginId};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::outbox::{Outbox, OutboxItem};
use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::Reply;
use crate::api::request::Request;

/// How much of what happened is kept for a watcher that is behind.
const BEHIND: usize = 1024;

/// Counts what plugins do. Each method has a default that counts nothing, and must not wait.
///
/// An operation is the name of the RPC. `Synchronize`, with which a plugin joins, is one too: its
/// answer is that to a stop, which can ask for the same.
pub trait Metrics: Send + Sync + 'static {
    /// A plugin was asked, and this is what came of it.
    fn invocation(&self, plugin: &PluginId, operation: &str, failure: Option<&Cause>) {
        let _ = (plugin, operation, failure);
    }
    /// How long a plugin took to answer.
    fn latency(&self, plugin: &PluginId, operation: &str, took: Duration) {
        let _ = (plugin, operation, took);
    }
    /// What a plugin's answer asks for.
    fn adjustments(&self, plugin: &PluginId, operation: &str, reply: &Reply) {
        let _ = (plugin, operation, reply);
    }
    /// How many plugins there are now.
    fn plugins(&self, count: usize) {
        let _ = count;
    }
    /// A plugin was silent for one request timeout.
    fn strike(&self, plugin: &PluginId) {
        let _ = plugin;
    }
    /// A plugin is in another state now.
    fn state(&self, plugin: &PluginId, state: State) {
        let _ = (plugin, state);
    }
    /// How long a request waited until the plugin was free.
    fn queued(&self, plugin: &PluginId, event: Event, waited: Duration) {
        let _ = (plugin, event, waited);
    }
    /// A plugin that subscribes to validation, and that the operator neither names as a validator
    /// nor requires, has no say: once for each container that is created without its verdict, and
    /// once when it is closed by us.
    fn unvalidated(&self, plugin: &PluginId) {
        let _ = plugin;
    }
    /// The process of a plugin was started.
    fn launched(&self, plugin: &PluginId) {
        let _ = plugin;
    }
    /// The process of a plugin has ended, with this status; without one it could not be started. If
    /// `again_in` is there it is started again.
    fn exited(&self, plugin: &PluginId, status: Option<&str>, again_in: Option<Duration>) {
        let _ = (plugin, status, again_in);
    }
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}

/// Something that happened.
///
/// Of one plugin it is told in order: that it has joined, which states it is in, that it is closed,
/// and only then that another one of its id has joined. A plugin that is closed without having
/// joined was not let in. Requests are another matter: one that was replaced may still be asked, in
/// operations that it takes part in.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A plugin was let in, and is asked from now on.
    Joined {
        /// The plugin.
        plugin: PluginId,
        /// What it subscribed to.
        events: EventMask,
        /// The policy that holds for it, and where each part of it comes from.
        policy: String,
    },
    /// Another policy holds for a plugin since a [reload](crate::Adaptation::reload).
    Policy {
        /// The plugin.
        plugin: PluginId,
        /// What it subscribed to, as far as it may see it now.
        events: EventMask,
        /// The policy that holds for it, and where each part of it comes from.
        policy: String,
    },
    /// A plugin was asked.
    Asked {
        /// The plugin.
        plugin: PluginId,
        /// What about.
        event: Event,
        /// The pod.
        pod: String,
        /// The container, if it is about one.
        container: Option<String>,
        /// How long it took.
        took: Duration,
        /// Why it has no say, if it has none.
        failure: Option<String>,
    },
    /// A plugin answered too late. The answer was not applied.
    Late {
        /// The plugin.
        plugin: PluginId,
        /// What it had been asked about.
        event: Event,
        /// How long it took.
        took: Duration,
    },
    /// A plugin is in another state now.
    State {
        /// The plugin.
        plugin: PluginId,
        /// Its state.
        state: State,
    },
    /// A plugin was not let in. One of the same id is there, and stays.
    Refused {
        /// The plugin.
        plugin: PluginId,
        /// Why.
        reason: String,
    },
    /// An operation about this pod has been open for so long that nobody waits for its end any
    /// more. A runtime that neither commits nor drops it has forgotten it.
    Overdue {
        /// The pod.
        pod: String,
        /// How long at least.
        open: Duration,
    },
    /// A plugin was closed, or has left.
    Closed {
        /// The plugin.
        plugin: PluginId,
        /// Why.
        reason: String,
    },
    /// The process of a plugin was started. It has not joined yet.
    Launched {
        /// The plugin.
        plugin: PluginId,
        /// The process.
        pid: u32,
    },
    /// The process of a plugin could not be started.
    NotLaunched {
        /// The plugin.
        plugin: PluginId,
        /// Why not.
        reason: String,
        /// When it is tried again, if it is.
        again_in: Option<Duration>,
    },
    /// The process of a plugin that was launched has ended.
    Exited {
        /// The plugin.
        plugin: PluginId,
        /// How it ended: `exit status: 1`, `signal: 9 (SIGKILL)`.
        status: String,
        /// When it is started again, if it is.
        again_in: Option<Duration>,
    },
}

/// Everyone who looks on.
#[derive(Clone)]
pub(crate) struct Watchers {
    metrics: Arc<dyn Metrics>,
    happenings: broadcast::Sender<Happening>,
    /// Without those that come with each request.
    rare: broadcast::Sender<Happening>,
    outbox: Arc<Outbox>,
    /// Cancelled when the adaptation stops: plugins are closed then because they are to be.
    stopping: CancellationToken,
}

impl Debug for Watchers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watchers").field("happenings", &self.happenings).finish_non_exhaustive()
    }
}

impl Watchers {
    pub(crate) fn new(metrics: Arc<dyn Metrics>) -> Self {
        let (happenings, rare) = (broadcast::Sender::new(BEHIND), broadcast::Sender::new(BEHIND));
        Self { metrics, happenings, rare, outbox: Arc::default(), stopping: CancellationToken::new() }
    }

    /// Returns the token that is cancelled when the adaptation stops.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    pub(crate) fn metrics(&self) -> &dyn Metrics {
        self.metrics.as_ref()
    }

    /// What happens from now on. Who is too far behind is told how much was dropped.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Happening> {
        self.happenings.subscribe()
    }

    /// The same without [`Happening::Asked`], which then is not even made.
    pub(crate) fn subscribe_rare(&self) -> broadcast::Receiver<Happening> {
        self.rare.subscribe()
    }

    /// A plugin was asked: counted always, told if someone listens.
    pub(crate) fn asked(&self, plugin: &PluginId, request: &Request, took: Duration, failure: Option<&Cause>) {
        let operation = request.event().rpc();
        self.metrics.latency(plugin, operation, took);
        self.metrics.invocation(plugin, operation, failure);
        if self.happenings.receiver_count() == 0 {
            return;
        }
        // The last one may have stopped listening.
        let _ = self.happenings.send(Happening::Asked {
            plugin: plugin.clone(),
            event: request.event(),
            pod: request.pod().id.clone(),
            container: request.container().map(|container| container.id.clone()),
            took,
            failure: failure.map(ToString::to_string),
        });
    }

    pub(crate) fn strike(&self, plugin: &PluginId) {
        self.metrics.strike(plugin);
    }

    /// Tells, logs and counts what does not happen with each request.
    pub(crate) fn tell(&self, happening: Happening) {
        self.note(happening);
        self.flush();
    }

    /// Something is to be told behind all that was noted before. Under the lock under which it has
    /// happened; told it is without.
    pub(crate) fn note(&self, happening: Happening) {
        self.outbox.push(OutboxItem::Happening(happening));
    }

    /// The plugins are others now.
    pub(crate) fn note_order(&self, order: Vec<PluginId>) {
        self.outbox.push(OutboxItem::Order(order));
    }

    /// Tells what was noted.
    pub(crate) fn flush(&self) {
        self.outbox.empty(|news| match news {
            OutboxItem::Happening(happening) => self.publish(happening),
            OutboxItem::Order(order) => {
                self.metrics.plugins(order.len());
                info!(?order, "plugins are asked in this order");
            }
        });
    }

    fn publish(&self, happening: Happening) {
        match &happening {
            Happening::Joined { plugin, events, policy } => {
                info!(%plugin, %events, policy, "plugin joined");
                self.metrics.state(plugin, State::Active);
            }
            Happening::Policy { plugin, events, policy } => {
                info!(%plugin, %events, policy, "another policy holds for a plugin");
            }
            Happening::Late { plugin, event, took } => {
                warn!(%plugin, event = event.rpc(), ?took, "plugin answered too late, its answer is not applied");
            }
            Happening::State { plugin, state } => {
                warn!(%plugin, %state, "plugin is in another state");
                self.metrics.state(plugin, *state);
            }
            Happening::Closed { plugin, reason } => {
                if self.stopping.is_cancelled() {
                    info!(%plugin, reason, "plugin is closed");
                } else {
                    warn!(%plugin, reason = %line(reason), "plugin is closed");
                }
                self.metrics.state(plugin, State::Closed);
            }
            Happening::Refused { plugin, reason } => {
                warn!(%plugin, reason = %line(reason), "a second plugin of this id is not let in")
            }
            Happening::Overdue { pod, open } => {
                warn!(pod, ?open, "an operation is still open, nobody waits for it any more");
            }
            Happening::Launched { plugin, pid } => {
                info!(%plugin, pid, "plugin was launched");
                self.metrics.launched(plugin);
            }
            Happening::NotLaunched { plugin, reason, again_in } => {
                warn!(%plugin, reason, ?again_in, "plugin could not be launched");
                self.metrics.exited(plugin, None, *again_in);
            }
            Happening::Exited { plugin, status, again_in } => {
                info!(%plugin, status, ?again_in, "process of a plugin has ended");
                self.metrics.exited(plugin, Some(status), *again_in);
            }
            Happening::Asked { .. } => {}
        }
        // Nobody may be listening.
        let _ = self.rare.send(happening.clone());
        let _ = self.happenings.send(happening);
    }
}
