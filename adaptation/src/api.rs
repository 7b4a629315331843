//! The values that the runtime and plugins exchange through this crate.
//!
//! - `plugin.rs`: the trait of a plugin. `source.rs`: the trait of the runtime. `health.rs`: the
//!   health of a plugin.
//! - `request.rs`: a request, encoded once. `snapshot.rs`: the pods and containers that a joining
//!   plugin is shown.
//! - `operation.rs`: the id and the outcome of an operation. `decision.rs`: the outcome of a
//!   request.
//! - `error.rs`: the errors of a request.
//! - `queue.rs`: a queue for each key. Requests about one pod take turns in it.
//! - `wait.rs`: the wait for a condition.

pub(crate) mod decision;
pub(crate) mod error;
pub mod health;
pub(crate) mod operation;
pub mod plugin;
pub mod queue;
pub mod request;
pub mod snapshot;
pub(crate) mod source;
pub(crate) mod wait;
