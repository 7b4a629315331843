//! A stream that cuts, delays and ends its data as a script determines.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Wraps a stream. Each read and write takes the next number of the plan, cyclically: zero waits
/// for one poll, any other number is the largest number of bytes to transfer. After `lifetime`
/// bytes the stream ends.
#[derive(Debug)]
pub(super) struct Faulty<S> {
    stream: S,
    plan: Vec<u8>,
    at: usize,
    lifetime: usize,
}

impl<S> Faulty<S> {
    pub(super) fn new(stream: S, plan: &[u8], lifetime: usize) -> Self {
        // A plan that only waits would never end.
        let plan = plan.iter().copied().chain([255]).collect();
        Self { stream, plan, at: 0, lifetime }
    }

    /// Returns how many bytes may be transferred now, or pending.
    fn turn(&mut self, context: &Context<'_>) -> Poll<usize> {
        let most = usize::from(self.plan[self.at % self.plan.len()]);
        self.at += 1;
        if most == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(most.min(self.lifetime))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Faulty<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = std::task::ready!(self.turn(context)).min(into.remaining());
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let read = part.filled().len();
        into.advance(read);
        self.lifetime -= read;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Faulty<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let most = std::task::ready!(self.turn(context)).min(from.len());
        if most == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(context, &from[..most]))?;
        self.lifetime -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
