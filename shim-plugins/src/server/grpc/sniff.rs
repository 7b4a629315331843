//! Tells by its first bytes which protocol a connection speaks.
//!
//! HTTP/2 begins with 24 bytes that are the same for all. A ttrpc message begins with its length, whose first byte is 0: none
//! is as long as the first of those would mean.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, future};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{Connections, GrpcRouter};

const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How many connections may be undecided at once.
const MAX_UNDECIDED: usize = 128;

/// How long a connection may be undecided.
const LIMIT: Duration = Duration::from_secs(10);

/// The pause while a part of the beginning is there.
const PAUSE: Duration = Duration::from_millis(5);

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    Other,
    /// It went without a word.
    Closed,
}

/// Takes those out that speak gRPC, and serves them. When nothing is accepted any more, nothing is undecided, either.
pub(crate) fn divert_grpc(
    accepted: impl Stream<Item = io::Result<UnixStream>> + Send + 'static,
    connections: Connections,
    router: Arc<GrpcRouter>,
    over: CancellationToken,
) -> impl Stream<Item = io::Result<UnixStream>> + Send + 'static {
    let decided = accepted.map(move |stream| detect_or_ttrpc(stream, over.clone())).buffer_unordered(MAX_UNDECIDED);
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

async fn detect_or_ttrpc(
    accepted: io::Result<UnixStream>,
    over: CancellationToken,
) -> io::Result<(Protocol, UnixStream)> {
    let stream = accepted?;
    let deciding = detect(|| stream.readable(), || stream.try_io(Interest::READABLE, || peek(&stream)));
    let deciding = over.run_until_cancelled(tokio::time::timeout(LIMIT, deciding));
    // One that is silent for long may speak later: ttrpc waits for it.
    let protocol = deciding.await.and_then(Result::ok).unwrap_or(Protocol::Other);
    Ok((protocol, stream))
}

/// What a connection over TCP speaks. One that does not say so in time speaks nothing.
pub(super) async fn detect_over_tcp(stream: &TcpStream) -> Protocol {
    let deciding = detect(|| stream.readable(), || stream.try_io(Interest::READABLE, || peek(stream)));
    tokio::time::timeout(LIMIT, deciding).await.unwrap_or(Protocol::Closed)
}

/// The bytes that are there, and stay there.
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
            // The rest is on its way, and until it comes this one is readable.
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Protocol::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn decided_after(begin: &'static [u8], rest: &'static [u8]) -> Protocol {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let speaking = async {
            ours.write_all(begin).await.unwrap();
            tokio::time::sleep(PAUSE * 3).await;
            ours.write_all(rest).await.unwrap();
            drop(ours);
        };
        let (decided, ()) = tokio::join!(detect_or_ttrpc(Ok(theirs), CancellationToken::new()), speaking);
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
        let (decided, stream) = detect_or_ttrpc(Ok(theirs), CancellationToken::new()).await.unwrap();
        assert_eq!((decided, begun.elapsed()), (Protocol::Other, LIMIT));
        // But not when the shim ends.
        let over = CancellationToken::new();
        over.cancel();
        assert_eq!(detect_or_ttrpc(Ok(stream), over).await.unwrap().0, Protocol::Other);
        assert_eq!(begun.elapsed(), LIMIT);

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        ours.write_all(&PREFACE[..20]).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        assert_eq!(detect_over_tcp(&theirs).await, Protocol::Closed);
    }
}
