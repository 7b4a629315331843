//! What stands between the server and the methods of plugins.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;
use ttrpc::r#async::{MethodHandler, Service, StreamHandler, StreamInner, TtrpcContext};
use ttrpc::{Code, Request, Response, Status};

use super::task;

/// One call of a unary method.
pub struct Call {
    /// The caller's metadata and deadline.
    pub context: TtrpcContext,
    /// The service, the method and the encoded message.
    pub request: Request,
}

/// Stands between the server and all its unary methods, those over gRPC too: traces, counts, refuses, or lets things fail in
/// tests. A service that speaks gRPC itself has layers of its own instead.
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
type Stream = dyn StreamHandler + Send + Sync;

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

/// What is said to callers when the shim ends.
pub(crate) const SHUTTING_DOWN: &str = "the shim is shutting down";

/// Why a call has no answer.
pub(crate) enum CallFailure {
    /// The method panicked.
    Panicked {
        /// What is said about it.
        text: String,
    },
    /// The shim ends.
    ShuttingDown,
}

/// What all methods of a server share.
#[derive(Clone)]
pub(crate) struct CallGuard {
    interceptors: Arc<[Arc<dyn Interceptor>]>,
    /// The calls that are being answered, but for those that wait.
    calls: TaskTracker,
    /// The calls that are answered when something ends, and the streams.
    waits: TaskTracker,
    /// The shim ends: nothing is made any more.
    ends: CancellationToken,
    /// No answer is waited for any longer.
    over: CancellationToken,
}

impl CallGuard {
    pub(crate) fn new(interceptors: Arc<[Arc<dyn Interceptor>]>, ends: CancellationToken) -> Self {
        let (calls, waits) = (TaskTracker::new(), TaskTracker::new());
        Self { interceptors, calls, waits, ends, over: CancellationToken::new() }
    }

    /// Wraps the methods and the streams of a service, and shows each method that is wrapped.
    pub(crate) fn wrap(&self, name: &str, service: Service, mut show: impl FnMut(&str, &GuardedMethod)) -> Service {
        let Service { methods, streams } = service;
        let method = |(key, method): (String, Box<Method>)| {
            let guarded = GuardedMethod { guard: self.clone(), method: Arc::from(method) };
            show(&key, &guarded);
            let guarded: Box<Method> = Box::new(guarded);
            (key, guarded)
        };
        let stream = |(key, stream): (String, Arc<Stream>)| {
            let path = format!("/{name}/{key}");
            let guarded: Arc<Stream> = Arc::new(GuardedStream { guard: self.clone(), path, stream });
            (key, guarded)
        };
        Service {
            methods: methods.into_iter().map(method).collect(),
            streams: streams.into_iter().map(stream).collect(),
        }
    }

    /// Does the work of a method in a task of its own: it comes to its end though nobody waits for it, and if it panics,
    /// that is said.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        service: &str,
        method: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, CallFailure> {
        let tracker = if task::is_wait(service, method) { &self.waits } else { &self.calls };
        let running = tracker.spawn(AssertUnwindSafe(work).catch_unwind());
        let answer = tokio::select! {
            // What is done is done, also at the end.
            biased;
            answer = running => answer,
            () = self.over.cancelled() => return Err(CallFailure::ShuttingDown),
        };
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(panic)) => Err(CallFailure::Panicked { text: panicked(&format!("/{service}/{method}"), &*panic) }),
            // The runtime ends.
            Err(_) => Err(CallFailure::ShuttingDown),
        }
    }

    /// Wraps the methods of a service that is not served over ttrpc.
    #[cfg(feature = "grpc")]
    pub(crate) fn methods(&self, service: Service) -> std::collections::HashMap<String, GuardedMethod> {
        let guarded = |method| GuardedMethod { guard: self.clone(), method: Arc::from(method) };
        service.methods.into_iter().map(|(key, method)| (key, guarded(method))).collect()
    }

    /// For an answer that takes its time: when to break off, and what the end of the shim waits for meanwhile.
    #[cfg(feature = "grpc")]
    pub(crate) fn watch(
        &self,
    ) -> (tokio_util::sync::WaitForCancellationFutureOwned, tokio_util::task::task_tracker::TaskTrackerToken) {
        (self.over.clone().cancelled_owned(), self.waits.token())
    }

    /// How many calls are being answered.
    pub(crate) fn n_calls(&self) -> usize {
        self.calls.len() + self.waits.len()
    }

    /// Waits until all calls are answered but those that wait themselves.
    pub(crate) async fn settled(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Waits until all calls are answered.
    pub(crate) async fn idle(&self) {
        self.settled().await;
        self.waits.close();
        self.waits.wait().await;
    }

    /// Tells all callers, those that wait and those that come, that there will be no answer.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
    }

    /// Whether a call comes too late.
    pub(crate) fn refuses(&self, service: &str, method: &str) -> bool {
        self.over.is_cancelled() || self.ends.is_cancelled() && task::is_creation(service, method)
    }
}

