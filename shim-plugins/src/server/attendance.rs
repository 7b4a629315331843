//! Counts the connections to the socket of a shim.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// The number of connections on which something was received. Clones share it.
///
/// A process that only looks whether somebody listens, such as `delete`, does not count.
#[derive(Clone, Default)]
pub(crate) struct Attendance(watch::Sender<usize>);

impl Attendance {
    /// Counts a connection from its first byte until it is dropped.
    pub(crate) fn count(&self, stream: UnixStream) -> CountedStream {
        CountedStream { stream, attendance: self.clone(), is_counted: false }
    }

    /// Returns a receiver of the number of connections.
    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }
}

/// A connection that is counted once something was received.
pub(crate) struct CountedStream {
    stream: UnixStream,
    attendance: Attendance,
    is_counted: bool,
}

impl CountedStream {
    /// Returns the connection itself.
    #[cfg(feature = "grpc")]
    pub(super) fn socket(&self) -> &UnixStream {
        &self.stream
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        if self.is_counted {
            self.attendance.0.send_modify(|n| *n -= 1);
        }
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let n_before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if !self.is_counted && into.filled().len() > n_before {
            self.is_counted = true;
            self.attendance.0.send_modify(|n| *n += 1);
        }
        read
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
