//! Go peers that break: at every byte, in every way.
//!
//! Whatever a peer does, a call ends in time with a reason, and after the connection has ended no
//! task and no socket is left. The tests assert the former; [`Connection::ended`] and the function
//! that runs each story check the latter.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::Signal;
use nri_proto::call::{CallError, Method, ServeLimits};
use nri_proto::mux::{Closed, Limits};
use tokio::task::JoinSet;

use crate::envelope::{borders, reply_length, request_length, request_length_without_deadline, steps};
use crate::peer::{Connection, Go, PATIENCE, Peer, against_every_go, ask, encode, method, pattern};
use crate::runtime::Runtime;

against_every_go! {
    a_peer_that_ends_at_any_byte_of_its_reply_ends_the_call_with_the_reason,
    a_peer_that_dies_at_any_byte_of_our_request_ends_the_call_with_the_reason,
    a_peer_that_dies_at_any_byte_of_its_request_reaches_no_handler,
    a_peer_that_falls_silent_at_any_byte_of_its_reply_costs_the_timeout,
    garbage_at_any_byte_of_a_reply_leaves_no_call_waiting,
    garbage_at_any_byte_of_a_request_leaves_no_server_running,
    u7_a_header_that_claims_four_gigabytes_ends_the_connection,
    frames_for_channels_that_nobody_opened_are_dropped_and_counted,
    a_peer_that_is_killed_takes_all_calls_with_it,
    a_peer_that_is_killed_while_we_write_ends_the_calls_with_the_reason,
    a_peer_that_is_stopped_again_and_again_loses_nothing,
}

/// The lengths of values, for a reply in one frame and for a reply in two.
const VALUES: [usize; 2] = [1, 5000];

/// M10.
async fn a_peer_that_ends_at_any_byte_of_its_reply_ends_the_call_with_the_reason(go: Go) {
    for (act, size) in [("die", 1), ("die", 5000), ("close", 1), ("close", 5000)] {
        for step in steps(reply_length(size)) {
            let fault = format!("write:{step}:{act}");
            let (peer, connection) = go.peer(&["-fault", &fault]);
            let error = connection.ask("Echo", pattern(size)).await.unwrap_err();
            assert_eq!(reason_of(&error), reason_of_ending(size, step), "{fault}");
            assert_eq!(connection.ended(&peer).await.to_string(), reason_of_ending(size, step), "{fault}");
        }
    }
}

/// Data that the peer has not read turns the end of its connection into a reset.
async fn a_peer_that_dies_at_any_byte_of_our_request_ends_the_call_with_the_reason(go: Go) {
    for size in VALUES {
        for step in steps(request_length(method("Echo"), size)) {
            let fault = format!("read:{step}:die");
            let (peer, connection) = go.peer(&["-fault", &fault]);
            let error = connection.ask("Echo", pattern(size)).await.unwrap_err();
            assert!(matches!(&error, CallError::Closed(reason) if is_gone(reason)), "{fault}: {error:?}");
            let reason = connection.ended(&peer).await;
            assert!(is_gone(&reason), "{fault}: {reason}");
        }
    }
}

/// No handler is started for an incomplete request.
async fn a_peer_that_dies_at_any_byte_of_its_request_reaches_no_handler(go: Go) {
    for size in VALUES {
        for step in steps(request_length_without_deadline(RUNTIME_ECHO, size)) {
            let fault = format!("write:{step}:die");
            let (peer, connection) = go.peer(&["-fault", &fault]);
            let runtime = Arc::new(Runtime::default());
            let serving = connection.serving(runtime.services(), ServeLimits::default());
            let call = format!("{} {} 0s ={size}", RUNTIME_ECHO.service, RUNTIME_ECHO.name);
            let error = ask(&serving.client, "Call", call).await.unwrap_err();
            assert!(matches!(error, CallError::Closed(Closed::Eof | Closed::Truncated)), "{fault}: {error:?}");
            tokio::time::timeout(PATIENCE, serving.server).await.expect("the server does not end").unwrap();
            assert_eq!(runtime.n_begun.load(Ordering::Acquire), 0, "{fault}");
            // Callers and servers may learn of the end before the socket is closed.
            tokio::time::timeout(PATIENCE, serving.mux.closed()).await.expect("the connection does not end");
            assert!(!peer.is_connected(), "{fault}");
        }
    }
}

const RUNTIME_ECHO: Method = Method { service: "nri.test.Runtime", name: "Echo" };

