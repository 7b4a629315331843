//! A peer that the test controls byte by byte, for the tests of `mux` and `call`.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use crate::mux::{Channel, ChannelId, Limits, Mux};

/// The channels of an NRI connection.
pub(crate) const BOTH: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// Returns a connection whose other end the test controls. `capacity` is the size of the buffer in
/// each direction.
pub(crate) fn connection(capacity: usize, limits: Limits) -> (Mux, [Channel; 2], Raw) {
    let (here, there) = tokio::io::duplex(capacity);
    let (reader, writer) = tokio::io::split(here);
    let (mux, channels) = Mux::over(reader, writer, BOTH, limits);
    (mux, channels, Raw(there))
}

/// Returns both ends of a connection.
pub(crate) fn pair(capacity: usize, limits: Limits) -> ((Mux, [Channel; 2]), (Mux, [Channel; 2])) {
    let (here, there) = tokio::io::duplex(capacity);
    let over = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Mux::over(reader, writer, BOTH, limits)
    };
    (over(here), over(there))
}

/// Returns limits as after admission, for tests of other limits.
pub(crate) fn admitted() -> Limits {
    Limits { before_admission: usize::MAX, ..Limits::default() }
}

/// The end of a connection that the test controls.
pub(crate) struct Raw(pub(crate) DuplexStream);

impl Raw {
    /// Writes bytes unchanged.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Writes one frame.
    pub(crate) async fn frame(&mut self, channel: u32, payload: &[u8]) {
        self.write(&frame(channel, payload)).await;
    }

    /// Writes one ttrpc message, in one frame.
    pub(crate) async fn message(&mut self, channel: u32, kind: u8, stream: u32, payload: &[u8]) {
        self.frame(channel, &message(kind, stream, payload)).await;
    }

    /// Reads one frame.
    pub(crate) async fn read_frame(&mut self) -> (u32, Vec<u8>) {
        let channel = self.0.read_u32().await.unwrap();
        let length = self.0.read_u32().await.unwrap();
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        (channel, payload)
    }

    /// Reads one ttrpc message: its type, stream id and payload. No other channel may be in use.
    pub(crate) async fn read_message(&mut self) -> (u8, u32, Vec<u8>) {
        let mut bytes = self.read_frame().await.1;
        let length = 10 + u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        while bytes.len() < length {
            bytes.extend(self.read_frame().await.1);
        }
        assert_eq!(bytes.len(), length, "a frame reaches into the next message");
        (bytes[8], u32::from_be_bytes(bytes[4..8].try_into().unwrap()), bytes.split_off(10))
    }

    /// Reads the rest until the connection ends.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.unwrap();
        rest
    }
}

/// Returns an encoded frame.
pub(crate) fn frame(channel: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&channel.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
}

/// Returns an encoded ttrpc message.
pub(crate) fn message(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&length.to_be_bytes()[..], &stream.to_be_bytes(), &[kind, 0], payload].concat()
}

/// A writer that accepts a scripted number of bytes per write.
///
/// With 0 the write is pending, and with `usize::MAX` it is interrupted. After the end of the
/// script, writes fail.
pub(crate) struct Scripted<W> {
    pub(crate) writer: W,
    pub(crate) script: std::vec::IntoIter<usize>,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Scripted<W> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        match self.script.next() {
            None => Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into())),
            Some(0) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(usize::MAX) => Poll::Ready(Err(std::io::ErrorKind::Interrupted.into())),
            Some(most) => Pin::new(&mut self.writer).poll_write(context, &bytes[..bytes.len().min(most)]),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}
