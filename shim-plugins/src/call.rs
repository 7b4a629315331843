//! What stands between the server and the methods of plugins.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Code, Request, Response, Status};

use crate::load::said;

/// One call of a unary method.
pub struct Call {
    /// The caller's metadata and deadline.
    pub context: TtrpcContext,
    /// The service, the method and the encoded message.
    pub request: Request,
}

/// Stands between the server and all its unary methods: traces, counts, refuses, or lets things fail in tests.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// Answers a call, most often with what `next` answers.
    async fn call(&self, call: Call, next: Next) -> ttrpc::Result<Response>;
}

/// What comes after an interceptor: the next one, or the method.
pub struct Next {
    interceptors: Arc<[Arc<dyn Interceptor>]>,
    index: usize,
    method: Arc<Method>,
}

type Method = dyn MethodHandler + Send + Sync;

impl Next {
    /// Hands the call on.
    pub async fn run(mut self, call: Call) -> ttrpc::Result<Response> {
        let Some(interceptor) = self.interceptors.get(self.index).cloned() else {
            return self.method.handler(call.context, call.request).await;
        };
        self.index += 1;
        interceptor.call(call, self).await
    }
}

/// What all methods of a server share.
#[derive(Clone)]
pub(crate) struct Guard {
    interceptors: Arc<[Arc<dyn Interceptor>]>,
    /// The calls that are being answered.
    calls: TaskTracker,
    /// No answer is waited for any longer.
    over: CancellationToken,
}

impl Guard {
    pub(crate) fn new(interceptors: Arc<[Arc<dyn Interceptor>]>) -> Self {
        Self { interceptors, calls: TaskTracker::new(), over: CancellationToken::new() }
    }

    /// Wraps the unary methods of a service.
    pub(crate) fn wrap(&self, service: Service) -> Service {
        let Service { methods, streams } = service;
        let wrap = |(name, method): (String, Box<Method>)| {
            let guarded: Box<Method> = Box::new(Guarded { guard: self.clone(), method: Arc::from(method) });
            (name, guarded)
        };
        let methods: HashMap<_, _> = methods.into_iter().map(wrap).collect();
        Service { methods, streams }
    }

    /// How many calls are being answered.
    pub(crate) fn n_calls(&self) -> usize {
        self.calls.len()
    }

    /// Waits until all calls are answered.
    pub(crate) async fn idle(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Tells all callers that wait that there will be no answer.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
    }
}

/// A method that cannot take its caller or the server with it.
///
/// It runs in a task of its own. So it comes to its end when the caller goes away or stops waiting: a container is created
/// or not, but never half. If it panics, the caller is told.
struct Guarded {
    guard: Guard,
    method: Arc<Method>,
}

#[async_trait]
impl MethodHandler for Guarded {
    async fn handler(&self, context: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let path = format!("/{}/{}", request.service, request.method);
        let unwritten = format!("/{} is not supported", request.method);
        let next =
            Next { interceptors: Arc::clone(&self.guard.interceptors), index: 0, method: Arc::clone(&self.method) };
        let running = AssertUnwindSafe(async move { next.run(Call { context, request }).await }).catch_unwind();
        let running = self.guard.calls.spawn(running);
        let answer = tokio::select! {
            // What is done is done, also at the end.
            biased;
            answer = running => answer,
            () = self.guard.over.cancelled() => return Ok(status(Code::UNAVAILABLE, "the shim is shutting down")),
        };
        match answer {
            Ok(Ok(Ok(response))) => Ok(said_plainly(&unwritten, response)),
            Ok(Ok(Err(ttrpc::Error::RpcStatus(refusal)))) => Ok(refused(refusal)),
            Ok(Ok(Err(error))) => Ok(status(Code::UNKNOWN, &error.to_string())),
            Ok(Err(panic)) => {
                let text = said(&*panic);
                error!(method = path, text, "a method panicked");
                Ok(status(Code::INTERNAL, &format!("{path} panicked: {text}")))
            }
            // The runtime ends.
            Err(_) => Ok(status(Code::UNAVAILABLE, "the shim is shutting down")),
        }
    }
}

/// A generated service answers `NOT_FOUND` for a method that nobody wrote. Containerd wants to know that it is not there.
fn said_plainly(unwritten: &str, mut response: Response) -> Response {
    if let Some(status) = response.status.as_mut()
        && status.code() == Code::NOT_FOUND
        && status.message.ends_with(unwritten)
    {
        status.set_code(Code::UNIMPLEMENTED);
    }
    response
}

fn status(code: Code, text: &str) -> Response {
    refused(ttrpc::get_status(code, text))
}

fn refused(status: Status) -> Response {
    let mut response = Response::new();
    response.set_status(status);
    response
}
