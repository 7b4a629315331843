//! Requests that a plugin misses while it joins, is silent or is suspended, and how they get into
//! its journal.

use std::sync::Arc;

use nri_proto::Event;

use super::PluginSession;
use super::RequestScope;
use super::SessionStage;
use super::Standing;
use crate::api::health::{Effect, State};
use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::request::Request;
use crate::mistake::Mistake;
use crate::session::journal::{EndedOperation, Journal, JournalEnd, JournalFull};
use crate::session::open_operation::OpenOperation;

impl PluginSession {
    /// Adds a request that the plugin missed to its journal, or to the operation that the request
    /// belongs to. A validation is not kept: a verdict is useless after its request was decided.
    pub(crate) fn keep(
        self: &Arc<Self>,
        request: &Arc<Request>,
        operation: Option<&Arc<dyn OpenOperation>>,
        end: JournalEnd,
    ) {
        if request.event() == Event::ValidateContainerAdjustment {
            return;
        }
        if matches!(request.event(), Event::RemoveContainer | Event::RemovePodSandbox)
            && Mistake::RemoveForgotten.is_injected()
        {
            return;
        }
        match operation {
            Some(operation) => operation.hold(self, request, end),
            None => _ = self.note(|journal| journal.add(Arc::clone(request), end)),
        }
    }

    /// Keeps a request that skips the plugin. A rollback of something that the plugin has not seen
    /// is not kept.
    pub(super) fn pass_over(self: &Arc<Self>, request: &Arc<Request>, part: RequestScope<'_>) {
        match part {
            RequestScope::Undoes(operation) => operation.hold_rollback(self, request),
            RequestScope::Alone | RequestScope::Of { .. } => self.keep(request, part.operation(), JournalEnd::Back),
        }
    }

    /// Applies the end of an operation to the journal. `asked` are the requests of the operation,
    /// for a plugin that received none of them before.
    pub(crate) fn hears_of(
        self: &Arc<Self>,
        operation: OperationId,
        asked: &[Arc<Request>],
        outcome: OperationOutcome,
    ) -> EndedOperation {
        let ended = self.note(|journal| journal.end(operation, asked, outcome));
        // A request may wait for items that were held by this operation.
        self.changed.notify_waiters();
        ended.unwrap_or_default()
    }

    /// Returns whether the journal has items that wait for the end of this operation.
    pub(crate) fn waits_for(&self, operation: OperationId) -> bool {
        self.standing().journal.waits_for(operation)
    }

    /// Writes to the journal. If the journal has no room, it is cleared; a plugin that has joined
    /// is then closed, and a joining plugin has to begin its join again.
    pub(crate) fn note<T>(self: &Arc<Self>, write: impl FnOnce(&mut Journal) -> Result<T, JournalFull>) -> Option<T> {
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
                    self.close("it missed more events than its journal holds");
                }
                None
            }
        }
    }

    /// Begins the journal of a joining plugin: every request is added from now on, and none is
    /// delivered.
    pub(crate) fn listens(&self) {
        let mut standing = self.standing();
        standing.journal.clear();
        standing.deliveries.hold_back();
        standing.deaf = standing.health.state() == State::Closed;
    }

    /// Ends the journal: nothing is added any more.
    pub(crate) fn stops_listening(&self) {
        {
            let mut standing = self.standing();
            standing.deaf = true;
            standing.journal.clear();
        }
        self.changed.notify_waiters();
    }

    /// Returns whether nothing is added to the journal, for example because it has overflowed.
    pub(crate) fn is_deaf(&self) -> bool {
        self.standing().deaf
    }

    /// Reserves room in the journal for a late answer of the plugin. Returns false if there is not
    /// enough room.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        self.standing().journal.reserve(bytes)
    }

    /// Frees the room of a late answer.
    pub(crate) fn release(&self, bytes: usize) {
        self.standing().journal.release(bytes);
    }
}
