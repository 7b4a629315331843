//! The way from one namespace to plugins.

pub(crate) mod guards;
pub(crate) mod start;
pub(crate) mod stop_remove;
pub(crate) mod update;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use nri_adaptation::Operation;
use nri_proto::Pod;
use tokio::time::{Instant, timeout};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::instance::Instance;
use crate::lifecycle::namespace::Namespace;

/// One namespace's way to plugins.
#[derive(Clone)]
pub(crate) struct NamespaceClient {
    pub(crate) instance: Arc<Instance>,
    pub(crate) namespace: Arc<Namespace>,
    /// The caller's own.
    pub(crate) deadline: Option<Instant>,
}

impl NamespaceClient {
    /// Begins an act of the runtime.
    pub(crate) fn begin(&self, pod: &Arc<Pod>) -> Operation {
        let operation = self.instance.adaptation.begin(Arc::clone(pod));
        match self.deadline {
            Some(deadline) => operation.until(deadline),
            None => operation,
        }
    }

    /// Does something that is done to its end, also if nobody waits for it any more.
    pub(crate) fn finish<T: Send + 'static>(&self, act: impl Future<Output = T> + Send + 'static) -> DetachOnDrop<T> {
        DetachOnDrop {
            act: Some(Box::pin(act)),
            instance: Arc::clone(&self.instance),
            _token: self.instance.tasks.token(),
        }
    }
}

/// How long an end waits for a caller that could go on, and does not.
const PATIENCE: Duration = Duration::from_secs(2);

impl NamespaceClient {
    /// Does what ends something in a pod. What it may wait for, and a caller does not go on with, is taken from that caller.
    pub(crate) fn insist<T>(&self, pod: &str, end: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        // Not an async function: the end would lie in its future twice.
        let mut end = Box::pin(end);
        async move {
            loop {
                match timeout(PATIENCE, end.as_mut()).await {
                    Ok(outcome) => return outcome,
                    Err(_elapsed) => self.namespace.pull_reins(pod, PATIENCE),
                }
            }
        }
    }
}

/// A future that is handed to a task if it is dropped before its end. [`Nri::stop`](crate::Nri::stop) waits for it.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    act: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    instance: Arc<Instance>,
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // One that panics is not there any more, so nobody goes on with it.
        let Some(mut act) = self.act.take() else { return Poll::Pending };
        let outcome = act.as_mut().poll(cx);
        if outcome.is_pending() {
            self.act = Some(act);
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(act) = self.act.take() {
            // If nothing is told any more it was counted, as all that was begun and not done then.
            self.instance.tell(async move { drop(act.await) });
        }
    }
}
