//! The outcome of a request, for plugins that answer the request late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nri_proto::{Field, Owners, PluginId};
use tokio::sync::Notify;

use crate::api::operation::{OperationId, OperationOutcome};

/// The outcome of a request without the plugins that had no say in it.
///
/// All versions of one request share one decision: plugins change what the next plugin is shown.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The operation of the request, if there is one.
    pub(crate) operation: Option<OperationId>,
    /// How that operation has ended.
    fate: Fate,
    /// The number of the last update of a container before plugins were asked.
    since: AtomicU64,
    /// The claims of plugins in the request; `None` if the request failed, or its caller left.
    claims: OnceLock<Option<Owners>>,
    /// Rung when the request is decided.
    decided: Notify,
}

/// The outcome of an operation, once it has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate(Arc<OnceLock<OperationOutcome>>);

impl Fate {
    /// The operation has ended. What was said first counts.
    pub(crate) fn is(&self, outcome: OperationOutcome) {
        _ = self.0.set(outcome);
    }
}

impl Decision {
    pub(crate) fn new(operation: OperationId, fate: Fate, since: u64) -> Self {
        Self { operation: Some(operation), fate, since: AtomicU64::new(since), ..Self::default() }
    }

    /// How the operation of the request has ended. `None` while it is open.
    pub(crate) fn outcome(&self) -> Option<OperationOutcome> {
        self.fate.0.get().copied()
    }

    /// Plugins are asked from now on: the request has the turn of its pod.
    pub(crate) fn begins(&self, since: u64) {
        self.since.store(since, Ordering::Relaxed);
    }

    /// Returns the number of the last update of a container before plugins were asked.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Waits until the request is decided. A request that is not made in an operation undoes one.
    pub(crate) async fn until_decided(&self) {
        let decided = self.decided.notified();
        tokio::pin!(decided);
        decided.as_mut().enable();
        if self.operation.is_some() && self.claims.get().is_none() {
            decided.await;
        }
    }

    /// The request has gone on, and this is what plugins claimed in it.
    pub(crate) fn goes_on(&self, claims: Owners) {
        // A request is decided once.
        _ = self.claims.set(Some(claims));
        self.decided.notify_waiters();
    }

    /// The request has failed, or its caller has left, unless the request has gone on.
    pub(crate) fn fails(&self) {
        _ = self.claims.set(None);
        self.decided.notify_waiters();
    }

    /// Whether the request has gone on. `None` while it is not decided.
    pub(crate) fn has_gone_on(&self) -> Option<bool> {
        self.claims.get().map(Option::is_some)
    }

    /// Whether another plugin has claimed a field of a container in the request.
    pub(crate) fn is_claimed_from(&self, plugin: &PluginId, container: &str, field: Field, key: &str) -> bool {
        let claims = self.claims.get().and_then(Option::as_ref);
        let owner = claims.and_then(|claims| claims.owner(container, field, key));
        owner.is_some_and(|owner| owner.plugins().any(|other| other != plugin.as_str()))
    }
}
