//! The context of a handler: facts about its request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nri_proto::EventMask;
use tokio::time::Instant;

use super::Refusal;
use crate::runtime::Runtime;

/// The context of a request: the runtime, the deadline, and the events of the connection.
///
/// Each handler of a [`Plugin`](crate::Plugin) gets one.
#[derive(Debug)]
pub struct Context {
    runtime: Runtime,
    events: EventMask,
    /// The deadline of the handler. Each [`Runtime`] that the handler takes has a weak reference to
    /// it, which is dead once the handler has returned.
    deadline: Option<Arc<Instant>>,
    /// Whether the plugin did not override the handler.
    has_no_handler: AtomicBool,
}

impl Context {
    pub(crate) fn new(runtime: Runtime, events: EventMask, timeout: Option<Duration>) -> Self {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout)).map(Arc::new);
        Self { runtime, events, deadline, has_no_handler: AtomicBool::new(false) }
    }

    /// Returns a handle for calling the runtime while this handler runs.
    ///
    /// A call takes at most three quarters of the time that is left, so that the handler can still
    /// reply if the call times out. The handler may keep the handle: afterwards, the handle behaves
    /// like the one of [`Runner::runtime`](crate::Runner::runtime).
    ///
    /// Runtimes on Go's NRI up to 0.12.0 hold a lock while they wait for a handler. They apply an
    /// update only after the handler has replied, so a handler that waits for its own update times
    /// out. With these runtimes, call [`Runtime::update`] from another task.
    pub fn runtime(&self) -> Runtime {
        self.deadline.as_ref().map_or_else(|| self.runtime.clone(), |deadline| self.runtime.with_deadline(deadline))
    }

    /// Returns when the runtime stops waiting for this handler, if the request has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.as_deref().copied()
    }

    /// Returns the events that the plugin is subscribed to on this connection.
    ///
    /// These are the events that the plugin asked for, without those that the runtime does not
    /// support. With `nri-adaptation`, the operator may deny the plugin some of these events; the
    /// protocol has no field that would tell the plugin so.
    pub fn events(&self) -> EventMask {
        self.events
    }

    /// Returns the reply of a handler that the plugin did not override, and marks the context.
    pub(crate) fn unhandled<T: Default>(&self) -> Result<T, Refusal> {
        self.has_no_handler.store(true, Ordering::Relaxed);
        Ok(T::default())
    }

    /// Returns whether the plugin did not override the handler of this request.
    pub(crate) fn has_no_handler(&self) -> bool {
        self.has_no_handler.load(Ordering::Relaxed)
    }
}
