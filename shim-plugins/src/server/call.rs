//! Calls of unary methods, and the interceptors that they pass through.

use std::sync::Arc;

use async_trait::async_trait;
use ttrpc::r#async::{MethodHandler, TtrpcContext};
use ttrpc::{Request, Response};

/// One call of a unary method.
pub struct Call {
    /// The metadata and the deadline of the caller.
    pub context: TtrpcContext,
    /// The service, the method and the encoded message.
    pub request: Request,
}

/// Intercepts the calls of all unary methods of a shim, over ttrpc and over gRPC.
///
/// An interceptor traces, counts or refuses calls, or injects faults in tests. Services that are
/// implemented with `tonic` are not intercepted: they have layers of their own.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// Answers a call, usually with the result of [`next.run`](Next::run).
    async fn call(&self, call: Call, next: Next) -> ttrpc::Result<Response>;
}

/// The rest of a call's way: the interceptors that follow, and the method.
pub struct Next {
    pub(super) interceptors: Arc<[Arc<dyn Interceptor>]>,
    pub(super) index: usize,
    pub(super) method: Arc<Method>,
}

/// A handler of a unary ttrpc method.
pub(super) type Method = dyn MethodHandler + Send + Sync;

impl Next {
    /// Passes the call to the next interceptor, or to the method if no interceptor is left.
    pub async fn run(mut self, call: Call) -> ttrpc::Result<Response> {
        let Some(interceptor) = self.interceptors.get(self.index).cloned() else {
            return self.method.handler(call.context, call.request).await;
        };
        self.index += 1;
        interceptor.call(call, self).await
    }
}
