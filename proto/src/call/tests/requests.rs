//! Requests as the client sends them.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use protobuf::Message;
use ttrpc::Request;

use super::{METHOD, SECOND, client, read_request, response};
use crate::call::envelope::request_head;
use crate::call::{CallError, MAX_MESSAGE, Method};
use crate::mux::Closed;

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(timeout in 1i64.., payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut encoded = request_head(METHOD, timeout, payload.len());
        encoded.extend(&payload);
        let request = Request::parse_from_bytes(&encoded).unwrap();
        prop_assert_eq!(request.service.as_str(), METHOD.service);
        prop_assert_eq!(request.method.as_str(), METHOD.name);
        prop_assert_eq!(request.timeout_nano, timeout);
        prop_assert_eq!(request.payload, payload);
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_travels_with_the_request() {
    let (_mux, client, mut raw) = client(1 << 16);
    let _pending = client.send(METHOD, Bytes::new(), Duration::from_millis(1500)).await.unwrap();
    assert_eq!(read_request(&mut raw).await.1.timeout_nano, 1_500_000_000);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_request_waited_is_no_longer_on_its_deadline() {
    let (_mux, client, mut raw) = client(64);
    let large = Bytes::from(vec![0; MAX_MESSAGE - 100]);
    let mut before = Vec::new();
    while let Ok(sent) = tokio::time::timeout(SECOND, client.send(METHOD, large.clone(), SECOND * 100)).await {
        before.push(sent.unwrap());
    }
    let (waited, ()) = tokio::join!(client.send(METHOD, Bytes::from(vec![1; 1000]), SECOND * 10), async {
        tokio::time::sleep(SECOND * 3).await;
        for _ in &before {
            raw.read_message().await;
        }
    });
    let _waited = waited.unwrap();
    assert_eq!(read_request(&mut raw).await.1.timeout_nano, 7_000_000_000);
}

/// U26, T04: ids are taken and sent under one lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn u26_stream_ids_leave_in_order_at_any_concurrency() {
    const CALLERS: u32 = 64;
    const CALLS: u32 = 100;
    let (_mux, client, mut raw) = client(4096);
    for _ in 0..CALLERS {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..CALLS {
                client.call(METHOD, Bytes::new(), SECOND * 60).await.unwrap();
            }
        });
    }
    for expected in 0..CALLERS * CALLS {
        let (stream, _) = read_request(&mut raw).await;
        assert_eq!(stream, 1 + 2 * expected);
        raw.message(1, 2, stream, &response(b"")).await;
    }
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_sent() {
    let (_mux, client, mut raw) = client(16 << 20);
    let overhead = request_head(METHOD, i64::MAX, MAX_MESSAGE).len();
    let refused = client.call(METHOD, Bytes::from(vec![0; MAX_MESSAGE]), SECOND).await;
    assert!(
        matches!(refused, Err(CallError::TooLarge { size, limit: MAX_MESSAGE }) if size > MAX_MESSAGE),
        "{refused:?}"
    );
    let _fits = client.send(METHOD, Bytes::from(vec![0; MAX_MESSAGE - overhead]), SECOND).await.unwrap();
    assert_eq!(read_request(&mut raw).await.0, 1, "the first to be sent has the first id");
}

#[tokio::test]
async fn a_name_that_does_not_fit_into_gos_buffer_is_refused() {
    let (_mux, client, _raw) = client(1 << 16);
    let service: &'static str = "x".repeat(5000).leak();
    let refused = client.call(Method { service, name: "M" }, Bytes::new(), SECOND).await;
    assert!(matches!(refused, Err(CallError::TooLarge { .. })), "{refused:?}");
}

/// T05.
#[tokio::test]
async fn a_connection_whose_ids_are_used_up_is_closed() {
    let (mux, client, mut raw) = client(1 << 16);
    client.pending_calls().skip_to(u32::MAX);
    let _last = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    assert_eq!(read_request(&mut raw).await.0, u32::MAX);
    let refused = client.call(METHOD, Bytes::new(), SECOND).await;
    assert!(matches!(refused, Err(CallError::Closed(Closed::IdsUsedUp))), "{refused:?}");
    assert!(matches!(mux.closed().await, Closed::IdsUsedUp));
}
