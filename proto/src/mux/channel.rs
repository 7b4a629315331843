//! A channel of a connection, as a stream of bytes and as a sender of whole messages.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::cutter::Cutter;
use super::frame::{HEADER_LENGTH, header};
use super::message::{MESSAGE_HEADER_LENGTH, ReceivedMessage};
use super::{ChannelId, Closed, GO_BUFFER};

/// One channel of a connection: a stream of bytes in both directions.
///
/// The written data must consist of ttrpc messages, in pieces of any size. The channel reads their
/// headers to cut frames that a Go peer can read. Reading returns all data received before the
/// connection ended, then the end of the stream or an error whose source is the [`Closed`].
///
/// Dropping a channel frees its received data and discards what still arrives on it. The connection
/// and its other channels stay open. Reading and writing are cancel safe: a dropped future loses no
/// data, and a frame that was begun is completed.
#[derive(Debug)]
pub struct Channel {
    connection: Arc<Connection>,
    at: usize,
    cutter: Cutter,
    ended: bool,
}

impl Channel {
    pub(super) fn new(connection: Arc<Connection>, at: usize) -> Self {
        Self { connection, at, cutter: Cutter::default(), ended: false }
    }

    /// Returns the number of the channel.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.connection.id(self.at)
    }

    /// Returns a sender of whole messages on this channel.
    pub(crate) fn sender(&self) -> MessageSender {
        MessageSender { connection: Arc::clone(&self.connection), at: self.at }
    }

    /// Receives the next message.
    pub(crate) async fn message(&mut self) -> Result<ReceivedMessage, Closed> {
        std::future::poll_fn(|context| self.connection.inbox(self.at).poll_message(context)).await
    }

    fn poll_send(&mut self, context: &Context<'_>, chunk: &[u8]) -> Poll<Result<usize, Closed>> {
        let id = self.id();
        let mut outbox = self.connection.outbox();
        // The cutter advances, so it may only be called once the frame is certain to be sent.
        ready!(outbox.poll_room(self.at, HEADER_LENGTH + chunk.len(), context))?;
        let length = self.cutter.next(chunk);
        let mut frame = BytesMut::with_capacity(HEADER_LENGTH + length);
        frame.extend_from_slice(&header(id, frame_length(length)));
        frame.extend_from_slice(&chunk[..length]);
        outbox.send([frame.freeze()]);
        Poll::Ready(Ok(length))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.connection.inbox(self.at).abandon();
    }
}

impl AsyncRead for Channel {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match ready!(self.connection.inbox(self.at).poll_read(context, into)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(reason) => Poll::Ready(reason.as_read()),
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // A frame is never longer, so waiting for more room at once would be in vain.
        let chunk = &from[..from.len().min(super::MAX_FRAME)];
        self.poll_send(context, chunk).map_err(|reason| reason.as_write())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.outbox().poll_flushed(self.at, context).map_err(|reason| reason.as_write())
    }

    /// Flushes the channel and refuses further writes. The peer is not notified, because no message
    /// closes a channel.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ended = true;
        self.poll_flush(context)
    }
}

/// A sender of whole ttrpc messages on a channel. Clones send on the same channel.
#[derive(Clone, Debug)]
pub(crate) struct MessageSender {
    connection: Arc<Connection>,
    at: usize,
}

impl MessageSender {
    /// Waits for room for `length` bytes and sends the frames that `make` returns.
    ///
    /// `make` is called at most once, under the lock that orders messages on the wire. Stream ids
    /// that it takes are therefore sent in order. `make` must not send messages itself. If the
    /// future is dropped before `make` is called, nothing is sent.
    pub(crate) async fn send<T, E: From<Closed>>(
        &self,
        length: usize,
        make: impl FnOnce() -> Result<(T, [Bytes; 4]), E>,
    ) -> Result<T, E> {
        let mut make = Some(make);
        loop {
            let room = {
                let mut outbox = self.connection.outbox();
                if outbox.has_room(length)? {
                    let make = make.take().expect("the loop returns after the first call");
                    let (made, frames) = make()?;
                    outbox.send(frames);
                    return Ok(made);
                }
                outbox.room()
            };
            room.await;
        }
    }

    /// Returns the frames of the message with this header, whose payload is `head` followed by
    /// `body`.
    ///
    /// The message is cut as a Go peer cuts its own: the first frame fills Go's buffer, and the
    /// second has the rest. The result is the first frame in two parts, and then the second frame
    /// in two parts.
    pub(crate) fn frames(&self, message: [u8; MESSAGE_HEADER_LENGTH], head: &[u8], body: Bytes) -> [Bytes; 4] {
        let id = self.connection.id(self.at);
        let front = message.len() + head.len();
        let first = (front + body.len()).min(GO_BUFFER).max(front);
        let (early, late) = (body.slice(..first - front), body.slice(first - front..));
        let mut start = BytesMut::with_capacity(HEADER_LENGTH + front);
        start.extend_from_slice(&header(id, frame_length(first)));
        start.extend_from_slice(&message);
        start.extend_from_slice(head);
        let second = match late.len() {
            0 => Bytes::new(),
            length => Bytes::copy_from_slice(&header(id, frame_length(length))),
        };
        [start.freeze(), early, second, late]
    }

    /// Stops receiving on the channel. A reader fails with [`Closed::Local`].
    pub(crate) fn abandon(&self) {
        self.connection.inbox(self.at).abandon();
    }

    /// Closes the connection.
    pub(crate) fn close(&self, reason: Closed) {
        self.connection.close(reason);
    }

    /// Spawns a task that [`super::Mux::closed`] waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.connection.tasks.spawn(task);
    }
}

/// Converts the length of a frame to the type that it has on the wire.
fn frame_length(length: usize) -> u32 {
    u32::try_from(length).expect("frames are cut to at most MAX_FRAME")
}