async fn a_peer_that_falls_silent_at_any_byte_of_its_reply_costs_the_timeout(go: Go) {
    for size in VALUES {
        for step in steps(reply_length(size)) {
            let (mut peer, connection) = breaking(&go, step, "stall", "").await;
            let mut call = connection.client.send(method("Echo"), encode(pattern(size)), BRIEF).await.unwrap();
            peer.says("stalled").await;
            assert!(matches!(call.reply().await, Err(CallError::TimedOut)), "at byte {step}");

            peer.kill();
            let late = tokio::time::timeout(PATIENCE, call.late()).await.expect("a call hangs");
            assert_eq!(reason_of(&late.unwrap_err()), reason_of_ending(size, step), "at byte {step}");
            connection.ended(&peer).await;
        }
    }
}

/// Inserted bytes may turn a reply into another valid one, which only the peer can prevent. Where a
/// frame should begin, they are recognized.
async fn garbage_at_any_byte_of_a_reply_leaves_no_call_waiting(go: Go) {
    for garbage in GARBAGE {
        for size in VALUES {
            for step in steps(reply_length(size)) {
                let (mut peer, connection) = breaking(&go, step, "garbage", garbage).await;
                let mut call = connection.client.send(method("Echo"), encode(pattern(size)), PATIENCE).await.unwrap();
                peer.says("sent garbage").await;
                peer.kill();
                let outcome = tokio::time::timeout(PATIENCE, call.late()).await.expect("a call hangs");
                if borders(reply_length(size)).contains(&step)
                    && let Some(expected) = reason_of_garbage(garbage)
                {
                    assert_eq!(reason_of(&outcome.unwrap_err()), expected, "{garbage} at byte {step}");
                }
                connection.ended(&peer).await;
            }
        }
    }
}

async fn garbage_at_any_byte_of_a_request_leaves_no_server_running(go: Go) {
    for garbage in GARBAGE {
        for step in steps(request_length_without_deadline(RUNTIME_ECHO, 1)) {
            let (mut peer, connection) = breaking(&go, step, "garbage", garbage).await;
            let runtime = Arc::new(Runtime::default());
            let serving = connection.serving(runtime.services(), ServeLimits::default());
            let call = encode(format!("{} {} 0s =1", RUNTIME_ECHO.service, RUNTIME_ECHO.name));
            let mut call = serving.client.send(method("Call"), call, PATIENCE).await.unwrap();
            peer.says("sent garbage").await;
            peer.kill();
            let outcome = tokio::time::timeout(PATIENCE, call.late()).await.expect("a call hangs");
            if step == 0
                && let Some(expected) = reason_of_garbage(garbage)
            {
                assert_eq!(reason_of(&outcome.unwrap_err()), expected, "{garbage}");
            }
            tokio::time::timeout(PATIENCE, serving.server).await.expect("the server does not end").unwrap();
            tokio::time::timeout(PATIENCE, serving.mux.closed()).await.expect("the connection does not end");
            assert!(!peer.is_connected(), "{garbage} at byte {step}");
        }
    }
}

/// The inserted bytes: ones, zeros, a frame for channel 1 without a ttrpc message, and random
/// bytes.
const GARBAGE: [&str; 4] = [
    "ffffffffffffffffffffffffffffffff",
    "00000000000000000000000000000000",
    "0000000100000010deadbeefdeadbeefdeadbeefdeadbeef",
    "9a3f00e1770b5cd24482f0136eab90cc017de4b83359a60f2c",
];

/// Returns the reason for which the connection ends if these bytes are where a frame should begin.
fn reason_of_garbage(garbage: &str) -> Option<String> {
    let limit = Limits::default().frame;
    let reason = match &garbage[..2] {
        "ff" => Closed::FrameTooLarge { channel: u32::MAX, length: u32::MAX as usize, limit },
        "00" if garbage.ends_with("00") => Closed::ReservedChannel,
        "9a" => Closed::FrameTooLarge { channel: 0x9a3f_00e1, length: 0x770b_5cd2, limit },
        _ => return None,
    };
    Some(reason.to_string())
}

/// The memory tests measure the allocations for this header.
async fn u7_a_header_that_claims_four_gigabytes_ends_the_connection(go: Go) {
    let expected = "the peer announced a frame of 4294967295 bytes on channel 1, at most 4194314 are allowed";
    let (peer, connection) = go.peer(&["-fault", "read:0:garbage", "-garbage", "00000001ffffffff"]);
    assert_eq!(connection.ended(&peer).await.to_string(), expected);
}

