//! The body of a gRPC response, guarded so that its panic does not end the connection.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;
use tonic::body::Body;

use crate::server::{CallGuard, SHUTTING_DOWN, report_panic};

/// A response body that ends with `INTERNAL` if it panics, and with `UNAVAILABLE` when the shim
/// gives up all calls.
pub(super) struct GuardedBody {
    path: String,
    body: Body,
    abandoned: Pin<Box<WaitForCancellationFutureOwned>>,
    is_done: bool,
    /// Makes the end of the shim wait for this body, up to a limit.
    _token: TaskTrackerToken,
}

impl GuardedBody {
    pub(super) fn new(path: String, body: Body, guard: &CallGuard) -> Self {
        let (abandoned, token) = guard.watch();
        Self { path, body, abandoned: Box::pin(abandoned), is_done: false, _token: token }
    }

    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.is_done = true;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.is_done {
            return Poll::Ready(None);
        }
        let body = Pin::new(&mut this.body);
        match std::panic::catch_unwind(AssertUnwindSafe(|| body.poll_frame(context))) {
            Ok(Poll::Pending) if this.abandoned.as_mut().poll(context).is_ready() => {
                this.end(&Status::unavailable(SHUTTING_DOWN))
            }
            Ok(polled) => polled,
            Err(panic) => {
                let text = report_panic(&this.path, &*panic);
                this.end(&Status::internal(text))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_done || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
