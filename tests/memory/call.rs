//! What calls cost.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use nri_proto::call::{CallError, Client, Method};
use nri_proto::mux::{ChannelId, Limits, Mux};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use crate::{Count, KIB, MIB, alone, header};

const METHOD: Method = Method { service: "nri.test.Peer", name: "Echo" };

/// U27, T11: the peer reads them and answers none.
#[test]
fn u27_calls_that_timed_out_hold_nothing() {
    alone(async {
        let (peer, _mux, client) = connect();
        let (mut requests, _replies) = peer.into_split();
        let reading = tokio::spawn(async move { tokio::io::copy(&mut requests, &mut tokio::io::sink()).await });
        time_out(&client, 1).await;
        let count = Count::begin();
        time_out(&client, 100).await;
        assert!(count.held() <= 64 * KIB, "{} bytes held", count.held());
        reading.abort();
    });
}

/// U27: requests that cannot leave are not kept either.
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

/// T02: what is thrown away is not kept on the way.
#[test]
fn a_message_that_is_too_large_holds_nothing() {
    alone(async {
        let (mut peer, _mux, client) = connect();
        let mut call = client.send(METHOD, Bytes::new(), Duration::from_secs(20)).await.unwrap();
        let count = Count::begin();
        let chunk = vec![0; MIB];
        let claim = [u32::MAX.to_be_bytes().as_slice(), &1u32.to_be_bytes(), &[2, 0]].concat();
        send(&mut peer, &claim).await;
        let answer = call.reply().await;
        assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
        for _ in 0..256 {
            send(&mut peer, &chunk).await;
        }
        assert!(count.held() <= 2 * MIB, "{} bytes held", count.held());
    });
}

fn connect() -> (UnixStream, Mux, Client) {
    let (peer, ours) = UnixStream::pair().unwrap();
    let (mux, [channel]) = Mux::on_unix(ours, [ChannelId::PLUGIN_SERVICE], Limits::default());
    mux.admit();
    (peer, mux, Client::new(channel))
}

/// A thousand at a time: a timer takes a millisecond at least.
async fn time_out(client: &Client, n_thousands: usize) {
    for _ in 0..n_thousands {
        let calls = (0..1000).map(|_| client.call(METHOD, Bytes::new(), Duration::from_millis(1)));
        for answer in join_all(calls).await {
            assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
        }
    }
}

async fn send(peer: &mut UnixStream, bytes: &[u8]) {
    peer.write_all(&header(ChannelId::PLUGIN_SERVICE, bytes.len().try_into().unwrap())).await.unwrap();
    peer.write_all(bytes).await.unwrap();
}
