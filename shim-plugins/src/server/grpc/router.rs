//! Routes gRPC requests to services and methods.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use tonic::Status;
use tonic::body::Body;

use super::Route;
use super::body::GuardedBody;
use super::bridge::TtrpcCall;
use super::timeout::timeout;
use crate::server::{CallFailure, CallGuard, GuardedMethod, SHUTTING_DOWN};

/// The methods of ttrpc services: by service, then by method name.
pub(crate) type Methods = BTreeMap<String, HashMap<String, GuardedMethod>>;

/// The services and methods that one socket serves over gRPC.
pub(crate) struct GrpcRouter {
    pub(crate) guard: CallGuard,
    /// Native gRPC services, by name.
    pub(crate) routes: BTreeMap<String, Route>,
    /// ttrpc services, bridged to gRPC.
    pub(crate) methods: Methods,
}

impl GrpcRouter {
    /// Answers a request, within the timeout of its caller.
    pub(super) async fn answer<B>(&self, request: http::Request<B>) -> http::Response<Body>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        if !is_grpc(request.headers()) {
            let mut response = http::Response::new(Body::empty());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        let limit = timeout(request.headers());
        let path = request.uri().path().to_owned();
        let answering = self.dispatch(&path, limit, request);
        let answered = match limit {
            Some(limit) => tokio::time::timeout(limit, answering).await,
            None => Ok(answering.await),
        };
        answered
            .unwrap_or_else(|_| Err(Status::deadline_exceeded("the timeout of the caller expired")))
            .unwrap_or_else(refuse)
    }

    /// Finds the route or the method of a request, and calls it.
    async fn dispatch<B>(
        &self,
        path: &str,
        limit: Option<Duration>,
        request: http::Request<B>,
    ) -> Result<http::Response<Body>, Status>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let names = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((service, method)) = names else { return Err(unknown(path)) };
        if let Some(route) = self.routes.get(service) {
            return self.call_route(path, service, method, route.clone(), request.map(Body::new)).await;
        }
        let found = self.methods.get(service).and_then(|methods| methods.get(method));
        let Some(found) = found.cloned() else { return Err(unknown(path)) };
        let mut called = ttrpc::Request::new();
        service.clone_into(&mut called.service);
        method.clone_into(&mut called.method);
        Ok(TtrpcCall { method: found, request: called, limit }.answer(request).boxed().await)
    }

    /// Passes a request to a native gRPC service.
    async fn call_route(
        &self,
        path: &str,
        service: &str,
        method: &str,
        route: Route,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Status> {
        if self.guard.refuses(service, method) {
            return Err(Status::unavailable(SHUTTING_DOWN));
        }
        match self.guard.run(service, method, async move { route.call(request).await }).await {
            Ok(response) => Ok(response.map(|body| Body::new(GuardedBody::new(path.to_owned(), body, &self.guard)))),
            Err(CallFailure::Panicked { text }) => Err(Status::internal(text)),
            Err(CallFailure::ShuttingDown) => Err(Status::unavailable(SHUTTING_DOWN)),
        }
    }
}

fn is_grpc(head: &HeaderMap) -> bool {
    head.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn unknown(path: &str) -> Status {
    Status::unimplemented(format!("unknown method {path}"))
}

fn refuse(status: Status) -> http::Response<Body> {
    status.into_http()
}
