//! Calls of a Go client to our server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nri_proto::call::{MAX_MESSAGE, Method, ServeLimits};
use nri_proto::mux::Closed;
use tokio::task::JoinSet;

use crate::envelope::{reply_length, request_length_without_deadline, value_of};
use crate::peer::{Go, PATIENCE, Peer, Serving, against_every_go, ask};
use crate::runtime::Runtime;

against_every_go! {
    requests_of_every_size_are_answered,
    replies_of_every_size_reach_go,
    a_request_that_is_too_large_is_refused_and_harms_nothing,
    a_reply_that_is_too_large_is_refused_and_harms_nothing,
    none_of_20_000_calls_by_64_callers_is_refused,
    none_of_20_000_calls_by_200_callers_is_refused,
    more_than_may_be_worked_on_at_a_time_is_refused,
    our_handler_sees_the_deadline,
    u28_a_handler_that_panics_is_answered_for,
    what_nobody_serves_is_refused_by_name,
    an_error_keeps_its_code_and_its_text,
    a_handler_runs_to_its_end_though_its_caller_dies,
    a_server_that_is_told_to_end_waits_for_its_handlers,
    both_directions_are_busy_at_once,
}

const LENGTHS: [usize; 7] = [4085, 4086, 4096, 4097, 65536, MAX_MESSAGE - 1, MAX_MESSAGE];

/// A request has the names of the service and the method in it and is never as short as 0 or 1
/// byte. Those two are the lengths of the value in its payload.
async fn requests_of_every_size_are_answered(go: Go) {
    let (_peer, serving, _) = serve(&go);
    for size in [0, 1] {
        assert_eq!(
            serving.ask("Call", call("Echo", &format!("={size}"))).await,
            format!("OK {size} {}", &"\0"[..size])
        );
    }
    for length in LENGTHS {
        let size = value_of(length, |value| request_length_without_deadline(ECHO, value));
        let answer = serving.ask("Call", call("Echo", &format!("={size}"))).await;
        assert_eq!(answer, format!("OK {size} "), "a request of {length} bytes");
    }
    serving.end().await;
}

/// A reply without a payload has 0 bytes, or a status that says OK. No reply has 1 byte: that is
/// the length of the value.
async fn replies_of_every_size_reach_go(go: Go) {
    let (_peer, serving, _) = serve(&go);
    assert_eq!(serving.ask("Call", call("Zeros", "0")).await, "OK 0 ");
    assert_eq!(serving.ask("Call", call("Zeros", "1")).await, "OK 1 \0");
    for length in LENGTHS {
        let size = value_of(length, reply_length);
        let answer = serving.ask("Call", call("Zeros", &size.to_string())).await;
        assert_eq!(answer, format!("OK {size} "), "a reply of {length} bytes");
    }
    serving.end().await;
}

/// Only the first client of NRI sends such a request; newer ones refuse it themselves.
async fn a_request_that_is_too_large_is_refused_and_harms_nothing(go: Go) {
    let (_peer, serving, runtime) = serve(&go);
    let size = value_of(MAX_MESSAGE, |value| request_length_without_deadline(ECHO, value)) + 1;
    let answer = serving.ask("Call", call("Echo", &format!("={size}"))).await;
    assert!(answer.starts_with("8 "), "{answer}");
    assert_eq!(runtime.n_begun.load(Ordering::Acquire), 0);
    assert_eq!(serving.ask("Call", call("Echo", "still there")).await, "OK 11 still there");
    serving.end().await;
}

async fn a_reply_that_is_too_large_is_refused_and_harms_nothing(go: Go) {
    let (_peer, serving, _) = serve(&go);
    let size = value_of(MAX_MESSAGE, reply_length) + 1;
    let answer = serving.ask("Call", call("Zeros", &size.to_string())).await;
    assert_eq!(answer, "8 message length 4194305 exceed maximum message size of 4194304");
    assert_eq!(serving.ask("Call", call("Echo", "still there")).await, "OK 11 still there");
    serving.end().await;
}

async fn none_of_20_000_calls_by_64_callers_is_refused(go: Go) {
    none_is_refused(&go, 64).await;
}

async fn none_of_20_000_calls_by_200_callers_is_refused(go: Go) {
    none_is_refused(&go, 200).await;
}

async fn none_is_refused(go: &Go, n_callers: usize) {
    let (_peer, serving, runtime) = serve(go);
    assert_eq!(serving.ask("Flood", format!("{SERVICE} {n_callers} 20000")).await, "20000 answered");
    assert_eq!(runtime.n_ended.load(Ordering::Acquire), 20_000);
    serving.end().await;
}

