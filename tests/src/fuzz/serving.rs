//! The server, against a peer that sends the input.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use nri_proto::call::{ServeLimits, serve};
use nri_proto::mux::{ChannelId, Limits, Mux};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Request, Response};

use super::script::Script;
use super::story;

/// Sends bytes from the input, as they are or in requests, to a server with one method. The server
/// answers each request once, possibly with a refusal, and ends when the peer does.
pub fn serving(input: &[u8]) {
    let mut script = Script(input);
    let limits = ServeLimits { requests: usize::from(script.byte() % 4), bytes: 100 };
    let mut wire = Vec::new();
    let mut intact = true;
    let mut asked: HashMap<u32, usize> = HashMap::new();
    while !script.is_over() {
        let (kind, id) = (script.byte(), u32::from(script.byte()));
        let length = usize::from(script.byte());
        let bytes = script.bytes(length);
        if kind % 8 == 0 {
            // From here on the frames may be invalid.
            intact = false;
            wire.extend_from_slice(bytes);
        } else {
            *asked.entry(id).or_default() += 1;
            wire.extend(request(id, kind, bytes));
        }
    }
    story(async move {
        let received = conversation(limits, wire).await;
        let answered = answers(&received);
        assert!(!intact || answered == asked, "asked {asked:?}, answered {answered:?}");
    });
}

/// Returns the server's output for these bytes.
async fn conversation(limits: ServeLimits, wire: Vec<u8>) -> Vec<u8> {
    let (here, there) = tokio::io::duplex(512);
    let (reader, writer) = tokio::io::split(here);
    let bounds = Limits { before_admission: usize::MAX, ..Limits::default() };
    let (mux, [channel]) = Mux::over(reader, writer, [ChannelId::RUNTIME_SERVICE], bounds);
    let methods = [("Echo".to_owned(), Box::new(Echo) as Box<_>)].into();
    let services = [("a.Service".to_owned(), Service { methods, streams: HashMap::new() })].into();
    let server = tokio::spawn(serve(channel, Arc::new(services), limits, CancellationToken::new()));
    let (mut reader, mut writer) = tokio::io::split(there);
    let sending = async {
        let _ = writer.write_all(&wire).await;
        // Time is paused, so this returns when all tasks wait.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        mux.finish(std::time::Duration::from_secs(1)).await;
        mux.closed().await;
        server.await.expect("the server does not panic");
    };
    let mut received = Vec::new();
    let _ = tokio::join!(sending, reader.read_to_end(&mut received));
    received
}

struct Echo;

#[async_trait]
impl MethodHandler for Echo {
    async fn handler(&self, _: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let mut response = Response::new();
        response.payload = request.payload;
        Ok(response)
    }
}

/// Returns a request in a frame. `kind` determines whether it is for the method, for another one,
/// or invalid.
fn request(id: u32, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let method: &[u8] = if kind % 2 == 1 { b"Echo" } else { b"None" };
    let length = u8::try_from(bytes.len()).expect("it is small");
    let body = match kind % 8 {
        7 => bytes.to_vec(),
        _ => {
            let mut body = [&[0x0a, 9], &b"a.Service"[..], &[0x12, 4], method, &[0x1a]].concat();
            body.extend(if length < 128 { vec![length] } else { vec![length, 1] });
            body.extend_from_slice(bytes);
            body
        }
    };
    let length = u32::try_from(body.len()).expect("it is small");
    let message = [&length.to_be_bytes()[..], &id.to_be_bytes(), &[1, 0], &body].concat();
    let length = u32::try_from(message.len()).expect("it is small");
    [&2u32.to_be_bytes()[..], &length.to_be_bytes(), &message].concat()
}

/// Returns how often each id was answered. A connection that was closed for a violation may end
/// within an answer.
fn answers(mut wire: &[u8]) -> HashMap<u32, usize> {
    let mut answers = HashMap::new();
    while let Some((header, rest)) = wire.split_first_chunk::<18>() {
        let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let id = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        assert_eq!(header[16], 2, "only responses are sent");
        let Some(next) = rest.get(length - 10..) else { break };
        *answers.entry(id).or_default() += 1;
        wire = next;
    }
    answers
}
