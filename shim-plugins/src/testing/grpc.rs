//! A gRPC client for tests.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use protobuf::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;

use crate::server::grpc::RawCodec;

/// A gRPC connection to a shim. Clones share it.
#[derive(Clone)]
pub struct GrpcClient(SendRequest<Body>);

impl GrpcClient {
    /// Connects to the socket of a shim, at [`RunningShim::address`](super::RunningShim::address).
    pub async fn over_unix(address: &str) -> io::Result<Self> {
        let path = address.strip_prefix("unix://").unwrap_or(address);
        Self::over(tokio::net::UnixStream::connect(path).await?).await
    }

    /// Connects to the TCP address that a plugin serves.
    pub async fn over_tcp(address: SocketAddr) -> io::Result<Self> {
        Self::over(tokio::net::TcpStream::connect(address).await?).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> io::Result<Self> {
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (send, connection) = shaken.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self(send))
    }

    /// Calls a method without a timeout: see also [`Self::call_within`].
    pub async fn call<Q: Message, A: Message>(&self, service: &str, method: &str, request: &Q) -> Result<A, Status> {
        self.request(service, method, tonic::Request::new(request)).await
    }

    /// Calls a method with a timeout, which the shim receives as `grpc-timeout`.
    pub async fn call_within<Q: Message, A: Message>(
        &self,
        limit: std::time::Duration,
        service: &str,
        method: &str,
        request: &Q,
    ) -> Result<A, Status> {
        let mut request = tonic::Request::new(request);
        request.set_timeout(limit);
        self.request(service, method, request).await
    }

    async fn request<Q: Message, A: Message>(
        &self,
        service: &str,
        method: &str,
        request: tonic::Request<&Q>,
    ) -> Result<A, Status> {
        let broken = |error: protobuf::Error| Status::internal(error.to_string());
        let path = format!("/{service}/{method}");
        let path: PathAndQuery =
            path.parse().map_err(|_| Status::invalid_argument(format!("{path} is not a valid path")))?;
        let (metadata, extensions, message) = request.into_parts();
        let message = message.write_to_bytes().map_err(broken)?;
        let request = tonic::Request::from_parts(metadata, extensions, message.into());
        let mut grpc = Grpc::with_origin(self.clone(), Uri::from_static("http://shim"));
        let response = grpc.unary(request, path, RawCodec).await?;
        A::parse_from_bytes(response.get_ref()).map_err(broken)
    }

    /// Sends any HTTP request.
    pub async fn send(&self, request: http::Request<Body>) -> hyper::Result<http::Response<Incoming>> {
        let mut send = self.0.clone();
        poll_fn(|context| send.poll_ready(context)).await?;
        send.send_request(request).await
    }
}

impl tower_service::Service<http::Request<Body>> for GrpcClient {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, hyper::Result<http::Response<Incoming>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