/// A method that cannot take its caller or the server with it.
///
/// It runs in a task of its own. So it comes to its end when the caller goes away or stops waiting: a container is created
/// or not, but never half. If it panics, the caller is told.
#[derive(Clone)]
pub(crate) struct GuardedMethod {
    guard: CallGuard,
    method: Arc<Method>,
}

#[async_trait]
impl MethodHandler for GuardedMethod {
    async fn handler(&self, context: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let (service, method) = (request.service.clone(), request.method.clone());
        if self.guard.refuses(&service, &method) {
            return Ok(shutting_down());
        }
        let next =
            Next { interceptors: Arc::clone(&self.guard.interceptors), index: 0, method: Arc::clone(&self.method) };
        let work = async move { next.run(Call { context, request }).await };
        match self.guard.run(&service, &method, work).await {
            Ok(Ok(response)) => Ok(as_unimplemented(&format!("/{method} is not supported"), response)),
            Ok(Err(error)) => Ok(refusal(error)),
            Err(CallFailure::Panicked { text }) => Ok(status(Code::INTERNAL, &text)),
            Err(CallFailure::ShuttingDown) => Ok(shutting_down()),
        }
    }
}

/// A stream that cannot take the server with it. It runs in a task of its own already.
struct GuardedStream {
    guard: CallGuard,
    path: String,
    stream: Arc<Stream>,
}

#[async_trait]
impl StreamHandler for GuardedStream {
    async fn handler(&self, context: TtrpcContext, stream: StreamInner) -> ttrpc::Result<Option<Response>> {
        if self.guard.over.is_cancelled() {
            return Ok(Some(shutting_down()));
        }
        let running = AssertUnwindSafe(self.stream.handler(context, stream)).catch_unwind();
        let answer = tokio::select! {
            biased;
            answer = self.guard.waits.track_future(running) => answer,
            () = self.guard.over.cancelled() => return Ok(Some(shutting_down())),
        };
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Ok(Some(refusal(error))),
            Err(panic) => Ok(Some(status(Code::INTERNAL, &panicked(&self.path, &*panic)))),
        }
    }
}

fn shutting_down() -> Response {
    status(Code::UNAVAILABLE, SHUTTING_DOWN)
}

fn refusal(error: ttrpc::Error) -> Response {
    if let ttrpc::Error::RpcStatus(status) = error {
        return refused(status);
    }
    status(Code::UNKNOWN, &error.to_string())
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
}

/// Logs a panic, and says what to tell the caller.
pub(crate) fn panicked(path: &str, panic: &(dyn Any + Send)) -> String {
    let text = panic_text(panic);
    error!(method = path, text, "a method panicked");
    format!("{path} panicked: {text}")
}

/// A generated service answers `NOT_FOUND` for a method that nobody wrote. Containerd wants to know that it is not there.
fn as_unimplemented(unwritten: &str, mut response: Response) -> Response {
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
