//! The state of each pod and container, as plugins know it.

pub(crate) mod namespace;
pub(crate) mod revocable;
pub(crate) mod state;
pub(crate) mod table;
