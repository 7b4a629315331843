//! Updates that a plugin asks for before it is let in.
//!
//! A plugin that is not let in changes nothing, so such a call waits until the plugin is. Plugins
//! may also call from within the handlers with which they join, and then the runtime waits for
//! them. So a call waits for a part of the request timeout only. After that it is answered, and its
//! updates are kept: they are made when the plugin is let in, as those are that it asks for in its
//! answer to Synchronize.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::config::policy::Identity;
use crate::limits;
use crate::operation::shared::Shared;
use crate::session::unsolicited::Unasked;

/// How many calls of a plugin are kept. It may have no more in flight either.
const MAX_KEPT: usize = 40;

/// The updates that a plugin asks for while it joins.
#[derive(Default)]
pub(crate) struct EarlyUpdates {
    state: Mutex<EarlyState>,
    /// Rung when the plugin is let in, or is not.
    decided: Notify,
}

#[derive(Default)]
struct EarlyState {
    admission: Admission,
    kept: Vec<EarlyCall>,
    /// How many bytes were received for those.
    bytes: usize,
}

/// Whether a plugin is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The plugin joins.
    #[default]
    Pending,
    /// The plugin is admitted, and its calls are served at once.
    Admitted,
    /// The plugin is not admitted.
    Refused,
}

/// The updates and evictions that one call asks for.
pub(crate) struct EarlyCall {
    pub(crate) wanted: Unasked,
    /// How many bytes were received for it.
    pub(crate) bytes: usize,
    /// Its share of what the plugin may have in memory.
    pub(crate) weight: OwnedSemaphorePermit,
}

/// The outcome of keeping a call.
pub(crate) enum Keeping {
    Kept,
    /// There is no room for it.
    Full,
    /// Meanwhile the plugin was let in.
    Admitted(EarlyCall),
    /// Meanwhile it is known that the plugin is not let in.
    Refused,
}

impl EarlyUpdates {
    /// Waits until it is known whether the plugin is let in, or until the limit.
    pub(crate) async fn admission(&self, limit: Instant) -> Admission {
        let known = async {
            loop {
                let decided = self.decided.notified();
                tokio::pin!(decided);
                decided.as_mut().enable();
                if self.now() != Admission::Pending {
                    return;
                }
                decided.await;
            }
        };
        // Whether it was in time is seen from the state.
        let _ = timeout_at(limit, known).await;
        self.now()
    }

    /// Keeps a call until the plugin is let in.
    pub(crate) fn keep(&self, early: EarlyCall) -> Keeping {
        let mut state = self.state();
        match state.admission {
            Admission::Pending => {}
            Admission::Admitted => return Keeping::Admitted(early),
            Admission::Refused => return Keeping::Refused,
        }
        let bytes = state.bytes + early.bytes;
        if state.kept.len() >= MAX_KEPT || bytes > limits::EARLY {
            return Keeping::Full;
        }
        state.bytes = bytes;
        state.kept.push(early);
        Keeping::Kept
    }

    /// Takes what was kept until now.
    pub(crate) fn take(&self) -> Vec<EarlyCall> {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.kept)
    }

    /// Makes what is still kept of a plugin that has been let in. From then on its calls are served
    /// at once.
    pub(crate) async fn admit(&self, shared: &Shared, plugin: &PluginId, identity: Identity) {
        while !self.is_admitted() {
            for EarlyCall { wanted, .. } in self.take() {
                // There may have been a reload since.
                let Ok(policy) = shared.check_place(plugin, identity) else {
                    self.refuse();
                    return;
                };
                // A failure is logged and recorded in the ledger: the plugin already has its
                // answer.
                let _ = wanted.apply(&shared.services, plugin, &policy).await;
            }
        }
        self.decided.notify_waiters();
    }

    /// Has the plugin's calls served at once, if nothing is kept.
    fn is_admitted(&self) -> bool {
        let mut state = self.state();
        let is_admitted = state.kept.is_empty();
        if is_admitted {
            state.admission = Admission::Admitted;
        }
        is_admitted
    }

    /// Drops what is kept of a plugin that is not let in. Returns how many calls that were.
    pub(crate) fn refuse(&self) -> usize {
        let kept = {
            let mut state = self.state();
            state.admission = Admission::Refused;
            std::mem::take(&mut state.kept)
        };
        self.decided.notify_waiters();
        kept.len()
    }

    fn now(&self) -> Admission {
        self.state().admission
    }

    fn state(&self) -> MutexGuard<'_, EarlyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
