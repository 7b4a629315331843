//! Registers plugins: how a plugin joins, replaces another plugin, and leaves.
//!
//! - `admission.rs` admits a plugin in steps; `join.rs` is the state of a plugin that joins.
//! - `early.rs` keeps the updates that a plugin requests before it is admitted.
//! - `membership.rs` adds plugins to the roster and removes them.
//! - `drain.rs` lets a plugin that was removed or replaced finish its open requests.

pub(crate) mod admission;
pub(crate) mod drain;
pub(crate) mod early;
pub(crate) mod join;
pub(crate) mod membership;
