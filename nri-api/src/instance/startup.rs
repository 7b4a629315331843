//! Whether NRI was started, and what is to be said of exits until then.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nri_proto::{Container, Pod};
use tracing::warn;

use crate::error::{Error, StartError};
use crate::lifecycle::namespace::Namespace;

/// How many exits are kept until NRI was started.
pub(crate) const MAX_EARLY_EXITS: usize = 4096;

const NEW: u8 = 0;
const STARTING: u8 = 1;
const STARTED: u8 = 2;
const STOPPED: u8 = 3;

/// An exit that was said too early.
pub(crate) struct EarlyExit {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) pod: Arc<Pod>,
    pub(crate) container: Container,
}

/// Exits that plugins were not told of, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostExits {
    /// There were too many before NRI was started: the oldest were forgotten.
    pub before_start: u64,
    /// They came after NRI was stopped.
    pub after_stop: u64,
    /// They were of containers that plugins know nothing of.
    pub unknown: u64,
}

/// Where in its own life an [`Nri`](crate::Nri) is.
#[derive(Default)]
pub(crate) struct Startup {
    /// Changed under the lock of the queue.
    stage: AtomicU8,
    early: Mutex<VecDeque<EarlyExit>>,
    lost_before: AtomicU64,
    lost_after: AtomicU64,
    lost_unknown: AtomicU64,
}

/// A start that is under way. Unless it succeeds, another one may be tried.
pub(crate) struct StartAttempt<'a>(&'a Startup);

impl Startup {
    /// Whether requests may be made.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.stage.load(Ordering::Acquire) {
            STARTED => Ok(()),
            STOPPED => Err(Error::Stopped),
            _ => Err(Error::NotStarted),
        }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.stage.load(Ordering::Acquire) == NEW
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stage.load(Ordering::Acquire) == STOPPED
    }

    pub(crate) fn start(&self) -> Result<StartAttempt<'_>, StartError> {
        let _early = self.early();
        match self.stage.load(Ordering::Acquire) {
            NEW => {
                self.stage.store(STARTING, Ordering::Release);
                Ok(StartAttempt(self))
            }
            STOPPED => Err(StartError::Stopped),
            _ => Err(StartError::Twice),
        }
    }

    /// No requests any more. What was not told yet will not be.
    pub(crate) fn stop(&self) {
        let mut early = self.early();
        self.stage.store(STOPPED, Ordering::Release);
        self.lost_after.fetch_add(early.len() as u64, Ordering::Relaxed);
        early.clear();
    }

    /// Takes an exit that cannot be told now. Gives it back if it can.
    pub(crate) fn exited(&self, exit: EarlyExit) -> Option<EarlyExit> {
        let mut early = self.early();
        match self.stage.load(Ordering::Acquire) {
            STARTED => return Some(exit),
            STOPPED => self.lost_after_stop(),
            _ => {
                if early.len() == MAX_EARLY_EXITS {
                    early.pop_front();
                    if self.lost_before.fetch_add(1, Ordering::Relaxed) == 0 {
                        warn!(limit = MAX_EARLY_EXITS, "too many containers exit before NRI is started");
                    }
                }
                early.push_back(exit);
            }
        }
        None
    }

    pub(crate) fn lost(&self) -> LostExits {
        LostExits {
            before_start: self.lost_before.load(Ordering::Relaxed),
            after_stop: self.lost_after.load(Ordering::Relaxed),
            unknown: self.lost_unknown.load(Ordering::Relaxed),
        }
    }

    /// An exit came when nothing is told any more.
    pub(crate) fn lost_after_stop(&self) {
        self.lost_after.fetch_add(1, Ordering::Relaxed);
    }

    /// An exit was of a container that plugins know nothing of.
    pub(crate) fn lost_unknown(&self) {
        self.lost_unknown.fetch_add(1, Ordering::Relaxed);
    }

    fn early(&self) -> MutexGuard<'_, VecDeque<EarlyExit>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StartAttempt<'_> {
    /// Takes the exits that were said so far. If there are none, the start has succeeded, and later exits are told at once.
    /// `None` if NRI was stopped meanwhile.
    ///
    /// Requests are allowed only when all of these exits were noted: an exit that was said before a container is started again
    /// must not end the new run.
    pub(crate) fn next_exits(&self) -> Option<VecDeque<EarlyExit>> {
        let mut early = self.0.early();
        if self.0.is_stopped() {
            return None;
        }
        if early.is_empty() {
            self.0.stage.store(STARTED, Ordering::Release);
        }
        Some(std::mem::take(&mut *early))
    }
}

impl Drop for StartAttempt<'_> {
    fn drop(&mut self) {
        let _early = self.0.early();
        // Others may have stopped it; or it has succeeded.
        _ = self.0.stage.compare_exchange(STARTING, NEW, Ordering::AcqRel, Ordering::Acquire);
    }
}
