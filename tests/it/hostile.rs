//! Input in valid frames that is meant to do harm. The fault rows are in `docs/faults.md`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nri_proto::call::{CallError, Client, Method, ServeLimits, serve};
use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use protobuf::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use ttrpc::{Code, Request, Response};

const ONE: ChannelId = ChannelId::PLUGIN_SERVICE;
const TWO: ChannelId = ChannelId::RUNTIME_SERVICE;
const LIMIT: Duration = Duration::from_secs(60);

/// Nested groups: decoding them recursively overflows the stack.
static NESTED: [u8; 100_000] = [0x33; 100_000];

/// T07.
#[tokio::test]
async fn a_reply_nested_a_hundred_thousand_times_fails_its_call_alone() {
    let (mut peer, mux, [channel, _]) = connect();
    let client = Client::new(channel);
    for (id, payload) in [(1, NESTED.as_slice()), (3, in_status(&NESTED).as_slice())] {
        let mut call = client.send(Method { service: "s", name: "m" }, Bytes::new(), LIMIT).await.unwrap();
        send(&mut peer, ONE, &message(id, 2, payload)).await;
        let answer = call.reply().await;
        assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
    }
    let mut call = client.send(Method { service: "s", name: "m" }, Bytes::new(), LIMIT).await.unwrap();
    send(&mut peer, ONE, &message(5, 2, &[])).await;
    assert_eq!(call.reply().await.unwrap(), Bytes::new());
    mux.close();
}

/// T07.
#[tokio::test]
async fn a_request_nested_a_hundred_thousand_times_is_refused() {
    let (mut peer, mux, [channel, _]) = connect();
    let server = tokio::spawn(serve(channel, Arc::default(), ServeLimits::default(), CancellationToken::new()));
    send(&mut peer, ONE, &message(1, 1, &NESTED)).await;
    assert_eq!(refusal(&mut peer).await, Code::INVALID_ARGUMENT);
    mux.close();
    server.await.unwrap();
}

/// T09: as many entries as fit into a message. They are read as metadata.
#[tokio::test]
async fn a_request_with_a_hundred_thousand_entries_of_metadata_is_answered() {
    let (mut peer, mux, [channel, _]) = connect();
    let server = tokio::spawn(serve(channel, Arc::default(), ServeLimits::default(), CancellationToken::new()));
    let mut request = Request::new();
    request.service = "nobody".to_owned();
    for entry in 0..100_000 {
        let mut pair = ttrpc::proto::KeyValue::new();
        pair.key = entry.to_string();
        request.metadata.push(pair);
    }
    send(&mut peer, ONE, &message(1, 1, &request.write_to_bytes().unwrap())).await;
    assert_eq!(refusal(&mut peer).await, Code::UNIMPLEMENTED);
    mux.close();
    server.await.unwrap();
}

/// M11: the frames cost little, and neither channel waits for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_tiny_frames_are_read_fairly_and_soon() {
    const FRAMES: usize = 500_000;
    let (mut peer, mux, [mut one, mut two]) = connect();
    let burst = [frame(ONE, b"1"), frame(TWO, b"2")].concat().repeat(1000);
    let begun = Instant::now();
    let sending = tokio::spawn(async move {
        for _ in 0..FRAMES / 1000 {
            peer.write_all(&burst).await.unwrap();
        }
        peer
    });
    let (ones, twos) = tokio::join!(count(&mut one, FRAMES, b'1'), count(&mut two, FRAMES, b'2'));
    let (first, last) = (ones.min(twos), ones.max(twos));
    assert!(begun.elapsed() < Duration::from_secs(30), "a million frames took {:?}", begun.elapsed());
    assert!(last - first < Duration::from_secs(5), "one channel had its frames {:?} before the other", last - first);
    drop(sending.await.unwrap());
    mux.close();
}

/// M08: a reader, two writers and 16 callers; the connection is closed at various moments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_while_everyone_is_busy_ends_everyone() {
    for round in 0..200u64 {
        let (peer, mux, [channel, other]) = connect();
        let (mut from_us, mut to_us) = peer.into_split();
        let sink = tokio::spawn(async move { tokio::io::copy(&mut from_us, &mut tokio::io::sink()).await });
        let source = tokio::spawn(async move { while to_us.write_all(&frame(TWO, b"noise")).await.is_ok() {} });

        let client = Client::new(channel);
        let callers: Vec<_> = (0..16)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let method = Method { service: "s", name: "m" };
                    client.call(method, Bytes::from_static(&[0; 9000]), LIMIT).await
                })
            })
            .collect();
        let (mut reader, mut writer) = tokio::io::split(other);
        let reading = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        let writing = tokio::spawn(async move { while writer.write_all(&message(1, 1, &[0; 9000])).await.is_ok() {} });

        tokio::time::sleep(Duration::from_micros(20 * (round % 50))).await;
        mux.close();
        tokio::time::timeout(LIMIT, async {
            mux.closed().await;
            for caller in callers {
                let answer = caller.await.unwrap();
                assert!(matches!(answer, Err(CallError::Closed(_))), "{answer:?}");
            }
            let _ = reading.await.unwrap();
            writing.await.unwrap();
            source.await.unwrap();
            let _ = sink.await.unwrap();
        })
        .await
        .expect("someone was not told");
    }
}

fn connect() -> (UnixStream, Mux, [Channel; 2]) {
    let (peer, ours) = UnixStream::pair().unwrap();
    let (mux, channels) = Mux::on_unix(ours, [ONE, TWO], Limits::default()).unwrap();
    mux.admit();
    (peer, mux, channels)
}

/// Reads this many copies of a byte, and returns when the last one had arrived.
async fn count(channel: &mut Channel, n_bytes: usize, byte: u8) -> Instant {
    let mut left = n_bytes;
    let mut buffer = [0; 4096];
    while left > 0 {
        let n_read = tokio::time::timeout(LIMIT, channel.read(&mut buffer)).await.expect("frames are lost").unwrap();
        assert!(n_read > 0 && buffer[..n_read].iter().all(|&read| read == byte));
        left -= n_read;
    }
    Instant::now()
}

/// Returns the status code of the next reply.
async fn refusal(peer: &mut UnixStream) -> Code {
    let reading = async {
        let mut header = [0; 18];
        peer.read_exact(&mut header).await.unwrap();
        let length = u32::from_be_bytes(*header[8..].first_chunk().unwrap());
        let mut body = vec![0; length as usize];
        peer.read_exact(&mut body).await.unwrap();
        Response::parse_from_bytes(&body).unwrap().status.code()
    };
    tokio::time::timeout(LIMIT, reading).await.expect("no reply comes")
}

/// Returns a response with these bytes as its status.
fn in_status(bytes: &[u8]) -> Vec<u8> {
    let mut response = vec![0x0a];
    let mut length = bytes.len();
    while length >= 0x80 {
        response.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    response.push(length as u8);
    response.extend(bytes);
    response
}

fn message(id: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [length.to_be_bytes().as_slice(), &id.to_be_bytes(), &[kind, 0], payload].concat()
}

fn frame(channel: ChannelId, payload: &[u8]) -> Vec<u8> {
    let header = nri_proto::mux::header(channel, payload.len().try_into().unwrap());
    [header.as_slice(), payload].concat()
}

async fn send(peer: &mut UnixStream, channel: ChannelId, payload: &[u8]) {
    peer.write_all(&frame(channel, payload)).await.unwrap();
}
