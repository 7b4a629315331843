//! A unix socket as two halves with separate registrations for readiness.
//!
//! Tokio registers a socket for both directions. Whenever the peer reads, the kernel then reports
//! room for writing and wakes a worker in vain, which doubles the wakeups per call. Here the
//! reading half is registered for reading only, and the writing half only while the socket is full.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// Splits a connected socket into halves.
pub(super) fn split(stream: tokio::net::UnixStream) -> io::Result<(SocketReader, SocketWriter)> {
    let stream = Arc::new(stream.into_std()?);
    let reader = SocketReader(register(Arc::clone(&stream), Interest::READABLE)?);
    let spare = Some(stream.try_clone()?);
    Ok((reader, SocketWriter { stream, spare, full: None }))
}

/// Registers a socket for readiness in one direction.
#[expect(deprecated, reason = "its successor is unsafe because a type could change its descriptor; std sockets do not")]
fn register<S: AsRawFd>(stream: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(stream, interest)
}

/// The reading half of a socket.
#[derive(Debug)]
pub(super) struct SocketReader(AsyncFd<Arc<UnixStream>>);

impl AsyncRead for SocketReader {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let unfilled = into.initialize_unfilled();
            let length = unfilled.len();
            match ready.try_io(|socket| socket.get_ref().as_ref().read(unfilled)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Ok(Ok(read)) => {
                    // The socket is empty now, so another read would fail with `WouldBlock`.
                    if 0 < read && read < length {
                        ready.clear_ready();
                    }
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(_would_block) => {}
            }
        }
    }
}

/// The writing half of a socket. Dropping it shuts down the socket for writing.
#[derive(Debug)]
pub(super) struct SocketWriter {
    stream: Arc<UnixStream>,
    /// A duplicate to register for writing, which needs a descriptor of its own. It is made in
    /// advance, because no descriptor may be available later.
    spare: Option<UnixStream>,
    /// The registration for writing, while the socket is full.
    full: Option<AsyncFd<UnixStream>>,
}

impl SocketWriter {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.as_ref().write_vectored(slices)
    }
}

impl AsyncWrite for SocketWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = match &self.full {
                None => self.try_write(slices),
                Some(socket) => {
                    let mut ready = ready!(socket.poll_write_ready(context))?;
                    ready.try_io(|_| self.try_write(slices)).unwrap_or(Err(io::ErrorKind::WouldBlock.into()))
                }
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(spare) = self.spare.take() {
                        self.full = Some(register(spare, Interest::WRITABLE)?);
                    }
                }
                written => {
                    if let Some(full) = self.full.take() {
                        self.spare = Some(full.into_inner());
                    }
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        // Shutting down fails if the peer has left, which makes no difference.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
