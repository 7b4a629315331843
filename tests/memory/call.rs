//! The memory that calls cost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use nri_proto::call::{CallError, Client, Method, ServeLimits, serve};
use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use ttrpc::proto::{MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE};

use crate::{Count, KIB, MIB, alone, header};

const METHOD: Method = Method { service: "nri.test.Peer", name: "Echo" };

/// U27, T11: the peer replies to all calls, each time after their callers have given up.
#[test]
fn u27_calls_that_timed_out_hold_nothing() {
    alone(async {
        let (mut peer, _mux, client) = connect();
        // Until buffers and tables have reached their final size.
        for _ in 0..20 {
            time_out(&client, &mut peer).await;
        }
        let count = Count::begin();
        for _ in 0..200 {
            time_out(&client, &mut peer).await;
        }
        assert!(count.held() <= 4 * KIB, "{} bytes held", count.held());
    });
}

/// U27, T11: the peer replies to none of the calls.
#[test]
fn u27_calls_that_are_never_answered_hold_no_more_than_a_hundred_do() {
    alone(async {
        let (peer, _mux, client) = connect();
        let (mut requests, _replies) = peer.into_split();
        let reading = tokio::spawn(async move { tokio::io::copy(&mut requests, &mut tokio::io::sink()).await });
        let count = Count::begin();
        for _ in 0..100 {
            let calls = (0..1000).map(|_| client.call(METHOD, Bytes::new(), Duration::from_millis(1)));
            for answer in join_all(calls).await {
                assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
            }
        }
        assert!(count.held() <= 64 * KIB, "{} bytes held", count.held());
        reading.abort();
    });
}

/// U27: requests that cannot be sent are not kept either.
#[test]
fn u27_calls_to_a_peer_that_does_not_read_hold_no_more_than_is_queued() {
    alone(async {
        let (_peer, _mux, client) = connect();
        let payload = Bytes::from(vec![0; MIB]);
        let count = Count::begin();
        for _ in 0..200 {
            let answer = client.call(METHOD, payload.clone(), Duration::from_millis(1)).await;
            assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
        }
        // The payload itself is shared, not copied.
        assert!(count.held() <= 64 * KIB, "{} bytes held", count.held());
    });
}

/// T02: a discarded message is not buffered.
#[test]
fn a_message_that_is_too_large_holds_nothing() {
    alone(async {
        let (mut peer, _mux, client) = connect();
        let mut call = client.send(METHOD, Bytes::new(), Duration::from_secs(20)).await.unwrap();
        let count = Count::begin();
        let chunk = vec![0; MIB];
        let claim = [u32::MAX.to_be_bytes().as_slice(), &1u32.to_be_bytes(), &[MESSAGE_TYPE_RESPONSE, 0]].concat();
        send(&mut peer, &claim).await;
        let answer = call.reply().await;
        assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
        for _ in 0..256 {
            send(&mut peer, &chunk).await;
        }
        assert!(count.held() <= 2 * MIB, "{} bytes held", count.held());
    });
}

/// T09: a message of two million empty entries.
#[test]
fn metadata_without_end_is_not_kept() {
    alone(async {
        let (mut peer, mux, channel) = connect_channel();
        let server = tokio::spawn(serve(channel, Arc::default(), ServeLimits::default(), CancellationToken::new()));
        let count = Count::begin();
        send(&mut peer, &message(1, MESSAGE_TYPE_REQUEST, &[0x2a, 0].repeat(2 << 20))).await;
        peer.read_exact(&mut [0; 18]).await.unwrap();
        assert!(count.allocated() <= 32 * MIB, "{} bytes allocated", count.allocated());
        mux.close();
        server.await.unwrap();
    });
}

/// T09: a reply whose status has two million empty details.
#[test]
fn details_of_a_status_without_end_are_not_kept() {
    alone(async {
        let (mut peer, _mux, client) = connect();
        let mut call = client.send(METHOD, Bytes::new(), Duration::from_secs(20)).await.unwrap();
        let count = Count::begin();
        let status = [0x1a, 0].repeat(1 << 20);
        // Field 1, a message of 2 MiB.
        let response = [[0x0a, 0x80, 0x80, 0x80, 0x01].as_slice(), &status].concat();
        send(&mut peer, &message(1, MESSAGE_TYPE_RESPONSE, &response)).await;
        call.reply().await.unwrap();
        assert!(count.allocated() <= 32 * MIB, "{} bytes allocated", count.allocated());
    });
}

fn connect() -> (UnixStream, Mux, Client) {
    let (peer, mux, channel) = connect_channel();
    (peer, mux, Client::new(channel))
}

fn connect_channel() -> (UnixStream, Mux, Channel) {
    let (peer, ours) = UnixStream::pair().unwrap();
    let (mux, [channel]) = Mux::on_unix(ours, [ChannelId::PLUGIN_SERVICE], Limits::default()).unwrap();
    mux.admit();
    (peer, mux, channel)
}

/// Makes a hundred calls that time out, and has the peer reply to those that it got. Then makes one
/// more call that is answered, so all earlier replies have arrived.
async fn time_out(client: &Client, peer: &mut UnixStream) {
    let calls = (0..100).map(|_| async {
        let mut call = client.send(METHOD, Bytes::new(), Duration::from_millis(5)).await.ok()?;
        let answer = call.reply().await;
        assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
        Some(())
    });
    let n_sent = join_all(calls).await.into_iter().flatten().count();
    assert!(n_sent > 0, "nothing was sent");
    for _ in 0..n_sent {
        reply(peer).await;
    }
    let (answer, ()) = tokio::join!(client.call(METHOD, Bytes::new(), Duration::from_secs(20)), reply(peer));
    answer.unwrap();
}

/// Reads one request and replies to it.
async fn reply(peer: &mut UnixStream) {
    let mut headers = [0; 18];
    peer.read_exact(&mut headers).await.unwrap();
    let [length, id] = [8, 12].map(|at| u32::from_be_bytes(*headers[at..].first_chunk().unwrap()));
    peer.read_exact(&mut vec![0; length as usize]).await.unwrap();
    send(peer, &message(id, MESSAGE_TYPE_RESPONSE, &[])).await;
}

fn message(id: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [length.to_be_bytes().as_slice(), &id.to_be_bytes(), &[kind, 0], payload].concat()
}

async fn send(peer: &mut UnixStream, bytes: &[u8]) {
    peer.write_all(&header(ChannelId::PLUGIN_SERVICE, bytes.len().try_into().unwrap())).await.unwrap();
    peer.write_all(bytes).await.unwrap();
}
