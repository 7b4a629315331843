//! The outcome of a request, for plugins that answer late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nri_proto::{Field, Owners, PluginId};
use tokio::sync::SetOnce;

use crate::api::operation::{OperationId, OperationOutcome};

/// The outcome of a request, without the plugins that did not answer in time.
///
/// A request has several versions, because plugins change what the next plugin is shown. All
/// versions share one decision.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The operation of the request, if any.
    pub(crate) operation: Option<OperationId>,
    /// The outcome of that operation.
    fate: OutcomeCell,
    /// The number of the latest container update that was recorded before the first plugin was
    /// asked.
    since: AtomicU64,
    /// The claims of the plugins. `None` if the request failed, or its caller dropped the request.
    claims: SetOnce<Option<Owners>>,
}

/// The outcome of an operation, once it has ended. Clones share the outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutcomeCell(Arc<OnceLock<OperationOutcome>>);

impl OutcomeCell {
    /// Sets the outcome of the operation. Later calls have no effect.
    pub(crate) fn is(&self, outcome: OperationOutcome) {
        _ = self.0.set(outcome);
    }
}

impl Decision {
    pub(crate) fn new(operation: OperationId, fate: OutcomeCell, since: u64) -> Self {
        Self { operation: Some(operation), fate, since: AtomicU64::new(since), ..Self::default() }
    }

    /// Returns the outcome of the operation of the request. `None` while the operation is open.
    pub(crate) fn outcome(&self) -> Option<OperationOutcome> {
        self.fate.0.get().copied()
    }

    /// Records that plugins are asked from now on. `since` is the number of the latest container
    /// update that was recorded so far.
    pub(crate) fn begins(&self, since: u64) {
        self.since.store(since, Ordering::Relaxed);
    }

    /// Returns the number of the latest container update that was recorded before the first plugin
    /// was asked.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Waits until the request is decided. Returns at once for a request outside an operation,
    /// which rolls an operation back.
    pub(crate) async fn until_decided(&self) {
        if self.operation.is_some() {
            self.claims.wait().await;
        }
    }

    /// Decides that the request succeeded, with the claims of the plugins.
    pub(crate) fn goes_on(&self, claims: Owners) {
        // A request is decided once.
        _ = self.claims.set(Some(claims));
    }

    /// Decides that the request failed or was dropped by its caller. No effect if it succeeded
    /// before.
    pub(crate) fn fails(&self) {
        _ = self.claims.set(None);
    }

    /// Returns whether the request succeeded. `None` while the request is not decided.
    pub(crate) fn has_gone_on(&self) -> Option<bool> {
        self.claims.get().map(Option::is_some)
    }

    /// Returns whether another plugin has claimed a field of a container in the request.
    pub(crate) fn is_claimed_from(&self, plugin: &PluginId, container: &str, field: Field, key: &str) -> bool {
        let claims = self.claims.get().and_then(Option::as_ref);
        let owner = claims.and_then(|claims| claims.owner(container, field, key));
        owner.is_some_and(|owner| owner.plugins().any(|other| other != plugin.as_str()))
    }
}
