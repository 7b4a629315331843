//! A future that a task takes over when its caller leaves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::instance::Instance;

/// A future that is handed to a task if it is dropped before its end.
/// [`Nri::stop`](crate::Nri::stop) waits for the future in either case.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    instance: Arc<Instance>,
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(super) fn new(instance: &Arc<Instance>, future: impl Future<Output = T> + Send + 'static) -> Self {
        let token = instance.tasks.token();
        Self { future: Some(Box::pin(future)), instance: Arc::clone(instance), _token: token }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // If the future panics, it is not put back, so no task takes it over.
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        let outcome = future.as_mut().poll(cx);
        if outcome.is_pending() {
            self.future = Some(future);
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            // If NRI has stopped, the future is dropped. It was counted as unfinished then.
            self.instance.spawn_notification(async move { drop(future.await) });
        }
    }
}
