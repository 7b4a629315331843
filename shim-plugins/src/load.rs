//! Loads the plugins of a shim in order, and ends them in reverse.
//!
//! - `registry`: the registered plugins, and the loop that loads them.
//! - `init`: the initialization of one plugin.
//! - `loaded`: the loaded plugins, what they contribute, and their end.
//! - `grpc_services`: their services over gRPC, with the feature `grpc`.

#[cfg(feature = "grpc")]
mod grpc_services;
mod init;
mod loaded;
mod registry;

pub use loaded::{EndOutcome, Loaded};
pub use registry::{LoadError, Registry};

#[cfg(test)]
mod tests;
