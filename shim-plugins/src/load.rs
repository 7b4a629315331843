//! Loads the plugins of a shim in order, and ends them in reverse.
//!
//! - `registry`: the plugins that were registered.
//! - `loaded`: the plugins that were initialised, and what they contribute.
//! - `grpc_services`: their services over gRPC, with the feature `grpc`.

#[cfg(feature = "grpc")]
mod grpc_services;
mod loaded;
mod registry;

pub use loaded::{EndOutcome, LoadError, Loaded};
pub use registry::Registry;

#[cfg(test)]
mod tests;
