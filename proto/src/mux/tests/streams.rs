//! Data that is written to a channel arrives on the same channel at the other end.

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::mux::tests::raw::{BOTH, Scripted, admitted, connection, frame, message, pair};
use crate::mux::{Channel, Mux};

/// Writes `message` several times, in writes of these sizes.
async fn write(channel: &mut Channel, message: &[u8], count: usize, sizes: &[usize]) {
    let mut sizes = sizes.iter().cycle();
    for _ in 0..count {
        let mut rest = message;
        while !rest.is_empty() {
            let chunk = &rest[..rest.len().min(*sizes.next().unwrap())];
            let written = channel.write(chunk).await.unwrap();
            rest = &rest[written..];
        }
    }
    channel.flush().await.unwrap();
}

async fn expect(channel: &mut Channel, message: &[u8], count: usize) {
    let mut received = vec![0; message.len() * count];
    channel.read_exact(&mut received).await.unwrap();
    assert!(received == message.repeat(count), "the stream was changed on its way");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn two_channels_do_not_mix(
        capacity in 1usize..9000,
        lengths in [0usize..9000, 0usize..9000],
        sizes in vec(1usize..6000, 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let ((_here, [mut a, mut b]), (_there, [mut c, mut d])) = pair(capacity, admitted());
            let [one, two] = lengths.map(|length| message(1, 3, &vec![u8::try_from(length % 251).unwrap(); length]));
            tokio::join!(
                write(&mut a, &one, 3, &sizes), write(&mut b, &two, 3, &sizes), write(&mut d, &one, 2, &sizes),
                expect(&mut c, &one, 3),
            );
            expect(&mut d, &two, 3).await;
            expect(&mut b, &one, 2).await;
        });
    }

    /// M04.
    #[test]
    fn short_and_interrupted_writes_leave_whole_frames(
        script in vec(prop_oneof![Just(0usize), Just(usize::MAX), 1usize..50], 1..60),
        lengths in vec(0usize..300, 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (here, mut there) = tokio::io::duplex(1 << 16);
            let (reader, writer) = tokio::io::split(here);
            let endless: Vec<usize> = script.into_iter().chain(std::iter::repeat_n(1 << 16, 100)).collect();
            let writer = Scripted { writer, script: endless.into_iter() };
            let (mux, [mut a, mut b]) = Mux::over(reader, writer, BOTH, admitted());
            let mut expected = [Vec::new(), Vec::new()];
            for (at, length) in lengths.iter().enumerate() {
                let message = message(1, 1, &vec![7; *length]);
                let channel = if at % 2 == 0 { &mut a } else { &mut b };
                channel.write_all(&message).await.unwrap();
                expected[at % 2].extend(message);
            }
            mux.finish(std::time::Duration::from_secs(5)).await;
            let mut wire = Vec::new();
            there.read_to_end(&mut wire).await.unwrap();
            let mut received: [Vec<u8>; 2] = Default::default();
            let mut rest = &wire[..];
            while let Some((header, after)) = rest.split_first_chunk::<8>() {
                let length = u32::from_be_bytes(header[4..].try_into().unwrap()) as usize;
                received[usize::from(header[3]) - 1].extend(&after[..length]);
                rest = &after[length..];
            }
            assert_eq!(received, expected);
        });
    }
}

#[tokio::test]
async fn frames_of_any_cut_are_one_stream() {
    let (_mux, [mut channel, _], mut raw) = connection(1 << 20, admitted());
    for payload in [&b"a"[..], b"", b"bc", &[7; 5000]] {
        raw.frame(1, payload).await;
    }
    let mut received = vec![0; 5003];
    channel.read_exact(&mut received).await.unwrap();
    assert_eq!(received, [b"abc", &[7; 5000][..]].concat());
}

/// M09.
#[tokio::test]
async fn dropping_a_channel_frees_it_and_lets_the_others_go_on() {
    let (mux, [gone, mut stays], mut raw) = connection(1 << 16, admitted());
    raw.frame(1, b"queued").await;
    drop(gone);
    // Much more than the limit on unread data: none of it is kept.
    for _ in 0..10 {
        raw.write(&frame(1, &vec![0; 1 << 20])).await;
    }
    raw.frame(2, b"still here").await;
    let mut received = [0; 10];
    stays.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"still here");
    stays.write_all(&message(1, 1, b"and back")).await.unwrap();
    assert_eq!(raw.read_frame().await.0, 2);
    drop(mux);
}

#[tokio::test]
#[should_panic(expected = "channel 1 is named twice")]
async fn a_channel_is_named_once() {
    let (here, _there) = tokio::io::duplex(1);
    let (reader, writer) = tokio::io::split(here);
    let _ = Mux::over(reader, writer, [BOTH[0], BOTH[0]], admitted());
}
