//! Failing writes, and futures that are dropped before they complete.

use std::error::Error;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::mux::tests::raw::{BOTH, Scripted, admitted, connection, message};
use crate::mux::{Closed, Mux};

/// M07: the stream cannot continue after an incomplete frame.
#[tokio::test]
async fn a_write_that_fails_after_any_byte_ends_the_connection_for_everyone() {
    for taken in 0..30 {
        let (here, mut there) = tokio::io::duplex(1 << 10);
        let (reader, writer) = tokio::io::split(here);
        let script = std::iter::repeat_n(1, taken).collect::<Vec<_>>().into_iter();
        let (mux, [mut a, mut b]) = Mux::over(reader, Scripted { writer, script }, BOTH, admitted());
        let _ = a.write_all(&message(1, 1, &[7; 100])).await;
        let reason = mux.closed().await;
        assert!(matches!(reason, Closed::Write(_)), "{taken}: {reason}");
        assert_eq!(reason.source().unwrap().to_string(), "connection reset");
        assert!(b.write_all(b"x").await.is_err());
        assert_eq!(b.read(&mut [0; 1]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        let mut wire = Vec::new();
        there.read_to_end(&mut wire).await.unwrap();
        assert_eq!(wire.len(), taken);
    }
}

#[tokio::test]
async fn a_frame_is_finished_although_its_writer_gave_up() {
    let (_mux, [mut channel, _], mut raw) = connection(10, admitted());
    let one = message(1, 1, &[1; 5000]);
    let two = message(1, 3, &[2; 50]);
    let gave_up = tokio::time::timeout(Duration::from_millis(5), async {
        channel.write_all(&one).await.unwrap();
        channel.flush().await
    });
    assert!(gave_up.await.is_err(), "the peer has not read it");
    channel.write_all(&two).await.unwrap();
    assert_eq!(raw.read_message().await, (1, 1, vec![1; 5000]));
    assert_eq!(raw.read_message().await, (1, 3, vec![2; 50]));
}

#[tokio::test]
async fn reading_that_was_given_up_loses_nothing() {
    let (_mux, [mut channel, _], mut raw) = connection(1 << 10, admitted());
    for byte in 0..20 {
        let _ = tokio::time::timeout(Duration::ZERO, channel.read(&mut [0; 1])).await;
        raw.frame(1, &[byte]).await;
        let mut received = [0];
        channel.read_exact(&mut received).await.unwrap();
        assert_eq!(received, [byte]);
    }
}
