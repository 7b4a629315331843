use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nri_proto::EventMask;
use tokio::time::Instant;

use super::Refusal;
use crate::runtime::Runtime;

/// What a handler is called with beside what it is called about.
#[derive(Debug)]
pub struct Context {
    runtime: Runtime,
    events: EventMask,
    /// Shared with what the handler keeps, which can tell by it whether the handler still runs.
    deadline: Option<Arc<Instant>>,
    has_no_handler: AtomicBool,
}

impl Context {
    pub(crate) fn new(runtime: Runtime, events: EventMask, timeout: Option<Duration>) -> Self {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout)).map(Arc::new);
        Self { runtime, events, deadline, has_no_handler: AtomicBool::new(false) }
    }

    /// The runtime, to ask it for something while it waits for this handler: within three quarters of the time that is left, so that
    /// the handler can still answer if it gets none. It may be kept: when the handler is over, it is like that of
    /// [`Runner::runtime`](crate::Runner::runtime).
    ///
    /// Runtimes on Go's NRI up to 0.12.0 hold a lock while they wait: they make an update when the handler has answered, and
    /// one that it waits for has failed by then. There, update from another task.
    pub fn runtime(&self) -> Runtime {
        self.deadline.as_ref().map_or_else(|| self.runtime.clone(), |deadline| self.runtime.with_deadline(deadline))
    }

    /// When the runtime stops waiting for this handler, if it says so.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.as_deref().copied()
    }

    /// What the plugin hears of on this connection: what it wants, as far as the runtime is not too old for it. The operator of
    /// `nri-adaptation` may let it see less, which the protocol has no word for.
    pub fn events(&self) -> EventMask {
        self.events
    }

    /// What handlers do by default.
    pub(crate) fn unhandled<T: Default>(&self) -> Result<T, Refusal> {
        self.has_no_handler.store(true, Ordering::Relaxed);
        Ok(T::default())
    }

    pub(crate) fn has_no_handler(&self) -> bool {
        self.has_no_handler.load(Ordering::Relaxed)
    }
}
