//! Observability: metrics, and a stream of events.
//!
//! - [`Metrics`] is the trait that a runtime implements to count requests. [`Happening`] is an
//!   event of the stream.
//! - `outbox.rs` publishes events in the order in which they were recorded. No lock is held while
//!   subscribers receive an event.

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

/// The number of events that are kept for a subscriber that lags behind.
const BEHIND: usize = 1024;

/// Counts what plugins do. The default of each method does nothing. A method must not block.
///
/// An operation is the name of an RPC. `Synchronize`, with which a plugin joins, is one of them:
/// its answer is reported as the reply to a stop, which can ask for the same.
pub trait Metrics: Send + Sync + 'static {
    /// Counts a request to a plugin. `failure` is the error, if the plugin did not answer as
    /// required.
    fn invocation(&self, plugin: &PluginId, operation: &str, failure: Option<&Cause>) {
        let _ = (plugin, operation, failure);
    }
    /// Records how long a plugin took to answer.
    fn latency(&self, plugin: &PluginId, operation: &str, took: Duration) {
        let _ = (plugin, operation, took);
    }
    /// Counts the changes that a plugin's reply asks for.
    fn adjustments(&self, plugin: &PluginId, operation: &str, reply: &Reply) {
        let _ = (plugin, operation, reply);
    }
    /// Sets the number of plugins that have joined.
    fn plugins(&self, count: usize) {
        let _ = count;
    }
    /// Counts a strike: a plugin was silent for one request timeout.
    fn strike(&self, plugin: &PluginId) {
        let _ = plugin;
    }
    /// Sets the health state of a plugin, whenever it changes.
    fn state(&self, plugin: &PluginId, state: State) {
        let _ = (plugin, state);
    }
    /// Records how long a request waited until the plugin was free.
    fn queued(&self, plugin: &PluginId, event: Event, waited: Duration) {
        let _ = (plugin, event, waited);
    }
    /// Counts a validator that gave no verdict, although it subscribes to validation. Only plugins
    /// count that the operator neither names as validators nor requires. Called for each container
    /// that is created without the verdict, and when the runtime closes such a plugin.
    fn unvalidated(&self, plugin: &PluginId) {
        let _ = plugin;
    }
    /// Counts a start of a plugin's process.
    fn launched(&self, plugin: &PluginId) {
        let _ = plugin;
    }
    /// Counts an exit of a plugin's process. Without a status, the process could not be started. If
    /// `again_in` is set, the process is started again after that time.
    fn exited(&self, plugin: &PluginId, status: Option<&str>, again_in: Option<Duration>) {
        let _ = (plugin, status, again_in);
    }
}

/// Metrics that count nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}

/// An event in the life of plugins and requests.
///
/// The events of one plugin have an order: the plugin joined, its states, the plugin was closed.
/// Only then another plugin of its id can join. A plugin that is closed without having joined was
/// not admitted. Requests do not follow this order: a plugin that was replaced may still be asked
/// in operations that it takes part in.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A plugin joined. Requests ask the plugin from now on.
    Joined {
        /// The id of the plugin.
        plugin: PluginId,
        /// The events that the plugin subscribed to.
        events: EventMask,
        /// The effective policy of the plugin, with the origin of each setting.
        policy: String,
    },
    /// A [reload](crate::Adaptation::reload) changed the policy of a plugin.
    Policy {
        /// The id of the plugin.
        plugin: PluginId,
        /// The events that the plugin subscribed to, without those that the policy hides.
        events: EventMask,
        /// The effective policy of the plugin, with the origin of each setting.
        policy: String,
    },
    /// A plugin was asked.
    Asked {
        /// The id of the plugin.
        plugin: PluginId,
        /// The event of the request.
        event: Event,
        /// The pod of the request.
        pod: String,
        /// The container of the request, if any.
        container: Option<String>,
        /// How long the plugin took to answer.
        took: Duration,
        /// The error, if the plugin did not answer as required.
        failure: Option<String>,
    },
    /// A plugin answered too late for its request. Its changes may still be applied as updates,
    /// once the operation of the request has been committed.
    Late {
        /// The id of the plugin.
        plugin: PluginId,
        /// The event of the request.
        event: Event,
        /// How long the plugin took to answer.
        took: Duration,
    },
    /// The health state of a plugin changed.
    State {
        /// The id of the plugin.
        plugin: PluginId,
        /// The new state.
        state: State,
    },
    /// A plugin was refused while another plugin with the same id is connected.
    Refused {
        /// The id of the plugin.
        plugin: PluginId,
        /// Why the plugin was refused.
        reason: String,
    },
    /// An operation has been open for longer than
    /// [`operation_timeout`](crate::Config::operation_timeout), and nothing waits for its end any
    /// more. The runtime has neither committed nor dropped it.
    Overdue {
        /// The pod of the operation.
        pod: String,
        /// The least time that the operation has been open.
        open: Duration,
    },
    /// A plugin was closed, or has disconnected.
    Closed {
        /// The id of the plugin.
        plugin: PluginId,
        /// Why the plugin was closed.
        reason: String,
    },
    /// The process of a plugin was started. The plugin has not joined yet.
    Launched {
        /// The id of the plugin.
        plugin: PluginId,
        /// The process id.
        pid: u32,
    },
    /// The process of a plugin could not be started.
    NotLaunched {
        /// The id of the plugin.
        plugin: PluginId,
        /// Why the process could not be started.
        reason: String,
        /// The pause before the next attempt. `None` if there is no next attempt.
        again_in: Option<Duration>,
    },
    /// The process of a launched plugin has ended.
    Exited {
        /// The id of the plugin.
        plugin: PluginId,
        /// The status of the process: `exit status: 1`, `signal: 9 (SIGKILL)`.
        status: String,
        /// The pause before the next start. `None` if the process is not started again.
        again_in: Option<Duration>,
    },
}

