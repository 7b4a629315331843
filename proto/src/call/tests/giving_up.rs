//! Deadlines, late replies, and callers that leave.

use bytes::Bytes;
use tokio::time::Instant;

use super::{METHOD, SECOND, client, is_timed_out, read_request, response};
use crate::call::pending_calls::MAX_UNANSWERED;
use crate::call::{CallError, MAX_MESSAGE};

#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_its_timeout() {
    let (_mux, client, _raw) = client(1 << 16);
    let before = Instant::now();
    assert!(is_timed_out(&client.call(METHOD, Bytes::new(), SECOND * 2).await));
    assert_eq!(before.elapsed(), SECOND * 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_reaches_whoever_still_waits_for_it() {
    let (_mux, client, mut raw) = client(1 << 16);
    let mut pending = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    assert!(is_timed_out(&pending.reply().await));
    let (late, ()) = tokio::join!(pending.late(), async {
        tokio::time::sleep(SECOND * 60).await;
        raw.message(1, 2, 1, &response(b"sorry")).await;
    });
    assert_eq!(late.unwrap(), "sorry");
}

/// T11.
#[tokio::test(start_paused = true)]
async fn calls_that_timed_out_leave_nothing_behind() {
    let (_mux, client, mut raw) = client(1 << 20);
    for round in 0..10_000 {
        assert!(is_timed_out(&client.call(METHOD, Bytes::new(), SECOND).await));
        let (stream, _) = read_request(&mut raw).await;
        assert_eq!(stream, 1 + 2 * round);
        raw.message(1, 2, stream, &response(b"too late")).await;
    }
    tokio::task::yield_now().await;
    assert_eq!(client.pending_calls().len(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_replies_gets_no_more_than_a_hundred_requests() {
    let (_mux, client, mut raw) = client(1 << 20);
    for _ in 0..150 {
        assert!(is_timed_out(&client.call(METHOD, Bytes::new(), SECOND).await));
    }
    assert_eq!(client.pending_calls().len(), (0, MAX_UNANSWERED));
    for stream in (1..=199).step_by(2) {
        assert_eq!(read_request(&mut raw).await.0, stream);
        raw.message(1, 2, stream, &response(b"at last")).await;
    }
    let mut next = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    assert_eq!(read_request(&mut raw).await.0, 201, "what was given up before it was sent has no id");
    raw.message(1, 2, 201, &response(b"and again")).await;
    assert_eq!(next.reply().await.unwrap(), "and again");
}

/// U1, U27, M06: the deadline covers the write.
#[tokio::test(start_paused = true)]
async fn u27_a_peer_that_does_not_read_costs_the_timeout_and_no_more() {
    let (_mux, client, mut raw) = client(100);
    let large = Bytes::from(vec![7; MAX_MESSAGE - 100]);
    let mut sent = 0;
    for _ in 0..10 {
        let before = Instant::now();
        match client.send(METHOD, large.clone(), SECOND * 2).await {
            Ok(mut pending) => {
                sent += 1;
                assert!(is_timed_out(&pending.reply().await));
            }
            Err(error) => assert!(matches!(error, CallError::TimedOut), "{error}"),
        }
        assert_eq!(before.elapsed(), SECOND * 2);
    }
    assert_eq!(sent, 1, "what fits the limit of what is unsent");
    assert_eq!(client.pending_calls().len(), (0, 1), "nobody waits for what was sent");
    // The peer reads again: the message that was begun is complete, and the request that timed out
    // before it was begun is never sent.
    let (stream, request) = read_request(&mut raw).await;
    assert_eq!((stream, request.payload.len()), (1, large.len()));
    let mut usable = client.send(METHOD, Bytes::new(), SECOND).await.unwrap();
    assert_eq!(read_request(&mut raw).await.0, 3);
    raw.message(1, 2, 3, &response(b"usable")).await;
    assert_eq!(usable.reply().await.unwrap(), "usable");
}

#[tokio::test]
async fn a_caller_that_leaves_at_any_moment_harms_no_other() {
    let (_mux, client, mut raw) = client(64);
    let large = Bytes::from(vec![7; 20_000]);
    for polls in 0..20 {
        let mut leaving = polled(client.call(METHOD, large.clone(), SECOND));
        for _ in 0..polls {
            leaving.poll().await;
        }
        drop(leaving);
        let mut staying = client.send(METHOD, Bytes::from_static(b"x"), SECOND * 20).await.unwrap();
        let stream = loop {
            let (stream, request) = read_request(&mut raw).await;
            if request.payload == b"x" {
                break stream;
            }
            assert_eq!(request.payload, large, "a request that was begun is whole");
        };
        raw.message(1, 2, stream, &response(b"y")).await;
        assert_eq!(staying.reply().await.unwrap(), "y");
    }
    assert_eq!(client.pending_calls().len().0, 0);
}

/// A future that the test polls itself. The other tasks run after each poll.
struct Polled<F>(std::pin::Pin<Box<F>>);

fn polled<F: Future>(future: F) -> Polled<F> {
    Polled(Box::pin(future))
}

impl<F: Future> Polled<F> {
    async fn poll(&mut self) {
        std::future::poll_fn(|context| {
            let _ = self.0.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
}
