//! What a caller has begun, and can be taken from it if it does not go on.
//!
//! While plugins are asked about a create, a start or an update, that goes on only as its caller looks at it, and
//! whatever else is asked about the pod waits behind it. A caller that keeps the future and does not look at it would hold up the ends of all that is in the pod.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use nri_adaptation::RelayError;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::Error;

/// A future that can be taken from whoever has it.
pub(crate) struct Revocable<T>(Arc<Slot<T>>);

type BoxedRequest<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

struct Slot<T> {
    act: Mutex<SlotState<T>>,
    caller: AtomicWaker,
    /// It could go on, and its caller has not looked at it since.
    is_woken: AtomicBool,
}

struct SlotState<T> {
    /// There until it is done, or was taken.
    act: Option<BoxedRequest<T>>,
    /// The deadline of the caller. The future is dropped when it is over.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Since when its caller is known not to look at it.
    since: Option<Instant>,
}

impl<T> SlotState<T> {
    /// Whether the deadline of the caller is over.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready())
    }
}

/// What takes a future from a caller that does not go on with it.
pub(crate) trait Revoke: Send + Sync {
    /// Drops it if its caller has not looked at it for so long since it was first asked so, although it could have gone on.
    fn pull(&self, patience: Duration);
}

impl<T: 'static> Revocable<T> {
    /// What is made is told how to take it. The caller may have a deadline for all that the future waits for.
    pub(crate) fn new<F>(deadline: Option<Instant>, make: impl FnOnce(Weak<dyn Revoke>) -> F) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        Self(Arc::new_cyclic(|slot: &Weak<Slot<T>>| {
            let act: BoxedRequest<T> = Box::pin(make(Weak::clone(slot) as Weak<dyn Revoke>));
            let deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
            let act = Mutex::new(SlotState { act: Some(act), deadline, since: None });
            Slot { act, caller: AtomicWaker::new(), is_woken: AtomicBool::new(false) }
        }))
    }
}

impl<T: 'static> Future for Revocable<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = &self.0;
        slot.caller.register(cx.waker());
        let waker = Waker::from(Arc::clone(slot));
        // Whoever pulls the revoke only tries this lock.
        let mut held = slot.act.lock().unwrap_or_else(PoisonError::into_inner);
        slot.is_woken.store(false, Ordering::Release);
        held.since = None;
        let Some(act) = &mut held.act else { return Poll::Ready(Err(Error::GivenUp)) };
        let mut cx = Context::from_waker(&waker);
        let mut outcome = act.as_mut().poll(&mut cx);
        // The future comes first: if it was waiting for a plugin, its own error names that plugin.
        if outcome.is_pending() && held.is_over(&mut cx) {
            outcome = Poll::Ready(Err(RelayError::Deadline.into()));
        }
        if outcome.is_ready() {
            let done = held.act.take();
            drop(held);
            drop(done);
        }
        outcome
    }
}

impl<T: 'static> Wake for Slot<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.caller.wake();
    }
}

impl<T: 'static> Revoke for Slot<T> {
    fn pull(&self, patience: Duration) {
        // Its caller is looking at it right now if the lock is held.
        let Ok(mut held) = self.act.try_lock() else { return };
        if !self.is_woken.load(Ordering::Acquire) {
            return;
        }
        if held.since.get_or_insert_with(Instant::now).elapsed() < patience {
            return;
        }
        let given_up = held.act.take();
        drop(held);
        drop(given_up);
    }
}

impl<T> Drop for Revocable<T> {
    fn drop(&mut self) {
        // Not when the last waker goes, which others may keep for long.
        let given_up = self.0.act.lock().unwrap_or_else(PoisonError::into_inner).act.take();
        drop(given_up);
    }
}
