//! The memory that a peer can occupy.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::mux::tests::raw::{admitted, connection, frame, message};
use crate::mux::{Closed, Limits, MAX_FRAME};

/// U7: Go allocated four gigabytes for this.
#[tokio::test]
async fn u7_eight_bytes_that_announce_four_gigabytes_end_the_connection() {
    let (mux, _channels, mut raw) = connection(1 << 16, Limits::default());
    mux.admit();
    raw.write(&[0, 0, 0, 1, 255, 255, 255, 255]).await;
    let reason = mux.closed().await;
    assert!(matches!(reason, Closed::FrameTooLarge { channel: 1, length: 4_294_967_295, .. }), "{reason}");
    assert!(raw.read_to_end().await.is_empty());
}

/// The rest of U7 in Go: a header with the maximum length, before the peer has identified itself.
#[tokio::test]
async fn u7_the_largest_frame_is_refused_by_its_header_before_admission() {
    let (mux, _channels, mut raw) = connection(1 << 16, Limits::default());
    raw.write(&frame(2, &[0; 0])[..4]).await;
    raw.write(&u32::try_from(MAX_FRAME).unwrap().to_be_bytes()).await;
    assert!(matches!(mux.closed().await, Closed::BeforeAdmission { limit: 65_536 }));
}

#[tokio::test]
async fn small_frames_add_up_before_admission() {
    let (mux, [_, mut channel], mut raw) = connection(1 << 20, Limits::default());
    for _ in 0..60 {
        raw.frame(2, &[0; 1000]).await;
    }
    channel.read_exact(&mut [0; 60_000]).await.unwrap();
    for _ in 0..6 {
        raw.frame(2, &[0; 1000]).await;
    }
    assert!(matches!(mux.closed().await, Closed::BeforeAdmission { .. }));
}

#[tokio::test]
async fn after_admission_more_may_come() {
    let (mux, [_, mut channel], mut raw) = connection(1 << 20, Limits::default());
    raw.frame(2, b"hello").await;
    channel.read_exact(&mut [0; 5]).await.unwrap();
    mux.admit();
    let (_, read) =
        tokio::join!(raw.frame(2, &[0; 1 << 20]), async { channel.read_exact(&mut vec![0; 1 << 20]).await });
    read.unwrap();
}

/// U8: Go bounds unread data by the number of frames, which is up to a gigabyte.
#[tokio::test]
async fn u8_what_nobody_reads_is_bounded_in_bytes() {
    let (mux, [_unread, _], mut raw) = connection(1 << 16, admitted());
    let large = frame(1, &vec![0; MAX_FRAME]);
    let _ = timeout(Duration::from_secs(5), async {
        for _ in 0..100 {
            // Writing fails once the connection is closed.
            if raw.0.write_all(&large).await.is_err() {
                break;
            }
        }
    })
    .await;
    let reason = mux.closed().await;
    assert!(matches!(reason, Closed::Unread { channel: 1, limit } if limit == Limits::default().received), "{reason}");
}

/// M05.
#[tokio::test]
async fn a_channel_that_nobody_reads_does_not_hold_up_the_other_one() {
    let (_mux, [_unread, mut read], mut raw) = connection(1 << 16, admitted());
    for _ in 0..5 {
        raw.frame(1, &[0; 1 << 20]).await;
        raw.frame(2, b"through").await;
        read.read_exact(&mut [0; 7]).await.unwrap();
    }
}

/// M02.
#[tokio::test]
async fn frames_for_channels_that_are_not_open_are_dropped_but_not_for_ever() {
    let limits = Limits { unknown_frames: 10, ..admitted() };
    let (mux, [mut channel, _], mut raw) = connection(1 << 16, limits);
    for number in [3, 77, u32::MAX].into_iter().cycle().take(10) {
        raw.frame(number, b"lost").await;
    }
    raw.frame(1, b"found").await;
    channel.read_exact(&mut [0; 5]).await.unwrap();
    raw.frame(77, b"once too often").await;
    assert!(matches!(mux.closed().await, Closed::UnknownChannel { channel: 77, limit: 10 }));
}

#[tokio::test]
async fn a_writer_waits_for_a_peer_that_does_not_read() {
    let limits = Limits { unsent: 10_000, ..admitted() };
    let (_mux, [mut channel, _], mut raw) = connection(1000, limits);
    let message = message(1, 1, &[0; 990]);
    let mut sent = 0;
    while timeout(Duration::from_millis(20), channel.write_all(&message)).await.is_ok() {
        sent += message.len();
        assert!(sent < 20_000, "more is queued than allowed");
    }
    assert!(sent >= 9000, "less is queued than allowed: {sent}");
    // As soon as the peer reads, the writer continues.
    let reading = async { while raw.read_frame().await.1.len() > 1 {} };
    tokio::select! {
        () = reading => {}
        written = async { channel.write_all(&message).await?; channel.flush().await } => written.unwrap(),
    }
}
