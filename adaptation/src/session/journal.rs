//! The requests that a plugin missed because it joins, is silent, or is suspended. A plain list,
//! without a clock.
//!
//! A request whose operation may still fail is held until the operation has ended. Only then is it
//! certain that the request took effect, and only then can the plugin's answer be applied to the
//! state in the runtime's store. Later requests about the same pod wait behind a held request;
//! requests about other pods do not. A request about an end, or about something that has already
//! happened, is never held itself.

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use nri_proto::Event;
use thiserror::Error;

use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::request::Request;

/// The bytes that a request counts beside its encoding.
const OVERHEAD: usize = 1024;
/// The bytes that an open operation counts, of which no request is in the journal yet.
const OPEN: usize = 256;

/// The end of a journal at which a request is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalEnd {
    /// Before all other requests: the plugin should have received this request already.
    Front,
    Back,
}

/// The effect of an operation's end on the journal of a plugin.
#[derive(Debug, Default)]
pub(crate) struct EndedOperation {
    /// The requests that will be delivered.
    pub(crate) told: Vec<Arc<Request>>,
    /// The held requests that were dropped, because the operation failed.
    pub(crate) dropped: Vec<Arc<Request>>,
}

/// The journal has no room for another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the plugin missed more events than its journal holds")]
pub(crate) struct JournalFull;

/// The requests to deliver to a plugin, in order.
#[derive(Debug)]
pub(crate) struct Journal {
    items: VecDeque<JournalItem>,
    bytes: usize,
    /// The bytes reserved for the plugin's own late answers, which wait for the end of their
    /// operations.
    answers: usize,
    limit: usize,
}

#[derive(Debug)]
enum JournalItem {
    /// An operation whose requests the plugin does not receive before the operation ends. The
    /// requests then replace this item.
    Open { operation: OperationId, pod: Arc<str> },
    /// A request of an operation that has not ended, and that may still fail.
    Held { operation: OperationId, request: Arc<Request> },
    /// A request that can be delivered. `operation` is the open operation that the request belongs
    /// to, if any.
    Ready { operation: Option<OperationId>, request: Arc<Request> },
}