/// The metrics, and the subscribers to the event stream.
#[derive(Clone)]
pub(crate) struct Watchers {
    metrics: Arc<dyn Metrics>,
    happenings: broadcast::Sender<Happening>,
    /// The event stream without events that occur with each request.
    rare: broadcast::Sender<Happening>,
    outbox: Arc<Outbox>,
    /// Cancelled when the adaptation stops. Closing a plugin is then expected, and not logged as a
    /// warning.
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

    /// Subscribes to all events from now on. A receiver that lags too far behind learns how many
    /// events it missed.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Happening> {
        self.happenings.subscribe()
    }

    /// Subscribes to all events except [`Happening::Asked`]. That event is not created if nobody
    /// else subscribes to it.
    pub(crate) fn subscribe_rare(&self) -> broadcast::Receiver<Happening> {
        self.rare.subscribe()
    }

    /// Counts a request to a plugin, and publishes the event if there are subscribers.
    pub(crate) fn asked(&self, plugin: &PluginId, request: &Request, took: Duration, failure: Option<&Cause>) {
        let operation = request.event().rpc();
        self.metrics.latency(plugin, operation, took);
        self.metrics.invocation(plugin, operation, failure);
        if self.happenings.receiver_count() == 0 {
            return;
        }
        // The last subscriber may have left, so a failed send is ignored.
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

    /// Queues an event and publishes the queue. For events that do not occur with each request.
    pub(crate) fn tell(&self, happening: Happening) {
        self.note(happening);
        self.flush();
    }

    /// Queues an event behind all queued events. Call this under the lock that guards the change,
    /// and [`flush`](Self::flush) after the lock is released.
    pub(crate) fn note(&self, happening: Happening) {
        self.outbox.push(OutboxItem::Happening(happening));
    }

    /// Queues the new order of the plugins.
    pub(crate) fn note_order(&self, order: Vec<PluginId>) {
        self.outbox.push(OutboxItem::Order(order));
    }

    /// Publishes the queued events: logs, counts and sends each of them.
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
                info!(%plugin, %events, policy, "plugin policy changed");
            }
            Happening::Late { plugin, event, took } => {
                let text = "plugin answered too late for its request, parts of its answer may still be applied";
                warn!(%plugin, event = event.rpc(), ?took, "{text}");
            }
            Happening::State { plugin, state } => {
                warn!(%plugin, %state, "plugin state changed");
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
                warn!(%plugin, reason = %line(reason), "plugin refused: another plugin with this id is connected")
            }
            Happening::Overdue { pod, open } => {
                warn!(pod, ?open, "operation is open for too long; nothing waits for its end any more");
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
        // A send fails if nobody subscribes.
        let _ = self.rare.send(happening.clone());
        let _ = self.happenings.send(happening);
    }
}