/// M02.
async fn frames_for_channels_that_nobody_opened_are_dropped_and_counted(go: Go) {
    let limit = Limits::default().unknown_frames;
    let unknown = "0000000700000000".repeat(limit);
    let (_peer, connection) = go.peer(&["-fault", "read:0:garbage", "-garbage", &unknown]);
    assert_eq!(connection.ask("Echo", "still there").await.unwrap(), b"still there");

    for last in ["0000000700000000", "ffffffff00000000"] {
        let one_more = format!("{unknown}{last}");
        let (peer, connection) = go.peer(&["-fault", "read:0:garbage", "-garbage", &one_more]);
        let reason = connection.ended(&peer).await;
        assert!(matches!(reason, Closed::UnknownChannel { limit: l, .. } if l == limit), "{reason}");
    }

    let (peer, connection) = go.peer(&["-fault", "read:0:garbage", "-garbage", "0000000000000000"]);
    assert!(matches!(connection.ended(&peer).await, Closed::ReservedChannel));
}

async fn a_peer_that_is_killed_takes_all_calls_with_it(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let mut calls = JoinSet::new();
    for _ in 0..64 {
        let mut call = connection.client.send(method("Hold"), encode("x"), PATIENCE).await.unwrap();
        calls.spawn(async move { call.reply().await });
    }
    assert_eq!(connection.ask("Echo", "all arrived").await.unwrap(), b"all arrived");

    peer.kill();
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        assert!(matches!(answer, Err(CallError::Closed(Closed::Eof))), "{answer:?}");
    }
    let later = connection.ask("Echo", "later").await;
    assert!(matches!(later, Err(CallError::Closed(Closed::Eof))), "{later:?}");
    connection.ended(&peer).await;
}

/// M07.
async fn a_peer_that_is_killed_while_we_write_ends_the_calls_with_the_reason(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    assert_eq!(connection.ask("Echo", "here").await.unwrap(), b"here");
    peer.stop().await;
    let mut calls = Vec::new();
    for _ in 0..2 {
        calls.push(connection.client.send(method("Echo"), encode(pattern(3 << 19)), PATIENCE).await.unwrap());
    }
    peer.kill();
    for call in &mut calls {
        let late = tokio::time::timeout(PATIENCE, call.late()).await.expect("a call hangs");
        assert!(matches!(&late, Err(CallError::Closed(reason)) if is_gone(reason)), "{late:?}");
    }
    let reason = connection.ended(&peer).await;
    assert!(is_gone(&reason), "{reason}");
}

async fn a_peer_that_is_stopped_again_and_again_loses_nothing(go: Go) {
    let (peer, connection) = go.peer(&[]);
    let mut callers = JoinSet::new();
    for caller in 0..64u8 {
        let client = connection.client.clone();
        callers.spawn(async move {
            for call in 0..100 {
                let value = vec![caller; 100 * call];
                assert!(ask(&client, "Echo", value.clone()).await.unwrap() == value);
            }
        });
    }
    while !callers.is_empty() {
        peer.stop().await;
        peer.signal(Signal::SIGCONT);
        // The connection must serve a caller, so it is stopped only for a few milliseconds at a
        // time.
        let _ = tokio::time::timeout(Duration::from_millis(5), async {
            while let Some(caller) = callers.join_next().await {
                caller.unwrap();
            }
        })
        .await;
    }
    assert_eq!(connection.ask("Echoes", []).await.unwrap(), b"6400");
}

const BRIEF: Duration = Duration::from_millis(10);

/// Starts a peer that answers one call, and breaks after it has sent `step` more bytes.
async fn breaking(go: &Go, step: usize, act: &str, garbage: &str) -> (Peer, Connection) {
    let answer = *borders(reply_length(1)).last().unwrap();
    let fault = format!("write:{}:{act}", answer + step);
    let (peer, connection) = go.peer(&["-fault", &fault, "-garbage", garbage]);
    assert_eq!(connection.ask("Echo", "x").await.unwrap(), b"x");
    (peer, connection)
}

/// Returns the reason for the end of a call's connection.
fn reason_of(error: &CallError) -> String {
    match error {
        CallError::Closed(reason) => reason.to_string(),
        CallError::Refused { .. } | CallError::TooLarge { .. } | CallError::TimedOut | CallError::Malformed { .. } => {
            format!("it did not: {error:?}")
        }
    }
}

/// Returns the reason for the end of a connection whose peer sends only `step` bytes of a reply.
fn reason_of_ending(size: usize, step: usize) -> String {
    let reason = if borders(reply_length(size)).contains(&step) { Closed::Eof } else { Closed::Truncated };
    reason.to_string()
}

/// Returns whether a connection ended because the peer disconnected with unread data.
fn is_gone(reason: &Closed) -> bool {
    match reason {
        Closed::Eof => true,
        Closed::Read(error) | Closed::Write(error) => {
            matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
        }
        Closed::Local
        | Closed::Truncated
        | Closed::FrameTooLarge { .. }
        | Closed::ReservedChannel
        | Closed::UnknownChannel { .. }
        | Closed::Unread { .. }
        | Closed::BeforeAdmission { .. }
        | Closed::IdsUsedUp => false,
    }
}
