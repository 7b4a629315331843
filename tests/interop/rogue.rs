//! A peer with valid frames and invalid ttrpc messages.

use std::time::Duration;

use bytes::Bytes;
use nri_proto::call::CallError;

use crate::peer::{Go, PATIENCE, against_every_go, method, pattern};

against_every_go! {
    messages_that_nobody_asked_for_are_passed_over,
    replies_may_be_cut_in_any_way,
    a_reply_that_cannot_be_read_fails_its_call_alone,
    a_message_that_is_too_large_is_thrown_away_and_fails_its_call_alone,
    a_peer_that_claims_a_message_of_four_gigabytes_is_not_heard_any_more,
}

/// T01, T03: a second reply, replies to calls that were not made, and messages of every kind with
/// every flag.
async fn messages_that_nobody_asked_for_are_passed_over(go: Go) {
    for mode in ["honest", "twice", "strangers", "kinds", "data"] {
        answers(&go, mode, 20).await;
    }
}

/// M03: byte by byte, and with empty frames between the parts.
async fn replies_may_be_cut_in_any_way(go: Go) {
    for mode in ["bytewise", "hollow"] {
        answers(&go, mode, 1000).await;
    }
}

async fn a_reply_that_cannot_be_read_fails_its_call_alone(go: Go) {
    let (_rogue, connection) = go.rogue(&["malformed"]);
    for _ in 0..3 {
        let answer = connection.client.call(method("Echo"), Bytes::new(), PATIENCE).await;
        assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
    }
}

/// T02.
async fn a_message_that_is_too_large_is_thrown_away_and_fails_its_call_alone(go: Go) {
    answers(&go, "oversized", 20).await;

    let (_rogue, connection) = go.rogue(&["oversized-reply"]);
    for _ in 0..3 {
        let answer = connection.client.call(method("Echo"), Bytes::new(), PATIENCE).await;
        assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
    }
}

/// T02: the data that follows counts as a part of that message.
async fn a_peer_that_claims_a_message_of_four_gigabytes_is_not_heard_any_more(go: Go) {
    let (_rogue, connection) = go.rogue(&["boaster"]);
    let answer = connection.client.call(method("Echo"), Bytes::new(), PATIENCE).await;
    assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
    let answer = connection.client.call(method("Echo"), Bytes::new(), Duration::from_millis(100)).await;
    assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
}

/// Checks that each of some calls gets its own reply.
async fn answers(go: &Go, mode: &str, size: usize) {
    let (_rogue, connection) = go.rogue(&[mode]);
    for call in 0..10 {
        let request = Bytes::from(pattern(size + call));
        let answer = connection.client.call(method("Echo"), request.clone(), PATIENCE).await;
        assert!(answer.as_ref().is_ok_and(|reply| *reply == request), "{mode}, call {call}: {answer:?}");
    }
}
