//! The task of a connection. It reads, and writes what could not be written immediately.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::connection::Connection;
use super::frame::{Decoder, FramePiece, HEADER_LENGTH};
use super::{ChannelId, Closed};

/// The size of the buffer for one read from the connection.
const READ_BUFFER: usize = 32 << 10;
/// The number of reads before the pump yields to the readers of the channels. Data that they had no
/// time to read must not count as a fault of the peer.
const READS_IN_A_ROW: usize = 8;

pub(super) struct Pump<R> {
    connection: Arc<Connection>,
    reader: R,
    buffer: Box<[u8]>,
    decoder: Decoder,
    /// The number of bytes received before the peer was admitted.
    received: usize,
    /// The number of frames for channels that are not open.
    unknown: usize,
}

impl<R: AsyncRead + Unpin> Pump<R> {
    pub(super) fn new(connection: Arc<Connection>, reader: R) -> Self {
        let decoder = Decoder::new(connection.limits.frame);
        Self { connection, reader, buffer: vec![0; READ_BUFFER].into(), decoder, received: 0, unknown: 0 }
    }

    /// Runs until the connection ends, and closes the channels with the reason.
    pub(super) async fn run(mut self) {
        let reason = poll_fn(|context| self.poll(context)).await;
        self.connection.close(reason);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Closed> {
        for _ in 0..READS_IN_A_ROW {
            if let Poll::Ready(reason) = self.connection.outbox().poll_drain(context) {
                return Poll::Ready(reason);
            }
            let mut buffer = ReadBuf::new(&mut self.buffer);
            let read = ready!(Pin::new(&mut self.reader).poll_read(context, &mut buffer));
            let length = buffer.filled().len();
            let outcome = match read {
                Ok(()) if length > 0 => self.deliver(length),
                Ok(()) if self.decoder.is_between_frames() => Err(Closed::Eof),
                Ok(()) => Err(Closed::Truncated),
                Err(error) => Err(Closed::Read(Arc::new(error))),
            };
            if let Err(reason) = outcome {
                return Poll::Ready(reason);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Delivers the first `length` bytes of the buffer to their channels.
    fn deliver(&mut self, length: usize) -> Result<(), Closed> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut input = &buffer[..length];
        let mut outcome = Ok(());
        while outcome.is_ok() && !input.is_empty() {
            outcome = self.decoder.next(&mut input).and_then(|piece| match piece {
                Some(FramePiece::Frame { channel, length }) => self.begin(channel, length),
                Some(FramePiece::Payload { channel, bytes }) => self.push(channel, bytes),
                None => Ok(()),
            });
        }
        self.buffer = buffer;
        outcome
    }

    /// Checks the header of a frame against the limits.
    fn begin(&mut self, channel: ChannelId, length: usize) -> Result<(), Closed> {
        if !self.connection.is_admitted() {
            let limit = self.connection.limits.before_admission;
            self.received = self.received.saturating_add(HEADER_LENGTH + length);
            if self.received > limit {
                return Err(Closed::BeforeAdmission { limit });
            }
        }
        if self.connection.position(channel).is_none() {
            self.unknown += 1;
            let limit = self.connection.limits.unknown_frames;
            if self.unknown > limit {
                return Err(Closed::UnknownChannel { channel: channel.get(), limit });
            }
        }
        Ok(())
    }

    fn push(&self, channel: ChannelId, bytes: &[u8]) -> Result<(), Closed> {
        let Some(at) = self.connection.position(channel) else { return Ok(()) };
        let limit = self.connection.limits.received;
        self.connection.inbox(at).push(bytes).map_err(|()| Closed::Unread { channel: channel.get(), limit })
    }
}

impl<R> Drop for Pump<R> {
    fn drop(&mut self) {
        // This also covers a task that the Tokio runtime drops before it has completed.
        self.connection.close(Closed::Local);
        self.connection.outbox().hang_up();
    }
}