async fn more_than_may_be_worked_on_at_a_time_is_refused(go: Go) {
    let (_peer, serving, runtime) = serve_within(&go, ServeLimits { requests: 3, ..ServeLimits::default() });
    let mut held = JoinSet::new();
    for _ in 0..3 {
        let client = serving.client.clone();
        held.spawn(async move { ask(&client, "Call", call("Hold", "x")).await.unwrap() });
    }
    runtime.has_begun(3).await;
    assert_eq!(serving.ask("Call", call("Echo", "")).await, "8 too many requests at a time");

    runtime.release.0.add_permits(3);
    while let Some(answer) = held.join_next().await {
        assert_eq!(answer.unwrap(), b"OK 1 x");
    }
    assert_eq!(serving.ask("Call", call("Echo", "again")).await, "OK 5 again");
    serving.end().await;
}

async fn our_handler_sees_the_deadline(go: Go) {
    let (_peer, serving, _) = serve(&go);
    let answer = serving.ask("Call", format!("{SERVICE} Deadline 5s ")).await;
    let left = Duration::from_nanos(answer.rsplit_once(' ').unwrap().1.parse().unwrap());
    let given = Duration::from_secs(5);
    assert!(left <= given && left + Duration::from_secs(1) > given, "{left:?} of {given:?} are left");
    assert_eq!(serving.ask("Call", call("Deadline", "")).await, "OK 1 0", "without a deadline");
    serving.end().await;
}

/// T10.
async fn u28_a_handler_that_panics_is_answered_for(go: Go) {
    let (_peer, serving, _) = serve(&go);
    assert_eq!(serving.ask("Call", call("Panic", "in a test, as it should")).await, "13 the handler of Panic panicked");
    assert_eq!(serving.ask("Call", call("Echo", "still there")).await, "OK 11 still there");
    serving.end().await;
}

/// T06.
async fn what_nobody_serves_is_refused_by_name(go: Go) {
    let (_peer, serving, _) = serve(&go);
    assert_eq!(serving.ask("Call", "nri.test.Nobody Echo 0s ").await, "12 service nri.test.Nobody");
    assert_eq!(serving.ask("Call", call("Nothing", "")).await, "12 method Nothing");
    serving.end().await;
}

async fn an_error_keeps_its_code_and_its_text(go: Go) {
    let (_peer, serving, _) = serve(&go);
    assert_eq!(serving.ask("Call", call("Fail", "status")).await, "9 not yet");
    let answer = serving.ask("Call", call("Fail", "for no reason")).await;
    assert!(answer.starts_with("2 ") && answer.contains("for no reason"), "{answer}");
    serving.end().await;
}

async fn a_handler_runs_to_its_end_though_its_caller_dies(go: Go) {
    let (mut peer, serving, runtime) = serve(&go);
    let client = serving.client.clone();
    let held = tokio::spawn(async move { ask(&client, "Call", call("Hold", "x")).await });
    runtime.has_begun(1).await;

    peer.kill();
    held.await.unwrap().unwrap_err();
    assert!(matches!(serving.mux.closed().await, Closed::Eof));
    assert!(!serving.server.is_finished(), "the server did not wait for its handler");

    runtime.release.0.add_permits(1);
    tokio::time::timeout(PATIENCE, serving.server).await.expect("the server does not end").unwrap();
    assert_eq!(runtime.n_ended.load(Ordering::Acquire), 1);
}

async fn a_server_that_is_told_to_end_waits_for_its_handlers(go: Go) {
    let (_peer, serving, runtime) = serve(&go);
    let client = serving.client.clone();
    let held = tokio::spawn(async move { ask(&client, "Call", call("Hold", "x")).await });
    runtime.has_begun(1).await;

    serving.shutdown.cancel();
    runtime.release.0.add_permits(1);
    tokio::time::timeout(PATIENCE, serving.server).await.expect("the server does not end").unwrap();
    assert_eq!(held.await.unwrap().unwrap(), b"OK 1 x", "the reply of the last handler");
}

async fn both_directions_are_busy_at_once(go: Go) {
    let (_peer, serving, runtime) = serve(&go);
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let client = serving.client.clone();
        callers.spawn(async move {
            for call in 0..50 {
                let value = vec![caller; 1000 * call];
                assert!(ask(&client, "Echo", value.clone()).await.unwrap() == value);
            }
        });
    }
    assert_eq!(serving.ask("Flood", format!("{SERVICE} 32 5000")).await, "5000 answered");
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    assert_eq!(runtime.n_ended.load(Ordering::Acquire), 5000);
    serving.end().await;
}

const SERVICE: &str = "nri.test.Runtime";
const ECHO: Method = Method { service: SERVICE, name: "Echo" };

/// Returns the command with which Go makes a call without a deadline.
fn call(method: &str, value: &str) -> String {
    format!("{SERVICE} {method} 0s {value}")
}

fn serve(go: &Go) -> (Peer, Serving, Arc<Runtime>) {
    serve_within(go, ServeLimits { requests: 256, ..ServeLimits::default() })
}

fn serve_within(go: &Go, limits: ServeLimits) -> (Peer, Serving, Arc<Runtime>) {
    let runtime = Arc::new(Runtime::default());
    let (peer, connection) = go.peer(&[]);
    let serving = connection.serving(runtime.services(), limits);
    (peer, serving, runtime)
}
