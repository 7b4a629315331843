//! What a plugin missed while it was silent.

use std::collections::VecDeque;
use std::sync::Arc;

use nri_proto::Event;

use crate::request::Request;

/// How many bytes of requests are kept for a plugin.
const LIMIT: usize = 4 << 20;
/// What a request costs beside its encoding.
const OVERHEAD: usize = 256;

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
        let size = OVERHEAD + request.bytes().len();
        if self.bytes + size > LIMIT {
            return false;
        }
        self.bytes += size;
        self.requests.push_back(Arc::clone(request));
        true
    }

    /// The oldest one.
    pub(crate) fn pop(&mut self) -> Option<Arc<Request>> {
        let request = self.requests.pop_front()?;
        self.bytes -= OVERHEAD + request.bytes().len();
        Some(request)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

fn is_end(event: Event) -> bool {
    matches!(event, Event::StopPodSandbox | Event::RemovePodSandbox | Event::StopContainer | Event::RemoveContainer)
}
