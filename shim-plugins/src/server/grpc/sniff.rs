//! Detects the protocol of a connection by its first bytes.
//!
//! An HTTP/2 connection begins with a fixed preface of 24 bytes. A ttrpc message begins with its
//! length, whose first byte is always 0, because no message is long enough for another value.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, future};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Connections, GrpcRouter};
use crate::server::CountedStream;

/// The preface of HTTP/2.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most connections whose protocol may be undecided at once.
const MAX_UNDECIDED: usize = 128;

/// How long to wait for the first bytes of a connection.
const LIMIT: Duration = Duration::from_secs(10);

/// The pause between looks while only part of the preface has arrived.
const PAUSE: Duration = Duration::from_millis(5);

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    Other,
    /// The peer closed the connection, or sent nothing.
    Closed,
}

/// Serves the accepted connections that speak gRPC, and passes on the others.
///
/// Once `closing` is cancelled, connections that are still undecided are passed on at once.
pub(crate) fn divert_grpc(
    accepted: impl Stream<Item = io::Result<CountedStream>> + Send + 'static,
    connections: Connections,
    router: Arc<GrpcRouter>,
    closing: CancellationToken,
) -> impl Stream<Item = io::Result<CountedStream>> + Send + 'static {
    let decided = accepted.map(move |stream| detect_or_ttrpc(stream, closing.clone())).buffer_unordered(MAX_UNDECIDED);
    decided.filter_map(move |decided| {
        future::ready(match decided {
            Ok((Protocol::Other, stream)) => Some(Ok(stream)),
            Ok((Protocol::Closed, _)) => None,
            Ok((Protocol::Grpc, stream)) => {
                connections.serve(stream, &router);
                None
            }
            Err(error) => Some(Err(error)),
        })
    })
}

/// Detects the protocol of a connection on the socket of the shim.
async fn detect_or_ttrpc(
    accepted: io::Result<CountedStream>,
    closing: CancellationToken,
) -> io::Result<(Protocol, CountedStream)> {
    let stream = accepted?;
    let socket = stream.socket();
    let deciding = detect(|| socket.readable(), || socket.try_io(Interest::READABLE, || peek(socket)));
    let deciding = closing.run_until_cancelled(tokio::time::timeout(LIMIT, deciding));
    // A silent connection may still speak later, so it goes to the ttrpc server, which waits.
    let protocol = deciding.await.and_then(Result::ok).unwrap_or(Protocol::Other);
    Ok((protocol, stream))
}

/// Detects the protocol of a TCP connection. A connection that stays silent counts as closed.
pub(super) async fn detect_over_tcp(stream: &TcpStream) -> Protocol {
    let deciding = detect(|| stream.readable(), || stream.try_io(Interest::READABLE, || peek(stream)));
    tokio::time::timeout(LIMIT, deciding).await.unwrap_or(Protocol::Closed)
}

/// Reads the first bytes without removing them from the socket.
fn peek(stream: impl AsFd) -> io::Result<([u8; PREFACE.len()], usize)> {
    let mut begin = [0; PREFACE.len()];
    let (n, _) = rustix::net::recv(stream, &mut begin, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok((begin, n))
}

async fn detect<R>(readable: impl Fn() -> R, peek: impl Fn() -> io::Result<([u8; PREFACE.len()], usize)>) -> Protocol
where
    R: Future<Output = io::Result<()>>,
{
    loop {
        if readable().await.is_err() {
            return Protocol::Closed;
        }
        match peek() {
            Ok((_, 0)) => return Protocol::Closed,
            Ok((begin, n)) if begin[..n] != PREFACE[..n] => return Protocol::Other,
            Ok((_, n)) if n == PREFACE.len() => return Protocol::Grpc,
            // The rest has not arrived yet. The socket stays readable, so wait before looking
            // again.
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Protocol::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use tokio::net::UnixStream;

    use super::*;
    use crate::server::Attendance;

    async fn decided_after(begin: &'static [u8], rest: &'static [u8]) -> Protocol {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let speaking = async {
            ours.write_all(begin).await.unwrap();
            tokio::time::sleep(PAUSE * 3).await;
            ours.write_all(rest).await.unwrap();
            drop(ours);
        };
        let (decided, ()) =
            tokio::join!(detect_or_ttrpc(Ok(Attendance::default().count(theirs)), CancellationToken::new()), speaking);
        decided.unwrap().0
    }

    #[tokio::test]
    async fn a_connection_is_known_by_its_first_bytes_however_they_come() {
        let cases: [(&[u8], &[u8], Protocol); 7] = [
            (&PREFACE, b"", Protocol::Grpc),
            (&PREFACE[..1], &PREFACE[1..], Protocol::Grpc),
            (b"", &PREFACE, Protocol::Grpc),
            (&[0, 0, 0, 4], b"", Protocol::Other),
            (&PREFACE[..23], b"x", Protocol::Other),
            (b"PUT / HTTP/1.1\r\n", b"", Protocol::Other),
            (b"", b"", Protocol::Closed),
        ];
        for (begin, rest, expected) in cases {
            assert_eq!(decided_after(begin, rest).await, expected, "{begin:?} {rest:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_silent_may_speak_ttrpc_later_but_not_over_tcp() {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let begun = tokio::time::Instant::now();
        let (decided, stream) =
            detect_or_ttrpc(Ok(Attendance::default().count(theirs)), CancellationToken::new()).await.unwrap();
        assert_eq!((decided, begun.elapsed()), (Protocol::Other, LIMIT));
        // The end of the shim cuts the wait short.
        let closing = CancellationToken::new();
        closing.cancel();
        assert_eq!(detect_or_ttrpc(Ok(stream), closing).await.unwrap().0, Protocol::Other);
        assert_eq!(begun.elapsed(), LIMIT);

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        ours.write_all(&PREFACE[..20]).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        assert_eq!(detect_over_tcp(&theirs).await, Protocol::Closed);
    }
}
