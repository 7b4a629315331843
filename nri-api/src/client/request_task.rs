//! A request that runs in a task while its caller waits for the outcome.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nri_adaptation::RelayError;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::error::Error;
use crate::instance::Instance;

/// A request before its first poll.
pub(crate) type BoxedRequest<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A request that plugins are asked about. The first poll begins the request, which takes its place
/// among the requests about the pod; it fails unless requests are allowed. From then on a task runs
/// the request, whether or not the caller polls this future.
///
/// If this future is dropped, the request is dropped before `drop` returns, and so is its outcome.
pub(crate) struct RequestTask<T> {
    progress: Arc<Mutex<Progress<T>>>,
    /// `None` until the request was polled.
    task: Option<JoinHandle<()>>,
    instance: Arc<Instance>,
}

enum Progress<T> {
    Open(BoxedRequest<T>),
    /// `None` after the caller has taken the outcome or has left.
    Ended(Option<Result<T, Error>>),
}

impl<T: Send + 'static> RequestTask<T> {
    /// Creates a request from a future. The deadline limits everything that the request waits for.
    pub(super) fn new(instance: &Arc<Instance>, deadline: Option<Instant>, request: BoxedRequest<T>) -> Self {
        let request = match deadline {
            // The request is polled first: if it was waiting for a plugin, its own error names the
            // plugin.
            Some(deadline) => Box::pin(async move {
                timeout_at(deadline, request).await.unwrap_or_else(|_elapsed| Err(RelayError::Deadline.into()))
            }),
            None => request,
        };
        let progress = Arc::new(Mutex::new(Progress::Open(request)));
        Self { progress, task: None, instance: Arc::clone(instance) }
    }
}

impl<T> Progress<T> {
    /// Polls the request. Returns whether the request has ended or was dropped.
    fn poll(progress: &Mutex<Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut locked = progress.lock();
        let Self::Open(request) = &mut *locked else { return Poll::Ready(()) };
        let outcome = ready!(request.as_mut().poll(cx));
        *locked = Self::Ended(Some(outcome));
        Poll::Ready(())
    }

    /// Takes the outcome of a request that has ended.
    fn take(progress: &Mutex<Self>) -> Result<T, Error> {
        let Self::Ended(outcome) = &mut *progress.lock() else { unreachable!("the request has ended") };
        outcome.take().expect("the outcome is taken once")
    }
}

impl<T: Send + 'static> Future for RequestTask<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { progress, task, instance } = &mut *self;
        if task.is_none() {
            instance.startup.check()?;
            if Progress::poll(progress, cx).is_ready() {
                return Poll::Ready(Progress::take(progress));
            }
        }
        let task = task.get_or_insert_with(|| {
            let progress = Arc::clone(progress);
            instance.runtime.spawn(poll_fn(move |cx| Progress::poll(&progress, cx)).in_current_span())
        });
        Poll::Ready(match ready!(Pin::new(task).poll(cx)) {
            Ok(()) => Progress::take(progress),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The Tokio runtime was shut down.
            Err(_cancelled) => Err(Error::Stopped),
        })
    }
}

impl<T> Drop for RequestTask<T> {
    fn drop(&mut self) {
        // If the task is polling the request, this waits for the end of that poll.
        let dropped = std::mem::replace(&mut *self.progress.lock(), Progress::Ended(None));
        // Not under the lock: the request is rolled back here.
        drop(dropped);
        self.task.iter().for_each(JoinHandle::abort);
    }
}
