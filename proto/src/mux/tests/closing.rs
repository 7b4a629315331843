//! The end of a connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::mux::tests::raw::{BOTH, admitted, connection, frame, message};
use crate::mux::{Closed, Limits, Mux};

/// M10.
#[tokio::test]
async fn the_end_of_a_stream_is_told_from_its_truncation_at_every_byte() {
    let wire = [frame(1, b"abc"), frame(2, b""), frame(1, b"de")].concat();
    let ends_of_frames = [0, 11, 19, 29];
    for length in 0..=wire.len() {
        let (mux, [mut channel, _], mut raw) = connection(1 << 10, admitted());
        raw.write(&wire[..length]).await;
        drop(raw);
        let mut received = Vec::new();
        let read = channel.read_to_end(&mut received).await;
        let reason = mux.closed().await;
        if ends_of_frames.contains(&length) {
            assert!(matches!(reason, Closed::Eof), "{length}: {reason}");
            assert!(read.is_ok(), "{length}");
        } else {
            assert!(matches!(reason, Closed::Truncated), "{length}: {reason}");
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof, "{length}");
        }
        let payload: Vec<u8> = [&wire[8..11], &wire[27..]].concat();
        assert!(payload.starts_with(&received), "{length}: what arrived before the end is readable");
    }
}

#[tokio::test]
async fn closing_is_seen_at_once_on_both_sides_and_leaves_no_task() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (here, there) = UnixStream::pair().unwrap();
    let (near, [mut a, _b]) = Mux::on_unix(here, BOTH, Limits::default()).unwrap();
    let (far, [mut c, _d]) = Mux::on_unix(there, BOTH, Limits::default()).unwrap();
    let reading = tokio::spawn(async move { c.read(&mut [0; 1]).await.unwrap() });
    near.close();
    assert!(matches!(near.closed().await, Closed::Local));
    assert!(matches!(far.closed().await, Closed::Eof));
    assert_eq!(reading.await.unwrap(), 0);
    assert_eq!(a.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(a.write(b"x").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test]
async fn dropping_the_owner_closes_the_connection() {
    let (mux, [mut channel, _], mut raw) = connection(1 << 10, admitted());
    drop(mux);
    assert_eq!(channel.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(raw.read_to_end().await.is_empty());
}

#[tokio::test]
async fn finishing_writes_what_is_queued_first() {
    let (mux, [mut channel, _], mut raw) = connection(100, admitted());
    channel.write_all(&message(1, 1, &[7; 3000])).await.unwrap();
    let ((), rest) = tokio::join!(mux.finish(Duration::from_secs(5)), raw.read_to_end());
    assert_eq!(rest.len(), 8 + 10 + 3000);
    assert!(matches!(mux.closed().await, Closed::Local));
}

#[tokio::test(start_paused = true)]
async fn finishing_does_not_wait_for_ever() {
    let (mux, [mut channel, _], _raw) = connection(100, admitted());
    channel.write_all(&message(1, 1, &[7; 3000])).await.unwrap();
    let before = tokio::time::Instant::now();
    mux.finish(Duration::from_secs(1)).await;
    assert_eq!(before.elapsed(), Duration::from_secs(1));
}

/// M08: writers, a reader and the owner at once, many times, on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everyone_who_waits_learns_of_the_end() {
    for round in 0..200 {
        let (here, there) = UnixStream::pair().unwrap();
        let (near, [mut a, mut b]) = Mux::on_unix(here, BOTH, admitted()).unwrap();
        let (far, _unread) = Mux::on_unix(there, BOTH, admitted()).unwrap();
        let write = |channel: &mut crate::mux::Channel| {
            let mut channel = std::mem::replace(channel, spare());
            tokio::spawn(async move { while channel.write_all(&message(1, 1, &[0; 2000])).await.is_ok() {} })
        };
        let writers = [write(&mut a), write(&mut b)];
        if round % 2 == 0 {
            near.close()
        } else {
            far.close()
        }
        let ended = tokio::time::timeout(Duration::from_secs(20), async {
            for writer in writers {
                writer.await.unwrap();
            }
            (near.closed().await, far.closed().await)
        });
        ended.await.expect("someone was not told");
    }
}

/// Returns a channel of a connection that has ended.
fn spare() -> crate::mux::Channel {
    let (reader, writer) = tokio::io::split(tokio::io::duplex(1).0);
    let (_, [channel, _]) = Mux::over(reader, writer, BOTH, admitted());
    channel
}

#[test]
fn a_runtime_that_goes_away_ends_its_connections() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mux, mut channel, there) = runtime.block_on(async {
        let (here, there) = UnixStream::pair().unwrap();
        let (mux, [channel, _]) = Mux::on_unix(here, BOTH, admitted()).unwrap();
        (mux, channel, there.into_std().unwrap())
    });
    drop(runtime);
    let another = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    another.block_on(async {
        assert!(matches!(mux.closed().await, Closed::Local));
        assert_eq!(channel.read(&mut [0; 1]).await.unwrap(), 0);
        let mut there = UnixStream::from_std(there).unwrap();
        assert_eq!(there.read(&mut [0; 1]).await.unwrap(), 0);
    });
}
