//! The guard around every method: a panic is answered, a call finishes without its caller, and the
//! end of the shim does not wait for a call that never finishes.

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

use super::call::{Call, Interceptor, Method, Next};
use super::containers::Containers;
use super::task;

type Stream = dyn StreamHandler + Send + Sync;

/// The message that callers receive when the shim ends.
pub(crate) const SHUTTING_DOWN: &str = "the shim is shutting down";

/// Why a call has no answer of its method.
pub(crate) enum CallFailure {
    /// The method panicked.
    Panicked {
        /// The message for the caller.
        text: String,
    },
    /// The shim is shutting down.
    ShuttingDown,
}

/// The state that all methods of a server share. Clones share it, too.
#[derive(Clone)]
pub(crate) struct CallGuard {
    interceptors: Arc<[Arc<dyn Interceptor>]>,
    /// Calls in progress, except those in `waits`.
    calls: TaskTracker,
    /// Calls of methods that return when a container ends, and streams.
    waits: TaskTracker,
    /// Cancelled when the shim begins to end: methods that create something are refused.
    ending: CancellationToken,
    /// Cancelled when no answer is awaited any longer.
    abandoned: CancellationToken,
    containers: Containers,
}

impl CallGuard {
    /// Creates the guard of a server. `ending` is cancelled when the shim begins to end. The guard
    /// cancels it itself at a Shutdown that the author did not implement.
    pub(crate) fn new(interceptors: Arc<[Arc<dyn Interceptor>]>, ending: CancellationToken) -> Self {
        let (calls, waits) = (TaskTracker::new(), TaskTracker::new());
        let containers = Containers::new(ending.clone());
        Self { interceptors, calls, waits, ending, abandoned: CancellationToken::new(), containers }
    }

    /// Returns the containers that the Task service has created.
    pub(crate) fn containers(&self) -> &Containers {
        &self.containers
    }

    /// Wraps the methods and the streams of a service. Calls `inspect` for each wrapped method.
    pub(crate) fn wrap(&self, name: &str, service: Service, mut inspect: impl FnMut(&str, &GuardedMethod)) -> Service {
        let Service { methods, streams } = service;
        let method = |(key, method): (String, Box<Method>)| {
            let guarded = GuardedMethod { guard: self.clone(), method: Arc::from(method) };
            inspect(&key, &guarded);
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

    /// Runs a method in a task of its own, so that the method finishes even if its caller leaves,
    /// and returns its result. A panic becomes [`CallFailure::Panicked`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        service: &str,
        method: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, CallFailure> {
        let tracker = if task::is_wait(service, method) { &self.waits } else { &self.calls };
        let running = tracker.spawn(AssertUnwindSafe(work).catch_unwind());
        let answer = tokio::select! {
            // A result that is ready is returned, even at the end.
            biased;
            answer = running => answer,
            () = self.abandoned.cancelled() => return Err(CallFailure::ShuttingDown),
        };
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(panic)) => {
                Err(CallFailure::Panicked { text: report_panic(&format!("/{service}/{method}"), &*panic) })
            }
            // The Tokio runtime is shutting down.
            Err(_) => Err(CallFailure::ShuttingDown),
        }
    }

    /// Wraps the methods of a service that is not served over ttrpc.
    #[cfg(feature = "grpc")]
    pub(crate) fn methods(&self, service: Service) -> std::collections::HashMap<String, GuardedMethod> {
        let guarded = |method| GuardedMethod { guard: self.clone(), method: Arc::from(method) };
        service.methods.into_iter().map(|(key, method)| (key, guarded(method))).collect()
    }

    /// Returns a future that completes when a response body must be cut off, and a token that makes
    /// the end of the shim wait for the body meanwhile.
    #[cfg(feature = "grpc")]
    pub(crate) fn watch(
        &self,
    ) -> (tokio_util::sync::WaitForCancellationFutureOwned, tokio_util::task::task_tracker::TaskTrackerToken) {
        (self.abandoned.clone().cancelled_owned(), self.waits.token())
    }

    /// Returns the number of calls in progress.
    pub(crate) fn n_calls(&self) -> usize {
        self.calls.len() + self.waits.len()
    }

