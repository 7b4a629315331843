//! One channel of a connection.

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
/// What is written must be ttrpc messages, in pieces of any size: the channel looks at their
/// headers to cut frames that a Go peer can read. Reading yields what was received before the
/// connection ended, then the end of the stream or an error whose source is the [`Closed`].
///
/// Dropping a channel frees what it holds and drops what still arrives on it; the connection and
/// its other channels go on. Both halves are cancel-safe: nothing is lost with a future that is
/// dropped, and a frame that was begun is finished.
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

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.connection.id(self.at)
    }

    /// What sends whole messages on it.
    pub(crate) fn sender(&self) -> MessageSender {
        MessageSender { connection: Arc::clone(&self.connection), at: self.at }
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Result<ReceivedMessage, Closed> {
        std::future::poll_fn(|context| self.connection.inbox(self.at).poll_message(context)).await
    }

    fn poll_send(&mut self, context: &Context<'_>, chunk: &[u8]) -> Poll<Result<usize, Closed>> {
        let id = self.id();
        let mut outbox = self.connection.outbox();
        // The cutter is asked once it is certain that the frame leaves.
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
        // More than this is never sent as one frame, and need not be waited for at once.
        let chunk = &from[..from.len().min(super::MAX_FRAME)];
        self.poll_send(context, chunk).map_err(|reason| reason.as_write())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.outbox().poll_flushed(self.at, context).map_err(|reason| reason.as_write())
    }

    /// There is no message that closes a channel: it is only flushed, and takes no more.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ended = true;
        self.poll_flush(context)
    }
}

/// Sends whole ttrpc messages on a channel.
#[derive(Clone, Debug)]
pub(crate) struct MessageSender {
    connection: Arc<Connection>,
    at: usize,
}

impl MessageSender {
    /// Sends what `make` makes as soon as there is room for `length` bytes.
    ///
    /// `make` is called once, under the lock that orders messages on the wire: what it counts
    /// leaves in that order. It may call nothing that sends. Dropping the future before that sends
    /// nothing.
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
                    let make = make.take().expect("the loop ends here");
                    let (made, frames) = make()?;
                    outbox.send(frames);
                    return Ok(made);
                }
                outbox.room()
            };
            let rung = room.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            // It may have rung between the look and the listening.
            if !self.connection.outbox().has_room(length)? {
                rung.await;
            }
        }
    }

    /// The frames of the message with this header, whose payload is `head` followed by `body`.
    ///
    /// They are cut as Go cuts its own: what fits its buffer, then all the rest.
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

    /// Reads from its channel no more: whoever does is told that the connection was closed on our side.
    pub(crate) fn abandon(&self) {
        self.connection.inbox(self.at).abandon();
    }

    /// Closes the connection.
    pub(crate) fn close(&self, reason: Closed) {
        self.connection.close(reason);
    }

    /// Runs `task` as one that [`super::Mux::closed`] waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.connection.tasks.spawn(task);
    }
}

/// A frame's length as the wire has it.
fn frame_length(length: usize) -> u32 {
    u32::try_from(length).expect("frames are cut to at most MAX_FRAME")
}
