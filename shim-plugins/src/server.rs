//! Serves the methods of plugins, over ttrpc and gRPC.
//!
//! - `call`: a call, the interceptors in front of it, and the guard around every method.
//! - `task`: containerd's Task service, and the names of other services that it calls.
//! - `grpc`: services over gRPC, with the feature `grpc`.

pub(crate) mod call;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod task;

pub use call::{Call, Interceptor, Next};
