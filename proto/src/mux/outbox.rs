//! The outgoing data of a connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::Closed;

/// The maximum number of slices in one vectored write.
const SLICES: usize = 16;
/// The memory that each part of a frame takes in addition to its bytes. It counts against the
/// limit, because a peer can cause many small replies.
const PART: usize = 128;

type BoxedWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// The send queue of a connection.
///
/// While the queue is empty, the sending task writes to the socket itself, which avoids a switch of
/// tasks. Data that the socket does not accept is queued, and from then on only the pump writes. It
/// completes what was begun even if the sender no longer waits, so that no frame is left
/// incomplete.
pub(super) struct Outbox {
    /// `None` once the connection has ended: dropping the writer notifies the peer.
    writer: Option<BoxedWriter>,
    queue: VecDeque<Bytes>,
    queued: usize,
    limit: usize,
    closed: Option<Closed>,
    /// Whether the connection is to be closed when the queue is empty.
    finishing: bool,
    pump: Option<Waker>,
    /// The wakers of the writers that wait for room, by the index of their channel.
    writers: Vec<Option<Waker>>,
    /// Notifies senders of whole messages that there is room.
    room: Arc<Notify>,
}

impl Outbox {
    pub(super) fn new(writer: BoxedWriter, n_channels: usize, limit: usize) -> Self {
        Self {
            writer: Some(writer),
            queue: VecDeque::new(),
            queued: 0,
            limit,
            closed: None,
            finishing: false,
            pump: None,
            writers: vec![None; n_channels],
            room: Arc::default(),
        }
    }

    /// Returns whether `length` more bytes may be sent now. If not, [`Outbox::room`] notifies when
    /// to try again.
    pub(super) fn has_room(&self, length: usize) -> Result<bool, Closed> {
        match &self.closed {
            Some(reason) => Err(reason.clone()),
            None => Ok(self.queued == 0 || self.cost() + length <= self.limit),
        }
    }

    /// Returns a future that ends when there may be room again, from this call on.
    pub(super) fn room(&self) -> OwnedNotified {
        Arc::clone(&self.room).notified_owned()
    }

    /// Waits until `length` more bytes may be sent. `at` is the index of the waiting channel.
    pub(super) fn poll_room(&mut self, at: usize, length: usize, context: &Context<'_>) -> Poll<Result<(), Closed>> {
        match self.has_room(length) {
            Ok(false) => self.wait(at, context),
            Ok(true) => Poll::Ready(Ok(())),
            Err(reason) => Poll::Ready(Err(reason)),
        }
    }

    /// Waits until the queue is empty. `at` is the index of the waiting channel.
    pub(super) fn poll_flushed(&mut self, at: usize, context: &Context<'_>) -> Poll<Result<(), Closed>> {
        match &self.closed {
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None if self.queued == 0 => Poll::Ready(Ok(())),
            None => self.wait(at, context),
        }
    }

    /// Sends frames. Data that the socket does not accept now is queued for the pump.
    pub(super) fn send(&mut self, frames: impl IntoIterator<Item = Bytes>) {
        let begun = self.queued > 0;
        for part in frames.into_iter().filter(|part| !part.is_empty()) {
            self.queued += part.len();
            self.queue.push_back(part);
        }
        // While data is queued, the pump waits for the socket with its own waker. Polling the
        // socket here would replace that waker.
        if begun {
            return;
        }
        match self.drain(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => self.close(&Closed::Write(Arc::new(error))),
            Poll::Pending => self.wake_pump(),
        }
    }

    /// Writes queued data. Called by the pump only. `Ready` means that the connection is to be
    /// closed.
    pub(super) fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<Closed> {
        if let Some(reason) = &self.closed {
            return Poll::Ready(reason.clone());
        }
        if !self.pump.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.pump = Some(context.waker().clone());
        }
        match self.drain(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Closed::Write(Arc::new(error))),
            Poll::Ready(Ok(())) if self.finishing => Poll::Ready(Closed::Local),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// Makes the pump close the connection after all queued data was written.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        self.wake_pump();
    }

    /// Closes the queue, and wakes the pump and all waiting writers. The first reason is kept.
    pub(super) fn close(&mut self, reason: &Closed) {
        self.closed.get_or_insert_with(|| reason.clone());
        self.queue.clear();
        self.queued = 0;
        self.wake_pump();
        self.wake_waiting();
    }

    /// Returns the reason why the connection ended, or `None` while it is open.
    pub(super) fn reason(&self) -> Option<Closed> {
        self.closed.clone()
    }

    /// Drops the writing half of the socket.
    pub(super) fn hang_up(&mut self) {
        self.writer = None;
    }

    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.queued > 0 {
            let Some(writer) = &mut self.writer else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut filled = 0;
            for (slice, part) in slices.iter_mut().zip(&self.queue) {
                *slice = IoSlice::new(part);
                filled += 1;
            }
            match Pin::new(writer).poll_write_vectored(context, &slices[..filled]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.advance(written),
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.wake_waiting();
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.queued -= written;
        while let Some(part) = self.queue.front_mut() {
            if written < part.len() {
                part.advance(written);
                break;
            }
            written -= part.len();
            self.queue.pop_front();
        }
        if self.cost() <= self.limit / 2 {
            self.wake_waiting();
        }
    }

    /// Returns the memory that counts against the limit.
    fn cost(&self) -> usize {
        self.queued + PART * self.queue.len()
    }

    fn wait<T>(&mut self, at: usize, context: &Context<'_>) -> Poll<T> {
        self.writers[at] = Some(context.waker().clone());
        Poll::Pending
    }

    fn wake_waiting(&mut self) {
        self.room.notify_waiters();
        self.writers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }

    fn wake_pump(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.wake();
        }
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Outbox")
            .field("queued", &self.queued)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
