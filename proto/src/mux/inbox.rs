//! What was received on one channel and not read yet.

use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use ttrpc::MessageHeader;

use super::Closed;
use crate::call::{HEADER_LENGTH, MAX_MESSAGE};

/// The receiving end of a channel. It is filled by the pump and emptied by the channel's reader.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    buffer: BytesMut,
    reader: Option<Waker>,
    /// How much of an oversized message is still to be thrown away.
    skip: usize,
    /// Nobody reads any more: what arrives is dropped.
    abandoned: bool,
    closed: Option<Closed>,
}

/// A ttrpc message as it was received.
#[derive(Debug)]
pub(crate) enum Message {
    /// A whole one.
    Whole(MessageHeader, Bytes),
    /// The header of one that is too large; its payload is thrown away as it arrives.
    Oversized(MessageHeader),
}

impl Inbox {
    /// Adds what arrived, or fails because the reader is more than `limit` bytes behind.
    pub(super) fn push(&mut self, mut bytes: &[u8], limit: usize) -> Result<(), ()> {
        if self.abandoned {
            return Ok(());
        }
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes.advance(skipped);
        if self.buffer.len() + bytes.len() > limit {
            return Err(());
        }
        self.buffer.extend_from_slice(bytes);
        self.wake();
        Ok(())
    }

    /// Ends it: the reader gets what is there, then the reason.
    pub(super) fn close(&mut self, reason: &Closed) {
        self.closed.get_or_insert_with(|| reason.clone());
        self.wake();
    }

    /// Frees it: nobody will read any more.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
        self.buffer = BytesMut::new();
        self.close(&Closed::Local);
    }

    /// Waits until something is there, or for the reason why nothing will come any more.
    pub(super) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<&mut BytesMut, Closed>> {
        if !self.buffer.is_empty() {
            return Poll::Ready(Ok(&mut self.buffer));
        }
        self.poll_more(context)
    }

    /// Waits until a whole message is there.
    pub(super) fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<Message, Closed>> {
        let Some(header) = self.buffer.first_chunk::<HEADER_LENGTH>().map(MessageHeader::from) else {
            return self.poll_more(context);
        };
        let length = header.length as usize;
        if length > MAX_MESSAGE {
            self.buffer.advance(HEADER_LENGTH);
            self.throw_away(length);
            return Poll::Ready(Ok(Message::Oversized(header)));
        }
        if self.buffer.len() < HEADER_LENGTH + length {
            return self.poll_more(context);
        }
        self.buffer.advance(HEADER_LENGTH);
        Poll::Ready(Ok(Message::Whole(header, self.buffer.split_to(length).freeze())))
    }

    fn poll_more<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        if let Some(reason) = &self.closed {
            return Poll::Ready(Err(reason.clone()));
        }
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn throw_away(&mut self, length: usize) {
        let here = length.min(self.buffer.len());
        self.buffer.advance(here);
        self.skip = length - here;
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
