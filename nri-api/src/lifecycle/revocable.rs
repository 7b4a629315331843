//! A future that can be taken from its owner if the owner stops polling it.
//!
//! While plugins are asked about a create, a start or an update, the request proceeds only when its
//! caller polls it, and later requests about the pod are queued behind it. A caller that keeps the
//! future without polling would delay the end of everything in the pod, so such an end may cancel
//! the future.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use nri_adaptation::RelayError;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::Error;

/// A future that others can cancel through [`Revoke`].
pub(crate) struct Revocable<T>(Arc<Shared<T>>);

type BoxedRequest<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Shared by the future and the wakers that it hands out.
struct Shared<T> {
    slot: Mutex<Slot<T>>,
    owner: AtomicWaker,
    /// Whether the future was woken, and its owner has not polled it since.
    is_woken: AtomicBool,
}

struct Slot<T> {
    /// `None` after the request has ended or was cancelled.
    request: Option<BoxedRequest<T>>,
    /// The deadline of the caller. The request is dropped when it expires.
    deadline: Option<Pin<Box<Sleep>>>,
    /// When the owner was first found not to poll a future that was woken.
    idle_since: Option<Instant>,
}

impl<T> Slot<T> {
    fn is_deadline_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready())
    }
}

/// Cancels a future that its owner does not poll.
pub(crate) trait Revoke: Send + Sync {
    /// Cancels the future if its owner has not polled it for `patience` after it was woken. The
    /// time is counted from the first call that finds the future idle.
    fn revoke_if_idle(&self, patience: Duration);
}

impl<T: 'static> Revocable<T> {
    /// Creates a future from `make`, which gets the handle that cancels it. The caller's deadline
    /// limits everything that the future waits for.
    pub(crate) fn new<F>(deadline: Option<Instant>, make: impl FnOnce(Weak<dyn Revoke>) -> F) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        Self(Arc::new_cyclic(|shared: &Weak<Shared<T>>| {
            let request: BoxedRequest<T> = Box::pin(make(Weak::clone(shared) as Weak<dyn Revoke>));
            let deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
            let slot = Mutex::new(Slot { request: Some(request), deadline, idle_since: None });
            Shared { slot, owner: AtomicWaker::new(), is_woken: AtomicBool::new(false) }
        }))
    }
}

impl<T: 'static> Future for Revocable<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &self.0;
        shared.owner.register(cx.waker());
        let waker = Waker::from(Arc::clone(shared));
        // `revoke_if_idle` only tries to take this lock.
        let mut slot = shared.slot.lock();
        shared.is_woken.store(false, Ordering::Release);
        slot.idle_since = None;
        let Some(request) = &mut slot.request else { return Poll::Ready(Err(Error::GivenUp)) };
        let mut cx = Context::from_waker(&waker);
        let mut outcome = request.as_mut().poll(&mut cx);
        // The request is polled first: if it was waiting for a plugin, its own error names the
        // plugin.
        if outcome.is_pending() && slot.is_deadline_over(&mut cx) {
            outcome = Poll::Ready(Err(RelayError::Deadline.into()));
        }
        if outcome.is_ready() {
            let ended = slot.request.take();
            drop(slot);
            drop(ended);
        }
        outcome
    }
}

impl<T: 'static> Wake for Shared<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.owner.wake();
    }
}

impl<T: 'static> Revoke for Shared<T> {
    fn revoke_if_idle(&self, patience: Duration) {
        // If the lock is taken, the owner is polling the future right now.
        let Some(mut slot) = self.slot.try_lock() else { return };
        if !self.is_woken.load(Ordering::Acquire) {
            return;
        }
        if slot.idle_since.get_or_insert_with(Instant::now).elapsed() < patience {
            return;
        }
        let cancelled = slot.request.take();
        drop(slot);
        drop(cancelled);
    }
}

impl<T> Drop for Revocable<T> {
    fn drop(&mut self) {
        // Drops the request now: wakers share the slot, and others may keep them for long.
        let cancelled = self.0.slot.lock().request.take();
        drop(cancelled);
    }
}
