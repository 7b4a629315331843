//! What a plugin misses while it joins, is silent or is suspended, and how it hears of that.

use std::sync::Arc;

use nri_proto::Event;

use super::PluginSession;
use super::RequestScope;
use super::SessionStage;
use super::Standing;
use crate::api::health::{Effect, State};
use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::request::Request;
use crate::session::faults::Mistake;
use crate::session::journal::{End, EndedOperation, Full, Journal};
use crate::session::open_operation::OpenOperation;

impl PluginSession {
    /// Keeps a request for later. What is to be judged now is of no use later.
    pub(crate) fn keep(self: &Arc<Self>, request: &Arc<Request>, operation: Option<&Arc<dyn OpenOperation>>, end: End) {
        if request.event() == Event::ValidateContainerAdjustment {
            return;
        }
        if matches!(request.event(), Event::RemoveContainer | Event::RemovePodSandbox)
            && self.services.makes(Mistake::RemoveForgotten)
        {
            return;
        }
        match operation {
            Some(operation) => operation.hold(self, request, end),
            None => _ = self.note(|journal| journal.add(Arc::clone(request), end)),
        }
    }

    /// It is passed over for a request, which is kept for later.
    pub(super) fn pass_over(self: &Arc<Self>, request: &Arc<Request>, part: RequestScope<'_>) {
        match part {
            RequestScope::Undoes(operation) => operation.hold_rollback(self, request),
            RequestScope::Alone | RequestScope::Of { .. } => self.keep(request, part.operation(), End::Back),
        }
    }

    /// An operation that it waited for has ended.
    pub(crate) fn hears_of(
        self: &Arc<Self>,
        operation: OperationId,
        asked: &[Arc<Request>],
        outcome: OperationOutcome,
    ) -> EndedOperation {
        let ended = self.note(|journal| journal.end(operation, asked, outcome));
        // Someone may wait behind it.
        self.changed.notify_waiters();
        ended.unwrap_or_default()
    }

    /// Whether something that it is to hear waits for the end of this operation.
    pub(crate) fn waits_for(&self, operation: OperationId) -> bool {
        self.standing().journal.waits_for(operation)
    }

    /// Writes into its journal. One that missed more than can be kept is closed; one that joins has
    /// to begin again.
    pub(crate) fn note<T>(self: &Arc<Self>, write: impl FnOnce(&mut Journal) -> Result<T, Full>) -> Option<T> {
        let write = |standing: &mut Standing| {
            if standing.deaf {
                return (Ok(None), Effect::None);
            }
            let written = write(&mut standing.journal);
            if written.is_err() {
                standing.deaf = true;
                standing.journal.clear();
            }
            (written.map(Some).map_err(|full| (full, standing.stage != SessionStage::Joining)), Effect::None)
        };
        match self.update(write, "") {
            Ok(written) => written,
            Err((_full, joined)) => {
                if joined {
                    self.close("it missed more than is kept for it");
                }
                None
            }
        }
    }

    /// It joins from now on: all that happens is kept for it.
    pub(crate) fn listens(&self) {
        let mut standing = self.standing();
        standing.journal.clear();
        standing.deliveries.hold_back();
        standing.deaf = standing.health.state() == State::Closed;
    }

    /// It does not join after all.
    pub(crate) fn stops_listening(&self) {
        {
            let mut standing = self.standing();
            standing.deaf = true;
            standing.journal.clear();
        }
        self.changed.notify_waiters();
    }

    /// Whether more happened than is kept for it.
    pub(crate) fn is_deaf(&self) -> bool {
        self.standing().deaf
    }

    /// Makes room for a late answer of the plugin. False if there is none.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        self.standing().journal.reserve(bytes)
    }

    /// Frees the room of a late answer.
    pub(crate) fn release(&self, bytes: usize) {
        self.standing().journal.release(bytes);
    }
}
