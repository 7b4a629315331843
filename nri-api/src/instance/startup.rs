//! Whether NRI is started, and the exits that are reported before that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use nri_proto::{Container, Pod};
use parking_lot::Mutex;
use tracing::warn;

use crate::error::{Error, StartError};
use crate::lifecycle::namespace::Namespace;

/// How many exits are kept until NRI is started.
const MAX_EARLY_EXITS: usize = 4096;

const NEW: u8 = 0;
const STARTING: u8 = 1;
const STARTED: u8 = 2;
const STOPPED: u8 = 3;

/// An exit that was reported before NRI was started.
pub(crate) struct EarlyExit {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) pod: Arc<Pod>,
    pub(crate) container: Container,
}

/// Counts the exits that plugins were not told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostExits {
    /// Exits that were dropped because too many were reported before NRI was started. The oldest
    /// are dropped first.
    pub before_start: u64,
    /// Exits that were reported after NRI was stopped.
    pub after_stop: u64,
    /// Exits of containers that plugins do not know.
    pub unknown: u64,
}

/// Whether an [`Nri`](crate::Nri) is new, starting, started or stopped.
#[derive(Default)]
pub(crate) struct Startup {
    /// Changed only under the lock of `early_exits`.
    stage: AtomicU8,
    early_exits: Mutex<VecDeque<EarlyExit>>,
    n_lost_before: AtomicU64,
    n_lost_after: AtomicU64,
    n_lost_unknown: AtomicU64,
}

/// A start in progress. If it is dropped before it has succeeded, NRI may be started again.
pub(crate) struct StartAttempt<'a>(&'a Startup);

impl Startup {
    /// Checks that requests are allowed: after the start and before the stop.
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
        let _early_exits = self.early_exits.lock();
        match self.stage.load(Ordering::Acquire) {
            NEW => {
                self.stage.store(STARTING, Ordering::Release);
                Ok(StartAttempt(self))
            }
            STOPPED => Err(StartError::Stopped),
            _ => Err(StartError::Twice),
        }
    }

    /// Rejects requests from now on. Early exits that were kept are counted as lost.
    pub(crate) fn stop(&self) {
        let mut early_exits = self.early_exits.lock();
        self.stage.store(STOPPED, Ordering::Release);
        self.n_lost_after.fetch_add(early_exits.len() as u64, Ordering::Relaxed);
        early_exits.clear();
    }

    /// Keeps an exit until NRI is started, or counts it as lost if NRI was stopped. Returns the
    /// exit if NRI was started meanwhile: then the caller reports it to plugins.
    pub(crate) fn keep_exit(&self, exit: EarlyExit) -> Option<EarlyExit> {
        let mut early_exits = self.early_exits.lock();
        match self.stage.load(Ordering::Acquire) {
            STARTED => return Some(exit),
            STOPPED => self.count_exit_after_stop(),
            _ => {
                if early_exits.len() == MAX_EARLY_EXITS {
                    early_exits.pop_front();
                    if self.n_lost_before.fetch_add(1, Ordering::Relaxed) == 0 {
                        warn!(limit = MAX_EARLY_EXITS, "too many exits before NRI is started; dropping the oldest");
                    }
                }
                early_exits.push_back(exit);
            }
        }
        None
    }

    pub(crate) fn lost_exits(&self) -> LostExits {
        LostExits {
            before_start: self.n_lost_before.load(Ordering::Relaxed),
            after_stop: self.n_lost_after.load(Ordering::Relaxed),
            unknown: self.n_lost_unknown.load(Ordering::Relaxed),
        }
    }

    /// Counts an exit that was reported after NRI was stopped.
    pub(crate) fn count_exit_after_stop(&self) {
        self.n_lost_after.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an exit of a container that plugins do not know.
    pub(crate) fn count_unknown_exit(&self) {
        self.n_lost_unknown.fetch_add(1, Ordering::Relaxed);
    }
}

impl StartAttempt<'_> {
    /// Takes the exits that were kept so far. If there are none, the start has succeeded, and later
    /// exits are reported at once. Returns `None` if NRI was stopped meanwhile.
    ///
    /// Requests are allowed only after all of these exits are recorded: an exit that was reported
    /// before a container is restarted must not end the new run.
    pub(crate) fn next_exits(&self) -> Option<VecDeque<EarlyExit>> {
        let mut early_exits = self.0.early_exits.lock();
        if self.0.is_stopped() {
            return None;
        }
        if early_exits.is_empty() {
            self.0.stage.store(STARTED, Ordering::Release);
        }
        Some(std::mem::take(&mut *early_exits))
    }
}

impl Drop for StartAttempt<'_> {
    fn drop(&mut self) {
        let _early_exits = self.0.early_exits.lock();
        // No effect if the start has succeeded, or if NRI was stopped.
        _ = self.0.stage.compare_exchange(STARTING, NEW, Ordering::AcqRel, Ordering::Acquire);
    }
}
