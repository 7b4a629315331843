//! The client and the server, against a peer that the test controls byte by byte.

mod giving_up;
mod replies;
mod requests;
mod serving;

use std::time::Duration;

use bytes::Bytes;
use protobuf::Message;
use ttrpc::{Code, Request, Response};

use super::{CallError, Client, Method};
use crate::mux::Mux;
use crate::mux::tests::raw::{Raw, admitted, connection};

const METHOD: Method = Method { service: "a.Service", name: "Method" };
const SECOND: Duration = Duration::from_secs(1);

/// Returns a client whose peer the test controls.
fn client(capacity: usize) -> (Mux, Client, Raw) {
    let (mux, [channel, _], raw) = connection(capacity, admitted());
    (mux, Client::new(channel), raw)
}

/// Returns an encoded response with this payload.
fn response(payload: &[u8]) -> Vec<u8> {
    let mut response = Response::new();
    response.payload = payload.to_vec();
    response.write_to_bytes().unwrap()
}

/// Returns an encoded response that refuses the request.
fn refusal(code: Code, message: &str) -> Vec<u8> {
    let mut response = Response::new();
    response.set_status(ttrpc::get_status(code, message));
    response.write_to_bytes().unwrap()
}

/// Reads one request: its stream id and its content.
async fn read_request(raw: &mut Raw) -> (u32, Request) {
    let (kind, stream, payload) = raw.read_message().await;
    assert_eq!(kind, 1, "a request");
    (stream, Request::parse_from_bytes(&payload).unwrap())
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn is_timed_out(outcome: &Result<Bytes, CallError>) -> bool {
    matches!(outcome, Err(CallError::TimedOut))
}
