//! Calls of our client to a Go server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::Signal;
use nri_proto::call::{CallError, Client, MAX_MESSAGE, Method};
use nri_proto::mux::Closed;
use tokio::task::JoinSet;
use tokio::time::Instant;
use ttrpc::Code;

use crate::envelope::{frames, reply_length, request_length, value_of};
use crate::peer::{Connection, Go, PATIENCE, Peer, against_every_go, ask, decode, encode, method, pattern};

against_every_go! {
    requests_of_every_size_arrive_in_frames_that_go_can_read,
    replies_of_every_size_arrive,
    a_request_that_is_too_large_is_not_sent_and_harms_nothing,
    u26_none_of_20_000_calls_by_64_callers_is_refused,
    u26_none_of_20_000_calls_by_200_callers_is_refused,
    a_thousand_callers_do_not_overflow_the_queue_of_a_go_peer,
    calls_that_pile_up_do_not_overflow_the_queue_of_a_go_peer,
    a_go_handler_sees_the_deadline,
    a_go_handler_that_keeps_its_deadline_says_that_it_is_over,
    a_reply_that_comes_late_reaches_who_waits_for_it,
    a_refusal_keeps_its_code_and_its_text,
    u28_a_go_handler_that_panics_ends_the_connection,
    u27_the_deadline_covers_the_write_to_a_peer_that_never_reads,
    u27_a_stopped_peer_finishes_what_was_begun_when_it_goes_on,
    a_go_server_that_answers_too_much_answers_nothing_any_more,
}

/// The lengths of a message at which something changes: a Go peer's buffer has 4096 bytes and a
/// message's header ten, and no message may have more than 4 MiB.
const LENGTHS: [usize; 7] = [4085, 4086, 4096, 4097, 65536, MAX_MESSAGE - 1, MAX_MESSAGE];

/// M12, U9. A request is never as short as 0 or 1 byte, for it has the names of the service and the
/// method in it. Those two are the lengths of its payload.
async fn requests_of_every_size_arrive_in_frames_that_go_can_read(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let client = &connection.client;

    assert_eq!(ask(client, "Echo", []).await.unwrap(), b"", "a payload of 0 bytes");
    let malformed = client.call(method("Echo"), Bytes::from_static(&[0x0a]), PATIENCE).await;
    assert!(
        matches!(malformed, Err(CallError::Refused { .. })),
        "a payload of 1 byte, which is no message: {malformed:?}"
    );

    for length in LENGTHS {
        ask(client, "Frames", []).await.unwrap();
        let value = pattern(value_of(length, |value| request_length(method("Echo"), value)));
        let echo = ask(client, "Echo", value.clone()).await;
        assert!(echo.as_ref().is_ok_and(|echo| *echo == value), "a request of {length} bytes: {:?}", echo.err());

        let seen = String::from_utf8(ask(client, "Frames", []).await.unwrap()).unwrap();
        let (seen, _that_of_the_question) = seen.rsplit_once(' ').unwrap();
        assert_eq!(format!("[{}]", seen.replace(' ', ", ")), format!("{:?}", frames(length)), "of {length} bytes");
    }
    end(&mut peer, connection).await;
}

/// M12. A reply without a payload has 0 bytes. No reply has 1 byte: that is the length of a payload
/// here.
async fn replies_of_every_size_arrive(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let client = &connection.client;

    let reply = client.call(method("Zeros"), encode("0"), PATIENCE).await.unwrap();
    assert_eq!(reply, Bytes::new(), "a reply of 0 bytes");

    for length in LENGTHS {
        let size = value_of(length, reply_length);
        let reply = ask(client, "Zeros", size.to_string()).await;
        assert!(
            reply.as_ref().is_ok_and(|zeros| *zeros == vec![0; size]),
            "a reply of {length} bytes: {:?}",
            reply.err()
        );
    }
    end(&mut peer, connection).await;

    let (_rogue, connection) = go.rogue(&["honest"]);
    let reply = connection.client.call(method("Echo"), Bytes::from_static(b"1"), PATIENCE).await.unwrap();
    assert_eq!(reply, Bytes::from_static(b"1"), "a payload of 1 byte");
}

