//! Replies as the client receives them.

use bytes::Bytes;
use proptest::prelude::*;
use ttrpc::Code;

use super::{METHOD, SECOND, bytes, client, read_request, refusal, response};
use crate::call::envelope::reply;
use crate::call::{CallError, MAX_MESSAGE};
use crate::mux::Closed;
use crate::mux::tests::raw::message;

proptest! {
    #[test]
    fn a_reply_is_read_as_it_was_written(payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(reply(&Bytes::from(response(&payload))).unwrap(), payload);
    }

    #[test]
    fn no_reply_makes_reading_panic(message in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = reply(&Bytes::from(message));
    }
}

#[tokio::test]
async fn replies_may_come_in_any_order() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut first = client.send(METHOD, bytes("1"), SECOND).await.unwrap();
    let mut second = client.send(METHOD, bytes("2"), SECOND).await.unwrap();
    raw.message(1, 2, 3, &response(b"two")).await;
    raw.message(1, 2, 1, &response(b"one")).await;
    assert_eq!(second.reply().await.unwrap(), "two");
    assert_eq!(first.reply().await.unwrap(), "one");
    assert_eq!(first.reply().await.unwrap(), "one", "asked again, it says the same");
}

#[tokio::test]
async fn a_refusal_has_its_code_and_its_text() {
    let (_mux, client, mut raw) = client(1 << 16);
    raw.message(1, 2, 1, &refusal(Code::NOT_FOUND, "no such thing")).await;
    let mut pending = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    // The reply arrived before the request was sent, when no caller waited for it.
    raw.message(1, 2, 1, &refusal(Code::NOT_FOUND, "no such thing")).await;
    let refused = pending.reply().await.unwrap_err();
    let CallError::Refused { code, message, payload } = &refused else { panic!("{refused}") };
    assert_eq!((*code, &**message, &payload[..]), (Code::NOT_FOUND, "no such thing", &b""[..]));
    assert_eq!(refused.to_string(), "refused with NOT_FOUND: no such thing");
}

#[tokio::test]
async fn a_refusal_keeps_the_reply_that_comes_with_it() {
    let (_mux, client, mut raw) = client(1 << 16);
    for (id, length) in [(1, 3), (3, 10_000)] {
        let mut pending = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
        let reply = vec![7; length];
        raw.message(1, 2, id, &[refusal(Code::UNKNOWN, "not all"), response(&reply)].concat()).await;
        let Err(CallError::Refused { message, payload, .. }) = pending.reply().await else { panic!("it is accepted") };
        assert_eq!((&*message, &payload[..]), ("not all", &reply[..]));
    }
}

#[tokio::test]
async fn a_refusal_with_a_code_that_we_do_not_know_is_still_a_refusal() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut pending = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    raw.message(1, 2, 1, &[0x0a, 0x02, 0x08, 0x63]).await;
    assert!(matches!(pending.reply().await, Err(CallError::Refused { code: Code::UNKNOWN, .. })));
}

/// T01, A15, A16.
#[tokio::test]
async fn messages_that_nobody_waits_for_are_passed_over() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut pending = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    for kind in [0, 1, 3, 4, 255] {
        raw.message(1, kind, 1, b"not a response").await;
    }
    for stream in [0, 2, 77, u32::MAX] {
        raw.message(1, 2, stream, &response(b"not yours")).await;
    }
    raw.message(1, 2, 1, &response(b"yours")).await;
    raw.message(1, 2, 1, &response(b"twice")).await;
    assert_eq!(pending.reply().await.unwrap(), "yours");
    let mut next = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    raw.message(1, 2, 3, &response(b"next")).await;
    assert_eq!(next.reply().await.unwrap(), "next");
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_fails_its_call_alone() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut bad = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    let mut good = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    raw.message(1, 2, 1, &[0xff; 20]).await;
    raw.message(1, 2, 3, &response(b"fine")).await;
    assert!(matches!(bad.reply().await, Err(CallError::Malformed { .. })));
    assert_eq!(good.reply().await.unwrap(), "fine");
}

/// T02.
#[tokio::test]
async fn a_reply_that_is_too_large_fails_its_call_alone() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut bad = client.send(METHOD, Bytes::new(), SECOND * 20).await.unwrap();
    let mut good = client.send(METHOD, Bytes::new(), SECOND * 20).await.unwrap();
    let oversized = message(2, 1, &vec![0; MAX_MESSAGE + 1]);
    for chunk in oversized.chunks(100_000) {
        raw.frame(1, chunk).await;
    }
    raw.message(1, 2, 3, &response(b"fine")).await;
    assert!(matches!(bad.reply().await, Err(CallError::Malformed { .. })));
    assert_eq!(good.reply().await.unwrap(), "fine");
}

#[tokio::test]
async fn the_largest_reply_is_read() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut pending = client.send(METHOD, Bytes::new(), SECOND * 20).await.unwrap();
    let largest = response(&vec![7; MAX_MESSAGE - 5]);
    assert_eq!(largest.len(), MAX_MESSAGE);
    let (reply, ()) = tokio::join!(pending.reply(), raw.message(1, 2, 1, &largest));
    assert_eq!(reply.unwrap().len(), MAX_MESSAGE - 5);
}

#[tokio::test]
async fn the_end_of_the_connection_ends_every_call_with_its_reason() {
    let (mux, client, mut raw) = client(1 << 16);
    let mut pending = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    let _ = read_request(&mut raw).await;
    raw.write(&[0, 0, 0, 1, 255, 255, 255, 255]).await;
    let ended = pending.reply().await;
    assert!(matches!(ended, Err(CallError::Closed(Closed::FrameTooLarge { .. }))), "{ended:?}");
    let after = client.call(METHOD, Bytes::new(), SECOND).await;
    assert!(matches!(after, Err(CallError::Closed(Closed::FrameTooLarge { .. }))), "{after:?}");
    let _ = mux.closed().await;
}

#[tokio::test]
async fn dropping_the_last_client_ends_its_task_and_not_the_connection() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (mux, client, mut raw) = client(1 << 16);
    let another = client.clone();
    drop(client);
    let _pending = another.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    let _ = read_request(&mut raw).await;
    drop(another);
    let ended = async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > before + 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SECOND * 20, ended).await.expect("its task is left");
    raw.message(1, 2, 1, &response(b"for nobody")).await;
    mux.close();
    assert!(matches!(mux.closed().await, Closed::Local));
}
