//! Which plugins there are: how a plugin joins, takes the place of another, and leaves.
//!
//! - `admission.rs` lets a plugin in, `join.rs` is a plugin on its way in.
//! - `early.rs` keeps the updates that a plugin asks for before it is let in.
//! - `membership.rs` adds plugins to the roster and takes them out; `drain.rs` lets a replaced
//!   plugin finish.

pub(crate) mod admission;
pub(crate) mod drain;
pub(crate) mod early;
pub(crate) mod join;
pub(crate) mod membership;
