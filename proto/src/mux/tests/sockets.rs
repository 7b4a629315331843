//! Connections over unix sockets.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::mux::tests::raw::{BOTH, admitted, message};
use crate::mux::{Closed, Mux};

/// A length that exceeds the buffer of a socket.
const LARGE: usize = 3 << 20;

#[tokio::test]
async fn a_full_socket_is_waited_for_again_and_again() {
    let (here, there) = UnixStream::pair().unwrap();
    let (_near, [mut a, mut b]) = Mux::on_unix(here, BOTH, admitted()).unwrap();
    let (_far, [mut c, mut d]) = Mux::on_unix(there, BOTH, admitted()).unwrap();
    let large = message(1, 1, &vec![7; LARGE]);
    for _ in 0..3 {
        let mut received = [vec![0; large.len()], vec![0; large.len()]];
        let [one, two] = &mut received;
        let (sent, answered) = (a.write_all(&large), d.write_all(&large));
        let done = tokio::join!(sent, answered, c.read_exact(one), b.read_exact(two));
        assert!(done.0.is_ok() && done.1.is_ok() && done.2.is_ok() && done.3.is_ok());
        assert!(received == [&large[..]; 2], "the stream was changed on its way");
    }
}

#[tokio::test]
async fn a_peer_that_leaves_a_full_socket_is_noticed() {
    let (here, there) = UnixStream::pair().unwrap();
    let (near, [mut a, _b]) = Mux::on_unix(here, BOTH, admitted()).unwrap();
    a.write_all(&message(1, 1, &vec![7; LARGE])).await.unwrap();
    drop(there);
    let closed = tokio::time::timeout(Duration::from_secs(5), near.closed()).await.unwrap();
    assert!(matches!(closed, Closed::Eof | Closed::Read(_) | Closed::Write(_)), "{closed}");
}

#[tokio::test]
async fn the_end_of_a_connection_closes_the_socket() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let (near, channels) = Mux::on_unix(here, BOTH, admitted()).unwrap();
    near.close();
    near.closed().await;
    assert_eq!(there.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(there.write_all(b"anyone?").await.is_err(), "both descriptors are closed");
    drop(channels);
}
