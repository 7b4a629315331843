//! What a plugin missed while it could not be asked.

use std::collections::VecDeque;
use std::sync::Arc;

use nri_proto::Event;

use crate::budget;
use crate::request::Request;

/// What a request costs beside its encoding.
const OVERHEAD: usize = 1024;

/// The ends that a plugin was passed over for, in order. It must hear of each, or it would count
/// for ever on what is gone.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    requests: VecDeque<Arc<Request>>,
    bytes: usize,
}

impl Missed {
    /// Keeps a request if it is the end of something. False if there is no room for it.
    pub(crate) fn push(&mut self, request: &Arc<Request>) -> bool {
        if !is_end(request.event()) {
            return true;
        }
        let size = size(request);
        if self.bytes + size > budget::MISSED {
            return false;
        }
        self.bytes += size;
        self.requests.push_back(Arc::clone(request));
        true
    }

    /// The oldest one.
    pub(crate) fn pop(&mut self) -> Option<Arc<Request>> {
        let request = self.requests.pop_front()?;
        self.bytes -= size(&request);
        Some(request)
    }

    /// Puts the oldest one back: the plugin has not taken it.
    pub(crate) fn put_back(&mut self, request: Arc<Request>) {
        self.bytes += size(&request);
        self.requests.push_front(request);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// Twice its encoding: a request also holds the words that it was made from.
fn size(request: &Request) -> usize {
    OVERHEAD + 2 * request.bytes().len()
}

fn is_end(event: Event) -> bool {
    matches!(event, Event::StopPodSandbox | Event::RemovePodSandbox | Event::StopContainer | Event::RemoveContainer)
}