    /// Waits until all calls are answered, except those that wait for the end of a container.
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

    /// Answers all pending and all future calls with `UNAVAILABLE`.
    pub(crate) fn give_up(&self) {
        self.abandoned.cancel();
    }

    /// Returns whether a call must be refused because the shim is ending.
    pub(crate) fn refuses(&self, service: &str, method: &str) -> bool {
        self.abandoned.is_cancelled() || self.ending.is_cancelled() && task::is_creation(service, method)
    }
}

/// A unary method that cannot harm its caller or the server.
///
/// The method runs in a task of its own. So it finishes when the caller disconnects or stops
/// waiting: a container is created or not, but never half. A panic is reported to the caller.
#[derive(Clone)]
pub(crate) struct GuardedMethod {
    guard: CallGuard,
    method: Arc<Method>,
}

#[async_trait]
impl MethodHandler for GuardedMethod {
    async fn handler(&self, context: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let (service, method) = (request.service.clone(), request.method.clone());
        let observed = self.guard.containers.observe(&request);
        if self.guard.refuses(&service, &method) {
            return Ok(shutting_down());
        }
        let next =
            Next { interceptors: Arc::clone(&self.guard.interceptors), index: 0, method: Arc::clone(&self.method) };
        let (containers, generated_text) = (self.guard.containers.clone(), format!("/{method} is not supported"));
        // The answer is observed even if the caller leaves.
        let work = async move {
            let response = next.run(Call { context, request }).await.unwrap_or_else(error_response);
            containers.answered(observed, as_unimplemented(&generated_text, response))
        };
        match self.guard.run(&service, &method, work).await {
            Ok(response) => Ok(response),
            Err(CallFailure::Panicked { text }) => Ok(response(Code::INTERNAL, &text)),
            Err(CallFailure::ShuttingDown) => Ok(shutting_down()),
        }
    }
}

/// A stream that cannot harm the server. The ttrpc server already runs it in a task of its own.
struct GuardedStream {
    guard: CallGuard,
    path: String,
    stream: Arc<Stream>,
}

#[async_trait]
impl StreamHandler for GuardedStream {
    async fn handler(&self, context: TtrpcContext, stream: StreamInner) -> ttrpc::Result<Option<Response>> {
        if self.guard.abandoned.is_cancelled() {
            return Ok(Some(shutting_down()));
        }
        let running = AssertUnwindSafe(self.stream.handler(context, stream)).catch_unwind();
        let answer = tokio::select! {
            biased;
            answer = self.guard.waits.track_future(running) => answer,
            () = self.guard.abandoned.cancelled() => return Ok(Some(shutting_down())),
        };
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Ok(Some(error_response(error))),
            Err(panic) => Ok(Some(response(Code::INTERNAL, &report_panic(&self.path, &*panic)))),
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// Logs the panic of a method, and returns the message for the caller.
pub(crate) fn report_panic(path: &str, panic: &(dyn Any + Send)) -> String {
    let text = panic_text(panic);
    error!(method = path, text, "method panicked");
    format!("{path} panicked: {text}")
}

fn shutting_down() -> Response {
    response(Code::UNAVAILABLE, SHUTTING_DOWN)
}

fn error_response(error: ttrpc::Error) -> Response {
    if let ttrpc::Error::RpcStatus(status) = error {
        return with_status(status);
    }
    response(Code::UNKNOWN, &error.to_string())
}

/// Replaces the code that a generated service gives for a method that its author did not write.
///
/// The generated code is `NOT_FOUND`; containerd expects `UNIMPLEMENTED`.
fn as_unimplemented(generated_text: &str, mut response: Response) -> Response {
    if let Some(status) = response.status.as_mut()
        && status.code() == Code::NOT_FOUND
        && status.message.ends_with(generated_text)
    {
        status.set_code(Code::UNIMPLEMENTED);
    }
    response
}

fn response(code: Code, text: &str) -> Response {
    with_status(ttrpc::get_status(code, text))
}

fn with_status(status: Status) -> Response {
    let mut response = Response::new();
    response.set_status(status);
    response
}