impl Journal {
    /// Returns an empty journal that holds at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), bytes: 0, answers: 0, limit }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { answers: self.answers, ..Self::new(self.limit) };
    }

    /// Reserves room for a late answer of the plugin. Returns false if there is not enough room.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes + self.answers + bytes <= self.limit;
        if has_room {
            self.answers += bytes;
        }
        has_room
    }

    /// Frees the room of a late answer.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.answers = self.answers.saturating_sub(bytes);
    }

    /// Adds an operation about this pod that takes place without the plugin.
    pub(crate) fn open(&mut self, operation: OperationId, pod: Arc<str>) -> Result<(), JournalFull> {
        self.put(JournalItem::Open { operation, pod }, JournalEnd::Back)
    }

    /// Adds a request of an operation that has not ended. A request that cannot be vetoed is not
    /// held.
    pub(crate) fn hold(
        &mut self,
        operation: OperationId,
        request: Arc<Request>,
        end: JournalEnd,
    ) -> Result<(), JournalFull> {
        let item = match request.event().can_be_vetoed() {
            true => JournalItem::Held { operation, request },
            false => JournalItem::Ready { operation: Some(operation), request },
        };
        self.put(item, end)
    }

    /// Adds a request that is delivered whatever the outcome of any operation.
    pub(crate) fn add(&mut self, request: Arc<Request>, end: JournalEnd) -> Result<(), JournalFull> {
        self.put(JournalItem::Ready { operation: None, request }, end)
    }

    /// Ends an operation in the journal. `asked` are the requests of the operation, for a plugin
    /// that received none of them before.
    ///
    /// If the operation failed, its vetoable requests are dropped, and so are all its requests
    /// about an object that the operation was to create. All other requests are delivered.
    pub(crate) fn end(
        &mut self,
        operation: OperationId,
        asked: &[Arc<Request>],
        outcome: OperationOutcome,
    ) -> Result<EndedOperation, JournalFull> {
        let held: Vec<_> = self.items.iter().filter_map(|item| item.held_in(operation)).cloned().collect();
        let mut ended = EndedOperation::default();
        let items = std::mem::take(&mut self.items);
        for item in items {
            match item {
                JournalItem::Open { operation: of, .. } if of == operation => {
                    self.bytes -= OPEN;
                    for request in asked.iter().filter(|request| is_told(request, asked, outcome)) {
                        self.bytes += size(request);
                        ended.told.push(Arc::clone(request));
                        self.items.push_back(JournalItem::Ready { operation: None, request: Arc::clone(request) });
                    }
                }
                JournalItem::Held { operation: of, request } | JournalItem::Ready { operation: Some(of), request }
                    if of == operation =>
                {
                    if is_told(&request, &held, outcome) {
                        ended.told.push(Arc::clone(&request));
                        self.items.push_back(JournalItem::Ready { operation: None, request });
                    } else {
                        self.bytes -= size(&request);
                        ended.dropped.push(request);
                    }
                }
                item @ (JournalItem::Open { .. } | JournalItem::Held { .. } | JournalItem::Ready { .. }) => {
                    self.items.push_back(item)
                }
            }
        }
        if self.bytes + self.answers > self.limit { Err(JournalFull) } else { Ok(ended) }
    }

    /// Removes requests about the end of an object whose beginning, `begin`, the plugin has not
    /// seen. For a StartContainer, only the first request of each event is removed: a later one
    /// belongs to another run.
    pub(crate) fn forget_ends_of(&mut self, begin: &Request, mut ends: Vec<Event>) {
        let mut is_end = |request: &Request| {
            let is_about_it = id(request).is_none_or(|other| id(begin) == Some(other));
            let is_end = is_about_it && request.pod().id == begin.pod().id && ends.contains(&request.event());
            if is_end && begin.event() == Event::StartContainer {
                ends.retain(|end| *end != request.event());
            }
            is_end
        };
        let bytes = &mut self.bytes;
        self.items.retain(|item| match item {
            JournalItem::Ready { request, .. } if is_end(request) => {
                *bytes -= size(request);
                false
            }
            JournalItem::Ready { .. } | JournalItem::Held { .. } | JournalItem::Open { .. } => true,
        });
    }

    /// Removes and returns the next request that can be delivered, about a pod that is not busy.
    pub(crate) fn pop(&mut self, is_busy: impl Fn(&str) -> bool) -> Option<Arc<Request>> {
        let (at, _) = self.ready().find(|(_, request)| !is_busy(&request.pod().id))?;
        let Some(JournalItem::Ready { request, .. }) = self.items.remove(at) else { return None };
        self.bytes -= size(&request);
        Some(request)
    }

    /// Returns whether a request can be delivered.
    pub(crate) fn has_ready(&self) -> bool {
        self.has_ready_but(|_| false)
    }

    /// Returns whether a request can be delivered about a pod that is not busy.
    pub(crate) fn has_ready_but(&self, is_busy: impl Fn(&str) -> bool) -> bool {
        self.ready().any(|(_, request)| !is_busy(&request.pod().id))
    }

    /// Returns whether a request about this pod can be delivered.
    pub(crate) fn has_ready_about(&self, pod: &str) -> bool {
        self.ready().any(|(_, request)| request.pod().id == pod)
    }

    /// Returns the number of requests that can be delivered now. Requests that wait behind an open
    /// operation are not counted: the plugin is not responsible for their delay.
    pub(crate) fn n_ready(&self) -> usize {
        self.ready().count()
    }

    /// Returns the number of requests about this pod that can be delivered now.
    pub(crate) fn n_ready_about(&self, pod: &str) -> usize {
        self.ready().filter(|(_, request)| request.pod().id == pod).count()
    }

    /// Returns whether the journal has an item about this pod.
    pub(crate) fn concerns(&self, pod: &str) -> bool {
        self.items.iter().any(|item| item.pod() == pod)
    }

    /// Returns whether an item about this pod waits for the end of an operation.
    pub(crate) fn holds(&self, pod: &str) -> bool {
        self.items.iter().any(|item| !matches!(item, JournalItem::Ready { .. }) && item.pod() == pod)
    }

    /// Returns whether items about this pod wait for the end of operations, none of which is
    /// `operation`. An operation cannot wait for itself.
    pub(crate) fn holds_for_others(&self, pod: &str, operation: OperationId) -> bool {
        self.holds(pod) && !self.waits_for(operation)
    }

    /// Returns whether an item waits for the end of this operation.
    pub(crate) fn waits_for(&self, operation: OperationId) -> bool {
        self.items.iter().any(|item| match item {
            JournalItem::Open { operation: of, .. } | JournalItem::Held { operation: of, .. } => *of == operation,
            JournalItem::Ready { .. } => false,
        })
    }

    /// Returns the requests that can be delivered, in order, each with its place: requests before
    /// which no item about the same pod waits for an operation.
    fn ready(&self) -> impl Iterator<Item = (usize, &Request)> {
        let mut held = HashSet::new();
        self.items.iter().enumerate().filter_map(move |(place, item)| match item {
            JournalItem::Ready { request, .. } => {
                let is_free = held.is_empty() || !held.contains(&*request.pod().id);
                is_free.then_some((place, &**request))
            }
            JournalItem::Open { .. } | JournalItem::Held { .. } => {
                held.insert(item.pod());
                None
            }
        })
    }

    fn put(&mut self, item: JournalItem, end: JournalEnd) -> Result<(), JournalFull> {
        let size = item.size();
        if self.bytes + self.answers + size > self.limit {
            return Err(JournalFull);
        }
        self.bytes += size;
        match end {
            JournalEnd::Front => self.items.push_front(item),
            JournalEnd::Back => self.items.push_back(item),
        }
        Ok(())
    }
}

impl JournalItem {
    fn pod(&self) -> &str {
        match self {
            Self::Open { pod, .. } => pod,
            Self::Held { request, .. } | Self::Ready { request, .. } => &request.pod().id,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Open { .. } => OPEN,
            Self::Held { request, .. } | Self::Ready { request, .. } => size(request),
        }
    }

    fn held_in(&self, operation: OperationId) -> Option<&Arc<Request>> {
        match self {
            Self::Held { operation: of, request } if *of == operation => Some(request),
            Self::Held { .. } | Self::Open { .. } | Self::Ready { .. } => None,
        }
    }
}

/// Returns whether a plugin that received none of the requests `asked` of an operation receives
/// `request`, given the outcome of the operation.
pub(crate) fn is_told(request: &Request, asked: &[Arc<Request>], outcome: OperationOutcome) -> bool {
    match outcome {
        OperationOutcome::Committed => true,
        OperationOutcome::Failed => {
            !request.event().can_be_vetoed() && !asked.iter().any(|other| begins(other, request))
        }
    }
}

/// Returns whether `first` was to create the object that `other`, in the same operation, is about.
fn begins(first: &Request, other: &Request) -> bool {
    let event = first.event();
    event == Event::RunPodSandbox || event == Event::CreateContainer && id(first) == id(other)
}

fn id(request: &Request) -> Option<&str> {
    request.container().map(|container| &*container.id)
}

fn size(request: &Request) -> usize {
    OVERHEAD + request.n_bytes()
}
