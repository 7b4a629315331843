//! Updates that a plugin requests before it is admitted.
//!
//! A plugin that is not admitted may not change anything, so such a call waits until the plugin is
//! admitted: until it has passed every check, and only has to hear what has happened since its
//! snapshot. But a plugin may also make the call within a handler that is part of its join, and
//! then the runtime waits for that handler. So the call waits only for a part of the request
//! timeout. After that the call is answered, and its updates are kept. They are applied when the
//! plugin is admitted, like the updates in the plugin's answer to `Synchronize`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::api::wait::wait_until;
use crate::config::policy::Identity;
use crate::limits;
use crate::operation::shared::Shared;
use crate::session::unsolicited::UnsolicitedChanges;

/// How many calls of a plugin are kept. The number of calls in flight has the same limit.
const MAX_KEPT: usize = 40;

/// The updates that a plugin requests before it is admitted.
#[derive(Default)]
pub(crate) struct EarlyUpdates {
    state: Mutex<EarlyState>,
    /// Notified when the plugin is admitted or refused.
    decided: Notify,
}

#[derive(Default)]
struct EarlyState {
    admission: Admission,
    kept: Vec<EarlyCall>,
    /// The encoded size of the kept calls, in bytes.
    bytes: usize,
}

/// Whether a plugin is admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The plugin is joining.
    #[default]
    Pending,
    /// The plugin is admitted, and its calls are served at once.
    Admitted,
    /// The plugin is not admitted.
    Refused,
}

/// The updates and evictions that one call requests.
pub(crate) struct EarlyCall {
    pub(crate) wanted: UnsolicitedChanges,
    /// The encoded size of the call, in bytes.
    pub(crate) bytes: usize,
    /// The call's share of the memory limit for the plugin's requests.
    pub(crate) weight: OwnedSemaphorePermit,
}

/// The result of keeping a call.
pub(crate) enum KeepResult {
    Kept,
    /// There is no room for the call.
    Full,
    /// The plugin was admitted in the meantime, so the call is returned.
    Admitted(EarlyCall),
    /// The plugin was refused in the meantime.
    Refused,
}

impl EarlyUpdates {
    /// Waits until the plugin is admitted or refused, or until `limit`.
    pub(crate) async fn admission(&self, limit: Instant) -> Admission {
        let decided = wait_until(&self.decided, || self.now() != Admission::Pending);
        // A timeout needs no handling: the state shows whether the decision was made.
        let _ = timeout_at(limit, decided).await;
        self.now()
    }

    /// Keeps a call until the plugin is admitted.
    pub(crate) fn keep(&self, early: EarlyCall) -> KeepResult {
        let mut state = self.state();
        match state.admission {
            Admission::Pending => {}
            Admission::Admitted => return KeepResult::Admitted(early),
            Admission::Refused => return KeepResult::Refused,
        }
        let bytes = state.bytes + early.bytes;
        if state.kept.len() >= MAX_KEPT || bytes > limits::EARLY {
            return KeepResult::Full;
        }
        state.bytes = bytes;
        state.kept.push(early);
        KeepResult::Kept
    }

    /// Takes the calls that were kept so far.
    pub(crate) fn take(&self) -> Vec<EarlyCall> {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.kept)
    }

    /// Applies the calls that were kept for a plugin, which was admitted. After that, the plugin's
    /// calls are served at once.
    pub(crate) async fn admit(&self, shared: &Shared, plugin: &PluginId, identity: Identity) {
        while !self.is_admitted() {
            for EarlyCall { wanted, .. } in self.take() {
                // A reload may have happened since.
                let Ok(policy) = shared.check_place(plugin, identity) else {
                    self.refuse();
                    return;
                };
                // A failure is logged and recorded in the ledger. The plugin already has its
                // answer.
                let _ = wanted.apply(&shared.services, plugin, &policy).await;
            }
        }
        self.decided.notify_waiters();
    }

    /// Returns whether no call is kept. If so, further calls are served at once.
    fn is_admitted(&self) -> bool {
        let mut state = self.state();
        let is_admitted = state.kept.is_empty();
        if is_admitted {
            state.admission = Admission::Admitted;
        }
        is_admitted
    }

    /// Drops the kept calls, because the plugin is not admitted. Returns their number.
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
