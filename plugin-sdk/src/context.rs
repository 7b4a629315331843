use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Refusal, Runtime};

/// What a handler is called with beside what it is called about.
#[derive(Debug)]
pub struct Context {
    runtime: Runtime,
    deadline: Option<Instant>,
    has_no_handler: AtomicBool,
}

impl Context {
    pub(crate) fn new(runtime: Runtime, timeout: Option<Duration>) -> Self {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { runtime, deadline, has_no_handler: AtomicBool::new(false) }
    }

    /// The runtime, to ask it for something while it waits for this handler: within the time that is left.
    ///
    /// Runtimes on Go's NRI before 0.6 hold a lock while they wait. There, update from another task.
    pub fn runtime(&self) -> Runtime {
        match self.deadline {
            Some(deadline) => self.runtime.within(deadline.saturating_duration_since(Instant::now())),
            None => self.runtime.clone(),
        }
    }

    /// When the runtime stops waiting for this handler, if it says so.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
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
