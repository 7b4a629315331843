//! The server and its handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use protobuf::Message;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Code, Request, Response};

use super::METHOD;
use crate::call::{MAX_MESSAGE, ServeLimits, Services, serve};
use crate::mux::tests::raw::{Raw, admitted, connection, message};
use crate::mux::{Limits, Mux};

/// Handlers for all tests: `Echo`, `Panic`, `Wait` (until the test releases it), `Timeout` (returns
/// its own timeout), `Huge`, `Fail`.
#[derive(Clone, Default)]
struct Handlers {
    gate: Arc<Gate>,
}

struct Gate {
    open: Semaphore,
    running: AtomicUsize,
    finished: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: Semaphore::new(0), running: AtomicUsize::new(0), finished: AtomicUsize::new(0) }
    }
}

struct Handler(&'static str, Arc<Gate>);

#[async_trait]
impl MethodHandler for Handler {
    async fn handler(&self, context: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let mut response = Response::new();
        match self.0 {
            "Echo" => response.payload = request.payload,
            "Panic" => panic!("on purpose"),
            "Timeout" => response.payload = context.timeout_nano.to_string().into_bytes(),
            "Huge" => response.payload = vec![0; MAX_MESSAGE + 1],
            "Fail" => return Err(ttrpc::Error::Others("as told".to_owned())),
            _ => {
                self.1.running.fetch_add(1, Ordering::SeqCst);
                self.1.open.acquire().await.unwrap().forget();
                self.1.finished.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok(response)
    }
}

struct Serving {
    mux: Mux,
    raw: Raw,
    gate: Arc<Gate>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

fn serving(limits: ServeLimits, bounds: Limits) -> Serving {
    let gate = Handlers::default().gate;
    let names = ["Echo", "Panic", "Wait", "Timeout", "Huge", "Fail"];
    let methods = names.map(|name| (name.to_owned(), Box::new(Handler(name, Arc::clone(&gate))) as Box<_>));
    let service = Service { methods: methods.into_iter().collect(), streams: HashMap::new() };
    let services: Arc<Services> = Arc::new([(METHOD.service.to_owned(), service)].into());
    let (mux, [channel, _], raw) = connection(1 << 16, bounds);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(channel, services, limits, shutdown.clone()));
    Serving { mux, raw, gate, shutdown, task }
}

fn request(method: &str, payload: &[u8]) -> Vec<u8> {
    let mut request = Request::new();
    request.service = METHOD.service.to_owned();
    request.method = method.to_owned();
    request.payload = payload.to_vec();
    request.write_to_bytes().unwrap()
}

impl Serving {
    async fn send(&mut self, stream: u32, method: &str, payload: &[u8]) {
        self.raw.message(1, 1, stream, &request(method, payload)).await;
    }

    /// Receives the next response: its stream id, its code, and its text or payload.
    async fn answer(&mut self) -> (u32, Code, String) {
        let (kind, stream, payload) = self.raw.read_message().await;
        assert_eq!(kind, 2, "a response");
        let response = Response::parse_from_bytes(&payload).unwrap();
        let status = response.status.clone().unwrap_or_default();
        let text = if status.code() == Code::OK {
            String::from_utf8(response.payload).unwrap()
        } else {
            status.message.clone()
        };
        (stream, status.code(), text)
    }

    async fn until_running(&self, count: usize) {
        while self.gate.running.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }
}

/// U28, T10: a panic ends a Go process, and ttrpc-rust never replies to the request.
#[tokio::test]
async fn u28_a_handler_that_panics_is_answered_for() {
    let mut serving = serving(ServeLimits::default(), admitted());
    serving.send(1, "Panic", b"").await;
    assert_eq!(serving.answer().await, (1, Code::INTERNAL, "the handler of Panic panicked".to_owned()));
    serving.send(3, "Echo", b"alive").await;
    assert_eq!(serving.answer().await, (3, Code::OK, "alive".to_owned()));
}

#[tokio::test]
async fn a_handlers_error_is_answered_with_its_text() {
    let mut serving = serving(ServeLimits::default(), admitted());
    serving.send(1, "Fail", b"").await;
    assert_eq!(serving.answer().await, (1, Code::UNKNOWN, "ttrpc err: as told".to_owned()));
}

/// T06.
#[tokio::test]
async fn what_nobody_serves_is_unimplemented_as_in_go() {
    let mut serving = serving(ServeLimits::default(), admitted());
    serving.send(1, "Nothing", b"").await;
    assert_eq!(serving.answer().await, (1, Code::UNIMPLEMENTED, "method Nothing".to_owned()));
    let mut elsewhere = Request::new();
    elsewhere.service = "b.Service".to_owned();
    serving.raw.message(1, 1, 3, &elsewhere.write_to_bytes().unwrap()).await;
    assert_eq!(serving.answer().await, (3, Code::UNIMPLEMENTED, "service b.Service".to_owned()));
}

/// T03.
#[tokio::test]
async fn ids_that_are_even_or_used_are_refused_as_in_go() {
    let mut serving = serving(ServeLimits::default(), admitted());
    for (stream, code) in [
        (0, Code::INVALID_ARGUMENT),
        (2, Code::INVALID_ARGUMENT),
        (5, Code::OK),
        (5, Code::INVALID_ARGUMENT),
        (3, Code::INVALID_ARGUMENT),
        (7, Code::OK),
    ] {
        serving.send(stream, "Echo", b"").await;
        let (answered, with, text) = serving.answer().await;
        assert_eq!((answered, with), (stream, code), "{text}");
    }
}

/// T01, T07.
#[tokio::test]
async fn what_is_no_request_is_refused_or_passed_over() {
    let mut serving = serving(ServeLimits::default(), admitted());
    for kind in [0, 2, 3, 4, 255] {
        serving.raw.message(1, kind, 1, b"?").await;
    }
    serving.raw.message(1, 1, 1, &[0xff; 30]).await;
    assert_eq!(serving.answer().await.1, Code::INVALID_ARGUMENT);
    // Nested groups, which overflowed the stack of older versions of protobuf.
    serving.raw.message(1, 1, 3, &vec![0x4b; 60_000]).await;
    assert_eq!(serving.answer().await.1, Code::INVALID_ARGUMENT);
}

/// T02.
#[tokio::test]
async fn a_request_that_is_too_large_is_refused_and_the_next_one_answered() {
    let mut serving = serving(ServeLimits::default(), admitted());
    let oversized = message(1, 1, &vec![0; MAX_MESSAGE + 1]);
    for chunk in oversized.chunks(1 << 20) {
        serving.raw.frame(1, chunk).await;
    }
    assert_eq!(serving.answer().await.1, Code::RESOURCE_EXHAUSTED);
    serving.send(3, "Echo", b"alive").await;
    assert_eq!(serving.answer().await, (3, Code::OK, "alive".to_owned()));
}

#[tokio::test]
async fn a_reply_that_is_too_large_becomes_an_error_and_not_the_end() {
    let mut serving = serving(ServeLimits::default(), admitted());
    serving.send(1, "Huge", b"").await;
    assert_eq!(serving.answer().await.1, Code::RESOURCE_EXHAUSTED);
}

/// T08.
#[tokio::test]
async fn a_handler_sees_the_deadline_and_never_a_negative_one() {
    let mut serving = serving(ServeLimits::default(), admitted());
    for (stream, given, seen) in [(1, 0, "0"), (3, -5, "0"), (5, i64::MAX, "9223372036854775807"), (7, 3, "3")] {
        let mut request = Request::new();
        request.service = METHOD.service.to_owned();
        request.method = "Timeout".to_owned();
        request.timeout_nano = given;
        serving.raw.message(1, 1, stream, &request.write_to_bytes().unwrap()).await;
        assert_eq!(serving.answer().await, (stream, Code::OK, seen.to_owned()));
    }
}

#[tokio::test]
async fn the_number_of_requests_in_flight_is_bounded() {
    let mut serving = serving(ServeLimits { requests: 2, ..ServeLimits::default() }, admitted());
    for stream in [1, 3, 5] {
        serving.send(stream, "Wait", b"").await;
    }
    let (stream, code, _) = serving.answer().await;
    assert_eq!((stream, code), (5, Code::RESOURCE_EXHAUSTED));
    serving.until_running(2).await;
    serving.gate.open.add_permits(2);
    for _ in 0..2 {
        assert_eq!(serving.answer().await.1, Code::OK);
    }
    serving.send(7, "Echo", b"room again").await;
    assert_eq!(serving.answer().await.2, "room again");
}

#[tokio::test]
async fn the_bytes_of_requests_in_flight_are_bounded() {
    let mut serving = serving(ServeLimits { bytes: 1000, ..ServeLimits::default() }, admitted());
    serving.send(1, "Wait", &[0; 700]).await;
    serving.until_running(1).await;
    serving.send(3, "Echo", &[b'x'; 700]).await;
    assert_eq!(serving.answer().await.1, Code::RESOURCE_EXHAUSTED);
    serving.gate.open.add_permits(1);
    assert_eq!(serving.answer().await, (1, Code::OK, String::new()));
    serving.send(5, "Echo", &[b'x'; 5000]).await;
    assert_eq!(serving.answer().await.1, Code::OK, "alone, a larger one is taken");
}

/// The server of ttrpc-rust spawns an unlimited number of tasks, one per request.
#[tokio::test]
async fn a_peer_that_floods_and_never_reads_is_bounded() {
    let bounds = Limits { unsent: 10_000, received: 100_000, ..admitted() };
    let mut serving = serving(ServeLimits::default(), bounds);
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut stream = 1;
    loop {
        let wire = crate::mux::tests::raw::frame(1, &message(1, stream, &request("Echo", &[7; 1000])));
        if tokio::io::AsyncWriteExt::write_all(&mut serving.raw.0, &wire).await.is_err() {
            break;
        }
        stream += 2;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(tasks <= before + 64, "{tasks} tasks");
        assert!(stream < 10_000, "it was never stopped");
    }
    assert!(matches!(serving.mux.closed().await, crate::mux::Closed::Unread { .. }));
    serving.task.await.unwrap();
}

#[tokio::test]
async fn a_handler_runs_to_its_end_although_the_peer_left() {
    let mut serving = serving(ServeLimits::default(), admitted());
    serving.send(1, "Wait", b"").await;
    serving.until_running(1).await;
    drop(serving.raw);
    let _ = serving.mux.closed().await;
    assert!(!serving.task.is_finished(), "the server waits for it");
    serving.gate.open.add_permits(1);
    serving.task.await.unwrap();
    assert_eq!(serving.gate.finished.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn shutting_down_takes_no_more_requests_and_answers_those_it_has() {
    let mut serving = serving(ServeLimits::default(), admitted());
    serving.send(1, "Wait", b"").await;
    serving.until_running(1).await;
    serving.shutdown.cancel();
    serving.send(3, "Echo", b"").await;
    serving.gate.open.add_permits(1);
    assert_eq!(serving.answer().await.0, 1);
    (&mut serving.task).await.unwrap();
    serving.mux.close();
    assert!(serving.raw.read_to_end().await.is_empty(), "the request after the shutdown was answered");
}
