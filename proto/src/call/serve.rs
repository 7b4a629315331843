//! The ttrpc server.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use protobuf::Message as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;
use ttrpc::r#async::{Service, TtrpcContext};
use ttrpc::proto::MESSAGE_TYPE_REQUEST;
use ttrpc::{Code, MessageHeader, Request, Response};

use super::envelope::{refusal, request, response_header};
use super::{MAX_MESSAGE, MESSAGE_HEADER_LENGTH};
use crate::mux::{Channel, Closed, MessageSender, ReceivedMessage, Reservation};

/// Services by their full names, as the generated `create_…` functions return them.
pub type Services = HashMap<String, Service>;

/// Limits on the concurrent requests of a peer. Further requests are refused with
/// `RESOURCE_EXHAUSTED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// The number of requests. A request counts until its reply has been queued.
    pub requests: usize,
    /// The total size of the requests, in bytes. A larger request is accepted if there is no other.
    pub bytes: u32,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { requests: 64, bytes: 4 << 20 }
    }
}

/// Serves `services` on a channel until the connection ends or `shutdown` is cancelled, and then
/// waits for the handlers.
///
/// Each handler runs to completion in a task of its own. Neither the deadline of the peer, nor the
/// end of the connection, nor dropping this future stops a handler. If a handler panics, the reply
/// is `INTERNAL`.
pub async fn serve(mut channel: Channel, services: Arc<Services>, limits: ServeLimits, shutdown: CancellationToken) {
    let server = Server::new(channel.sender(), services, limits);
    let mut last = 0;
    while let Some(Ok(message)) = shutdown.run_until_cancelled(channel.message()).await {
        let Some(Ok(())) = shutdown.run_until_cancelled(server.take(message, &mut last)).await else { break };
    }
    server.handlers.close();
    server.handlers.wait().await;
}

struct Server {
    sender: MessageSender,
    services: Arc<Services>,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    limits: ServeLimits,
    handlers: TaskTracker,
}

type RequestPermits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Server {
    fn new(sender: MessageSender, services: Arc<Services>, limits: ServeLimits) -> Self {
        Self {
            sender,
            services,
            requests: Arc::new(Semaphore::new(limits.requests)),
            bytes: Arc::new(Semaphore::new(limits.bytes as usize)),
            limits,
            handlers: TaskTracker::new(),
        }
    }

    /// Starts the handler of a request, or refuses the request. Other messages are ignored.
    async fn take(&self, message: ReceivedMessage, last: &mut u32) -> Result<(), Closed> {
        let (header, payload, reservation) = match message {
            ReceivedMessage::Whole(header, payload, reservation) => (header, payload, reservation),
            ReceivedMessage::Oversized(header) => {
                let length = header.length;
                let text = format!("message length {length} exceed maximum message size of {MAX_MESSAGE}");
                return self.refuse(header, Code::RESOURCE_EXHAUSTED, &text).await;
            }
        };
        if header.type_ != MESSAGE_TYPE_REQUEST {
            return Ok(());
        }
        if let Err(text) = check_id(header.stream_id, last) {
            return self.refuse(header, Code::INVALID_ARGUMENT, text).await;
        }
        let Some(permits) = self.permits(payload.len()) else {
            return self.refuse(header, Code::RESOURCE_EXHAUSTED, "too many requests at a time").await;
        };
        self.begin(header, &payload, (permits, reservation));
        Ok(())
    }

    fn permits(&self, length: usize) -> Option<RequestPermits> {
        let bytes = u32::try_from(length).unwrap_or(u32::MAX).min(self.limits.bytes);
        let request = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        Some((request, Arc::clone(&self.bytes).try_acquire_many_owned(bytes).ok()?))
    }

    fn begin(&self, header: MessageHeader, payload: &Bytes, permits: (RequestPermits, Reservation)) {
        let (sender, services) = (self.sender.clone(), Arc::clone(&self.services));
        let request = request(payload);
        self.handlers.spawn(async move {
            let response = match request {
                Ok(request) => answer(&services, header, request).await,
                Err(error) => refusal(Code::INVALID_ARGUMENT, format_args!("unmarshal request error: {error}")),
            };
            // Replying fails if the peer has left, which makes no difference.
            let _ = respond(&sender, header.stream_id, response).await;
            drop(permits);
        });
    }

    async fn refuse(&self, header: MessageHeader, code: Code, text: &str) -> Result<(), Closed> {
        respond(&self.sender, header.stream_id, refusal(code, text)).await
    }
}

/// Checks that the stream id of a request is odd and ascending. The errors are those of Go.
fn check_id(id: u32, last: &mut u32) -> Result<(), &'static str> {
    if id.is_multiple_of(2) {
        return Err("StreamID must be odd for client initiated streams");
    }
    if id <= *last {
        return Err("StreamID cannot be re-used and must increment");
    }
    *last = id;
    Ok(())
}

async fn answer(services: &Services, header: MessageHeader, request: Request) -> Response {
    let Some(service) = services.get(&request.service) else {
        return refusal(Code::UNIMPLEMENTED, format_args!("service {}", shortened(&request.service)));
    };
    let Some(method) = service.methods.get(&request.method) else {
        return refusal(Code::UNIMPLEMENTED, format_args!("method {}", shortened(&request.method)));
    };
    let name = request.method.clone();
    let context = TtrpcContext {
        mh: header,
        metadata: ttrpc::context::from_pb(&request.metadata),
        timeout_nano: request.timeout_nano.max(0),
        connection_data: Arc::default(),
    };
    match AssertUnwindSafe(method.handler(context, request)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(ttrpc::Error::RpcStatus(status))) => refusal_with(status),
        Ok(Err(error)) => refusal(Code::UNKNOWN, error),
        Err(panic) => {
            error!(method = name, panic = panic_text(panic.as_ref()), "request handler panicked");
            refusal(Code::INTERNAL, format_args!("the handler of {name} panicked"))
        }
    }
}

/// Truncates text of a peer that is repeated in a reply.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(256)]
}

fn refusal_with(status: ttrpc::Status) -> Response {
    let mut response = Response::new();
    response.set_status(status);
    response
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic payload is not a string")
}

async fn respond(sender: &MessageSender, stream: u32, response: Response) -> Result<(), Closed> {
    let encoded = response.write_to_bytes().unwrap_or_default();
    let body = if encoded.len() <= MAX_MESSAGE {
        Bytes::from(encoded)
    } else {
        let text = format!("message length {} exceed maximum message size of {MAX_MESSAGE}", encoded.len());
        Bytes::from(refusal(Code::RESOURCE_EXHAUSTED, text).write_to_bytes().unwrap_or_default())
    };
    let header = response_header(stream, body.len());
    sender.send(MESSAGE_HEADER_LENGTH + body.len(), || Ok(((), sender.frames(header, &[], body)))).await
}
