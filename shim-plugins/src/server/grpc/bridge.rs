//! Calls ttrpc methods over gRPC.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use futures_util::future::BoxFuture;
use http::HeaderMap;
use protobuf::Message as _;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use ttrpc::r#async::{MethodHandler as _, TtrpcContext};

use super::MAX_MESSAGE;
use crate::server::GuardedMethod;

/// A call of a ttrpc method that arrived over gRPC.
pub(super) struct TtrpcCall {
    pub(super) method: GuardedMethod,
    /// The request, with service and method set.
    pub(super) request: ttrpc::Request,
    pub(super) limit: Option<Duration>,
}

impl TtrpcCall {
    /// Runs the method, and encodes its response for gRPC.
    pub(super) async fn answer<B>(self, request: http::Request<B>) -> http::Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let grpc = Grpc::new(RawCodec).max_decoding_message_size(MAX_MESSAGE);
        grpc.max_encoding_message_size(MAX_MESSAGE).unary(self, request).await
    }
}

impl UnaryService<Bytes> for TtrpcCall {
    type Response = Bytes;
    type Future = BoxFuture<'static, Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let (metadata, _, payload) = request.into_parts();
        let limit = self.limit.map_or(0, |limit| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
        let metadata = texts(&metadata.into_headers());
        let context = TtrpcContext { metadata, timeout_nano: limit, ..Default::default() };
        let mut request = std::mem::take(&mut self.request);
        request.timeout_nano = limit;
        request.payload = payload.into();
        let method = self.method.clone();
        Box::pin(async move {
            let answer = method.handler(context, request).await;
            let answer = answer.map_err(|error| Status::unknown(error.to_string()))?;
            match answer.status.into_option() {
                Some(status) if status.code() != ttrpc::Code::OK => Err(grpc_status(&status)),
                Some(_) | None => Ok(tonic::Response::new(answer.payload.into())),
            }
        })
    }
}

/// Converts a ttrpc status. Both protocols share the codes and the message that carries the
/// details.
fn grpc_status(status: &ttrpc::Status) -> Status {
    let details = if status.details.is_empty() { Vec::new() } else { status.write_to_bytes().unwrap_or_default() };
    Status::with_details(Code::from_i32(status.code.value()), &status.message, details.into())
}

/// Returns the text metadata of a request as ttrpc metadata, without the headers of gRPC itself.
fn texts(head: &HeaderMap) -> HashMap<String, Vec<String>> {
    let mut texts: HashMap<_, Vec<_>> = HashMap::new();
    for (name, value) in head {
        let name = name.as_str();
        let is_own = name.starts_with("grpc-") || ["content-type", "te", "user-agent"].contains(&name);
        if let (false, Ok(value)) = (is_own || name.ends_with("-bin"), value.to_str()) {
            texts.entry(name.to_owned()).or_default().push(value.to_owned());
        }
    }
    texts
}

/// A codec for messages that are already encoded.
pub(crate) struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