async fn a_request_that_is_too_large_is_not_sent_and_harms_nothing(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let client = &connection.client;

    let value = pattern(value_of(MAX_MESSAGE, |value| request_length(method("Echo"), value)) + 1);
    let error = ask(client, "Echo", value).await.unwrap_err();
    assert!(
        matches!(error, CallError::TooLarge { size, limit } if size == limit + 1 && limit == MAX_MESSAGE),
        "{error:?}"
    );

    assert_eq!(ask(client, "Echo", "still there").await.unwrap(), b"still there");
    assert_eq!(ask(client, "Echoes", []).await.unwrap(), b"1", "how many requests reached Go's handler");
    end(&mut peer, connection).await;
}

/// T04.
async fn u26_none_of_20_000_calls_by_64_callers_is_refused(go: Go) {
    none_is_refused(&go, 64).await;
}

/// T04.
async fn u26_none_of_20_000_calls_by_200_callers_is_refused(go: Go) {
    none_is_refused(&go, 200).await;
}

/// Checks that no call is refused. Go refuses a request whose id is not larger than that of the
/// request before.
async fn none_is_refused(go: &Go, n_callers: usize) {
    const CALLS: usize = 20_000;
    let (mut peer, connection) = go.peer(&[]);
    let next = Arc::new(AtomicUsize::new(0));

    let mut callers = JoinSet::new();
    for _ in 0..n_callers {
        let (client, next) = (connection.client.clone(), Arc::clone(&next));
        callers.spawn(async move {
            loop {
                let call = next.fetch_add(1, Ordering::Relaxed);
                if call >= CALLS {
                    break;
                }
                let value = format!("call {call}");
                assert_eq!(ask(&client, "Echo", value.clone()).await.unwrap(), value.as_bytes());
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    assert_eq!(connection.ask("Echoes", []).await.unwrap(), CALLS.to_string().as_bytes());
    end(&mut peer, connection).await;
}

/// Go queues 256 frames that its server has not read yet, and closes the connection at the next
/// one. Its server reads one frame at a time while its multiplexer continues, so a burst is enough.
async fn a_thousand_callers_do_not_overflow_the_queue_of_a_go_peer(go: Go) {
    for size in [10, 5000] {
        let (_peer, connection) = go.peer(&[]);
        let mut callers = JoinSet::new();
        for _ in 0..1000 {
            let client = connection.client.clone();
            callers.spawn(async move {
                for _ in 0..5 {
                    ask(&client, "Echo", pattern(size)).await.unwrap();
                }
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
    }
}

/// The peer is stopped while requests arrive.
async fn calls_that_pile_up_do_not_overflow_the_queue_of_a_go_peer(go: Go) {
    let (peer, connection) = go.peer(&[]);
    connection.ask("Echo", []).await.unwrap();
    peer.stop().await;
    let mut callers = JoinSet::new();
    for _ in 0..1000 {
        let client = connection.client.clone();
        callers.spawn(async move { ask(&client, "Echo", pattern(10)).await.map(drop) });
    }
    // Lets the client send all requests that it can, until it has to wait for the peer.
    tokio::time::sleep(BRIEF).await;
    peer.signal(Signal::SIGCONT);
    while let Some(caller) = callers.join_next().await {
        caller.unwrap().unwrap();
    }
}

async fn a_go_handler_sees_the_deadline(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    for given in [Duration::from_secs(5), Duration::from_secs(3600)] {
        let reply = connection.client.call(method("Deadline"), Bytes::new(), given).await.unwrap();
        let left = Duration::from_nanos(String::from_utf8(decode(reply)).unwrap().parse().unwrap());
        assert!(left <= given && left + Duration::from_secs(1) > given, "{left:?} of {given:?} are left");
    }
    // More nanoseconds than the wire can express.
    let reply = connection.client.call(method("Deadline"), Bytes::new(), Duration::MAX).await.unwrap();
    assert!(String::from_utf8(decode(reply)).unwrap().parse::<u64>().unwrap() > 0);
    end(&mut peer, connection).await;
}

async fn a_go_handler_that_keeps_its_deadline_says_that_it_is_over(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let timeout = Duration::from_millis(50);
    let mut overrun = connection.client.send(method("Overrun"), Bytes::new(), timeout).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, overrun.late()).await.expect("the deadline did not reach Go");
    assert!(matches!(answer, Err(CallError::Refused { code: Code::DEADLINE_EXCEEDED, .. })), "{answer:?}");
    end(&mut peer, connection).await;
}

async fn a_reply_that_comes_late_reaches_who_waits_for_it(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let timeout = Duration::from_millis(50);
    let mut held = connection.client.send(method("Hold"), encode("late"), timeout).await.unwrap();
    let forgotten = connection.client.call(method("Hold"), encode("forgotten"), timeout).await;
    assert!(matches!(forgotten, Err(CallError::TimedOut)), "{forgotten:?}");
    assert!(matches!(held.reply().await, Err(CallError::TimedOut)));
    assert_eq!(connection.ask("Echo", "meanwhile").await.unwrap(), b"meanwhile");

    for _ in 0..2 {
        connection.ask("Release", []).await.unwrap();
    }
    let late = tokio::time::timeout(PATIENCE, held.late()).await.expect("the late reply is lost");
    assert_eq!(decode(late.unwrap()), b"late");
    assert_eq!(decode(held.reply().await.unwrap()), b"late", "asked again");
    end(&mut peer, connection).await;
}

async fn a_refusal_keeps_its_code_and_its_text(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let client = &connection.client;
    let check = |answer: Result<Vec<u8>, CallError>, expected: &str| match answer {
        Err(error @ CallError::Refused { .. }) => assert_eq!(error.to_string(), expected),
        other => panic!("{expected}, but {other:?}"),
    };
    check(ask(client, "Fail", "9 not yet").await, "refused with FAILED_PRECONDITION: not yet");
    check(ask(client, "Fail", "plain words").await, "refused with UNKNOWN: words");
    check(ask(client, "Fail", "4711 strange").await, "refused with UNKNOWN: strange");
    // T06.
    check(ask(client, "Nothing", []).await, "refused with UNIMPLEMENTED: method Nothing");
    let nobody = Method { service: "nri.test.Nobody", name: "Echo" };
    check(
        client.call(nobody, Bytes::new(), PATIENCE).await.map(decode),
        "refused with UNIMPLEMENTED: service nri.test.Nobody",
    );
    end(&mut peer, connection).await;
}

/// A Go server does not recover: its process dies, and with it all calls.
async fn u28_a_go_handler_that_panics_ends_the_connection(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let mut held = connection.client.send(method("Hold"), Bytes::new(), PATIENCE).await.unwrap();
    let error = connection.ask("Panic", "of Go").await.unwrap_err();
    assert!(matches!(error, CallError::Closed(Closed::Eof)), "{error:?}");
    assert!(matches!(held.reply().await, Err(CallError::Closed(Closed::Eof))));
    let complaints = peer.ended().await;
    assert!(complaints.contains("panic: of Go"), "{complaints}");
    assert!(matches!(connection.ended(&peer).await, Closed::Eof));
}

/// M06.
async fn u27_the_deadline_covers_the_write_to_a_peer_that_never_reads(go: Go) {
    let (peer, connection) = go.peer(&["-fault", "read:0:stall"]);
    fill(&connection.client).await;

    let request = encode(pattern(1 << 20));
    let mut many = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..400 {
        let (client, request) = (connection.client.clone(), request.clone());
        many.spawn(async move { client.call(method("Echo"), request, BRIEF).await });
    }
    while let Some(call) = many.join_next().await {
        assert!(matches!(call.unwrap(), Err(CallError::TimedOut)));
    }
    assert!(begun.elapsed() < BRIEF + Duration::from_secs(1), "400 calls took {:?}", begun.elapsed());

    in_time(|| connection.client.call(method("Echo"), request.clone(), BRIEF)).await;
    connection.mux.close();
    assert!(matches!(connection.ended(&peer).await, Closed::Local));
}

/// M06.
async fn u27_a_stopped_peer_finishes_what_was_begun_when_it_goes_on(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    assert_eq!(connection.ask("Echo", "before").await.unwrap(), b"before");
    peer.stop().await;
    let (mut begun, n_sent) = fill(&connection.client).await;
    let request = encode(pattern(1 << 20));
    in_time(|| connection.client.call(method("Echo"), request.clone(), BRIEF)).await;

    peer.signal(Signal::SIGCONT);
    for call in &mut begun {
        let late = tokio::time::timeout(PATIENCE, call.late()).await.expect("a reply is lost");
        assert!(decode(late.unwrap()) == pattern(1 << 20));
    }
    assert_eq!(connection.ask("Echo", "after").await.unwrap(), b"after");
    let n_echoes = n_sent + 2;
    assert_eq!(connection.ask("Echoes", []).await.unwrap(), n_echoes.to_string().as_bytes(), "requests that arrived");
    end(&mut peer, connection).await;
}

/// Go's server stops without closing the connection: it only closes its channel, which the wire
/// does not show. The first server of NRI sends such a reply, which can be recognized.
async fn a_go_server_that_answers_too_much_answers_nothing_any_more(go: Go) {
    let (mut peer, connection) = go.peer(&[]);
    let size = encode((value_of(MAX_MESSAGE, reply_length) + 1).to_string());
    let timeout = Duration::from_millis(500);
    let answer = connection.client.call(method("Zeros"), size, timeout).await;
    let again = connection.client.call(method("Echo"), Bytes::new(), timeout).await;
    if go.version == "v0.3.0" {
        assert!(matches!(answer, Err(CallError::Malformed { .. })), "{answer:?}");
        assert!(again.is_ok(), "{again:?}");
    } else {
        assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
        assert!(matches!(again, Err(CallError::TimedOut)), "{again:?}");
    }
    connection.mux.close();
    peer.ended().await;
}

/// A time that is long enough to show that a call waits, and short enough to be used often.
const BRIEF: Duration = Duration::from_millis(200);

/// Sends requests until one is not sent any more. Returns the sent ones and their number.
async fn fill(client: &Client) -> (Vec<nri_proto::call::PendingReply>, usize) {
    let mut begun = Vec::new();
    loop {
        match client.send(method("Echo"), encode(pattern(1 << 20)), BRIEF).await {
            Ok(call) => begun.push(call),
            Err(CallError::TimedOut) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    let n_begun = begun.len();
    assert!((2..=16).contains(&n_begun), "{n_begun} requests of 1 MiB were taken for a peer that does not read");
    (begun, n_begun)
}

/// Checks that a call ends within a tenth of a second after its deadline, at the latest at the
/// third try, because the machine may be busy.
async fn in_time<F: Future<Output = Result<Bytes, CallError>>>(call: impl Fn() -> F) {
    let mut took = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let answer = call().await;
        assert!(matches!(answer, Err(CallError::TimedOut)), "{answer:?}");
        if begun.elapsed() < BRIEF + Duration::from_millis(100) {
            return;
        }
        took.push(begun.elapsed());
    }
    panic!("calls with a deadline of {BRIEF:?} took {took:?}");
}

/// Closes the connection, and checks that the peer ends without an error.
async fn end(peer: &mut Peer, connection: Connection) {
    connection.mux.close();
    assert!(matches!(connection.ended(peer).await, Closed::Local));
    peer.ended().await;
}
