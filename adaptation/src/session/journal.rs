//! What happened while a plugin could not be told: it joins, is silent, or is suspended. A plain
//! list, without a clock.
//!
//! What may still come to nothing stays held until its operation has ended. Only then is it known
//! whether it has happened, and only then can what a plugin answers be applied to what the
//! runtime's store shows. What follows about the same pod waits behind it; other pods do not. An
//! end, or what has happened already, waits for nothing else.

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use nri_proto::Event;
use thiserror::Error;

use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::request::Request;

/// What a request costs beside its encoding.
const OVERHEAD: usize = 1024;
/// What an operation costs of which nothing is here yet.
const OPEN: usize = 256;

/// Which end of a journal something is put at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Before all else: the plugin should have had it already.
    Front,
    Back,
}

/// What a plugin is told when an operation has ended.
#[derive(Debug, Default)]
pub(crate) struct EndedOperation {
    /// The plugin will be told.
    pub(crate) told: Vec<Arc<Request>>,
    /// It held on to this, and does not get to see it after all.
    pub(crate) dropped: Vec<Arc<Request>>,
}

/// There is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("more happened than is kept for the plugin")]
pub(crate) struct Full;

/// What a plugin is to be told, in order.
#[derive(Debug)]
pub(crate) struct Journal {
    items: VecDeque<JournalItem>,
    bytes: usize,
    /// The bytes of the plugin's own late answers, which wait for the end of their operations.
    answers: usize,
    limit: usize,
}

#[derive(Debug)]
enum JournalItem {
    /// An operation of which the plugin sees nothing until it ends: all that was asked in it comes
    /// here then.
    Open { operation: OperationId, pod: Arc<str> },
    /// Asked in an operation that has not ended.
    Held { operation: OperationId, request: Arc<Request> },
    /// To be told.
    Ready { operation: Option<OperationId>, request: Arc<Request> },
}

impl Journal {
    /// One that holds at most so many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), bytes: 0, answers: 0, limit }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { answers: self.answers, ..Self::new(self.limit) };
    }

    /// Makes room for a late answer of the plugin. False if there is none.
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

    /// An operation about this pod takes place without the plugin.
    pub(crate) fn open(&mut self, operation: OperationId, pod: Arc<str>) -> Result<(), Full> {
        self.put(JournalItem::Open { operation, pod }, End::Back)
    }

    /// Something was asked in an operation that has not ended.
    pub(crate) fn hold(&mut self, operation: OperationId, request: Arc<Request>, end: End) -> Result<(), Full> {
        let item = match request.event().can_be_vetoed() {
            true => JournalItem::Held { operation, request },
            false => JournalItem::Ready { operation: Some(operation), request },
        };
        self.put(item, end)
    }

    /// Something that is so in any case.
    pub(crate) fn add(&mut self, request: Arc<Request>, end: End) -> Result<(), Full> {
        self.put(JournalItem::Ready { operation: None, request }, end)
    }

    /// An operation has ended. `asked` is what was asked in it, if the plugin saw nothing of it.
    ///
    /// Of one that failed nothing is told that was only to be, nor anything about what it was to
    /// begin. But what ends has ended.
    pub(crate) fn end(
        &mut self,
        operation: OperationId,
        asked: &[Arc<Request>],
        outcome: OperationOutcome,
    ) -> Result<EndedOperation, Full> {
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
        if self.bytes + self.answers > self.limit { Err(Full) } else { Ok(ended) }
    }

    /// What a request was to begin has not been seen: these ends of it are not told, either. Of a
    /// start only the first of each is one of them: what comes behind is the end of another run.
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

    /// Takes the next request that the plugin can be told, about a pod that is not busy.
    pub(crate) fn pop(&mut self, is_busy: impl Fn(&str) -> bool) -> Option<Arc<Request>> {
        let (at, _) = self.ready().find(|(_, request)| !is_busy(&request.pod().id))?;
        let Some(JournalItem::Ready { request, .. }) = self.items.remove(at) else { return None };
        self.bytes -= size(&request);
        Some(request)
    }

    /// Whether there is a request that the plugin can be told.
    pub(crate) fn has_ready(&self) -> bool {
        self.has_ready_but(|_| false)
    }

    /// Whether there is a request that the plugin can be told, about a pod that is not busy.
    pub(crate) fn has_ready_but(&self, is_busy: impl Fn(&str) -> bool) -> bool {
        self.ready().any(|(_, request)| !is_busy(&request.pod().id))
    }

    /// Whether there is a request about this pod that the plugin can be told.
    pub(crate) fn has_ready_about(&self, pod: &str) -> bool {
        self.ready().any(|(_, request)| request.pod().id == pod)
    }

    /// Returns the number of requests that the plugin can be told now. What waits behind an open
    /// operation is not counted: that it becomes no shorter is not the plugin's doing.
    pub(crate) fn n_ready(&self) -> usize {
        self.ready().count()
    }

    /// Returns the number of requests about this pod that the plugin can be told.
    pub(crate) fn n_ready_about(&self, pod: &str) -> usize {
        self.ready().filter(|(_, request)| request.pod().id == pod).count()
    }

    /// Whether the plugin has yet to hear something about this pod.
    pub(crate) fn concerns(&self, pod: &str) -> bool {
        self.items.iter().any(|item| item.pod() == pod)
    }

    /// Whether something about this pod waits for the end of an operation.
    pub(crate) fn holds(&self, pod: &str) -> bool {
        self.items.iter().any(|item| !matches!(item, JournalItem::Ready { .. }) && item.pod() == pod)
    }

    /// Whether something about this pod waits for the end of other operations than this one, which
    /// cannot wait for itself.
    pub(crate) fn holds_for_others(&self, pod: &str, operation: OperationId) -> bool {
        self.holds(pod) && !self.waits_for(operation)
    }

    /// Whether something waits for the end of this operation.
    pub(crate) fn waits_for(&self, operation: OperationId) -> bool {
        self.items.iter().any(|item| match item {
            JournalItem::Open { operation: of, .. } | JournalItem::Held { operation: of, .. } => *of == operation,
            JournalItem::Ready { .. } => false,
        })
    }

    /// Returns the requests that wait for no operation about their pod, in order, each with its
    /// place.
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

    fn put(&mut self, item: JournalItem, end: End) -> Result<(), Full> {
        let size = item.size();
        if self.bytes + self.answers + size > self.limit {
            return Err(Full);
        }
        self.bytes += size;
        match end {
            End::Front => self.items.push_front(item),
            End::Back => self.items.push_back(item),
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

/// Whether a plugin is told something that was asked in an operation, of which it has seen nothing
/// but `asked`.
pub(crate) fn is_told(request: &Request, asked: &[Arc<Request>], outcome: OperationOutcome) -> bool {
    match outcome {
        OperationOutcome::Committed => true,
        OperationOutcome::Failed => {
            !request.event().can_be_vetoed() && !asked.iter().any(|other| begins(other, request))
        }
    }
}

/// Whether a request was to begin what another one, in the same operation, is about.
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
