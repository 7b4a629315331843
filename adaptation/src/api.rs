//! The values that the runtime and plugins exchange through this crate.
//!
//! - `plugin.rs` is the trait of a plugin, `source.rs` that of the runtime; `health.rs` is the
//!   state of a plugin.
//! - `request.rs` is a request, encoded once; `snapshot.rs` is what a joining plugin is shown.
//! - `operation.rs` is the id and the outcome of an operation, `decision.rs` the outcome of a
//!   request.
//! - `error.rs` has the errors of a request.
//! - `queue.rs` is a queue per key: requests about one pod take turns in it.

pub(crate) mod decision;
pub(crate) mod error;
pub mod health;
pub(crate) mod operation;
pub mod plugin;
pub mod queue;
pub mod request;
pub mod snapshot;
pub(crate) mod source;
