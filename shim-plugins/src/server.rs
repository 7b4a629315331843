//! Serves the methods of plugins, over ttrpc and gRPC.
//!
//! - `call`: one call, and the interceptors that it passes through.
//! - `attendance`: the connections. `containers`: what the Task service has created.
//! - `guard`: the guard around every method: panics, callers that leave, the end of the shim.
//! - `task`: containerd's Task service, and the other services that containerd calls.
//! - `grpc`: services over gRPC, with the feature `grpc`.

mod attendance;
mod call;
mod containers;
#[cfg(feature = "grpc")]
pub mod grpc;
mod guard;
pub mod task;

pub(crate) use attendance::{Attendance, CountedStream};
pub use call::{Call, Interceptor, Next};
pub(crate) use containers::Containers;
#[cfg(feature = "grpc")]
pub(crate) use guard::{CallFailure, SHUTTING_DOWN, report_panic};
pub(crate) use guard::{CallGuard, GuardedMethod, panic_text};
