//! The received data of one channel that has not been read yet.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::ReadBuf;
use ttrpc::MessageHeader;

use super::Closed;
use super::budget::{ReceiveBudget, Reservation};
use super::message::{MAX_MESSAGE, MESSAGE_HEADER_LENGTH, ReceivedMessage, message_length};

/// The largest buffer that is kept for reuse. A larger one is freed with the message in it.
const SMALL: usize = 64 << 10;

/// The receive queue of a channel, filled by the pump and emptied by the reader of the channel.
#[derive(Debug)]
pub(super) struct Inbox {
    buffer: BytesMut,
    /// The budget for the buffers of all channels.
    budget: Arc<ReceiveBudget>,
    reader: Option<Waker>,
    /// The number of bytes of an oversized message that are still to be discarded.
    skip: usize,
    /// Whether the reader is gone. Arriving data is discarded.
    abandoned: bool,
    closed: Option<Closed>,
}

impl Inbox {
    pub(super) fn new(budget: Arc<ReceiveBudget>) -> Self {
        Self { buffer: BytesMut::new(), budget, reader: None, skip: 0, abandoned: false, closed: None }
    }

    /// Adds received bytes. Fails if the budget is exhausted.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), ()> {
        if self.abandoned {
            return Ok(());
        }
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes.advance(skipped);
        if !self.budget.take(bytes.len()) {
            return Err(());
        }
        self.make_room(bytes.len());
        self.buffer.extend_from_slice(bytes);
        self.wake();
        Ok(())
    }

    /// Makes room for `more` bytes.
    ///
    /// A large buffer grows to the end of the message in it, at most doubling. The growth strategy
    /// of `BytesMut` could allocate twice as much as counts against the budget.
    fn make_room(&mut self, more: usize) {
        let needed = self.buffer.len() + more;
        if needed <= SMALL || needed <= self.buffer.capacity() {
            return;
        }
        let end = self
            .buffer
            .first_chunk()
            .map_or(0, |header| MESSAGE_HEADER_LENGTH + message_length(header).min(MAX_MESSAGE));
        let size = if needed <= end { end.min(2 * needed) } else { needed + self.budget.left().min(needed / 16) };
        let mut larger = BytesMut::with_capacity(size);
        larger.extend_from_slice(&self.buffer);
        self.buffer = larger;
    }

    /// Closes the queue. The reader still receives the data in it, and then the reason.
    pub(super) fn close(&mut self, reason: &Closed) {
        self.closed.get_or_insert_with(|| reason.clone());
        self.wake();
    }

    /// Frees the buffer, because the reader is gone.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
        self.budget.give_back(self.buffer.len());
        self.buffer = BytesMut::new();
        self.close(&Closed::Local);
    }

    /// Waits for data and reads it. After the last data the result is the reason of the close.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<(), Closed>> {
        if self.buffer.is_empty() {
            return self.poll_more(context);
        }
        let length = self.buffer.len().min(into.remaining());
        into.put_slice(&self.buffer[..length]);
        self.drop_front(length);
        Poll::Ready(Ok(()))
    }

    /// Waits for a complete message.
    pub(super) fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<ReceivedMessage, Closed>> {
        let Some(header) = self.buffer.first_chunk::<MESSAGE_HEADER_LENGTH>().map(MessageHeader::from) else {
            return self.poll_more(context);
        };
        let length = header.length as usize;
        if length > MAX_MESSAGE {
            self.drop_front(MESSAGE_HEADER_LENGTH);
            self.discard(length);
            return Poll::Ready(Ok(ReceivedMessage::Oversized(header)));
        }
        if self.buffer.len() < MESSAGE_HEADER_LENGTH + length {
            return self.poll_more(context);
        }
        self.drop_front(MESSAGE_HEADER_LENGTH);
        let payload = self.take(length);
        Poll::Ready(Ok(ReceivedMessage::Whole(header, payload, Reservation::new(&self.budget, length))))
    }

    /// Takes `length` bytes from the front of the buffer.
    ///
    /// A large buffer goes to the longer of the taken part and the rest, and the other is copied.
    /// If both shared the buffer, each would keep all of it in memory.
    fn take(&mut self, length: usize) -> Bytes {
        if self.buffer.capacity() <= 2 * SMALL {
            return self.buffer.split_to(length).freeze();
        }
        let behind = &self.buffer[length..];
        if behind.len() <= length {
            let behind = BytesMut::from(behind);
            let mut taken = std::mem::replace(&mut self.buffer, behind);
            taken.truncate(length);
            return taken.freeze();
        }
        let taken = Bytes::copy_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        taken
    }

    fn drop_front(&mut self, length: usize) {
        self.buffer.advance(length);
        self.budget.give_back(length);
        if self.buffer.is_empty() && self.buffer.capacity() > SMALL {
            self.buffer = BytesMut::new();
        }
    }

    fn poll_more<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        if let Some(reason) = &self.closed {
            return Poll::Ready(Err(reason.clone()));
        }
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn discard(&mut self, length: usize) {
        let here = length.min(self.buffer.len());
        self.drop_front(here);
        self.skip = length - here;
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
