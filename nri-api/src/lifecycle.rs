//! The state of each pod and container, as plugins know it.
//!
//! - `steps`: small values: the run of a container, and what may be done next with an object.
//! - `state`: the state machine of one object. Pure: it knows no plugin, no clock and no lock.
//! - `convert`: conversions between the states of the runtime, of the adaptation and of plugins.
//! - `table`: all objects of one kind by id, with the operations that are open about each.
//! - `namespace`: one namespace: its domain, a table of its pods and a table of its containers.

pub(crate) mod convert;
pub(crate) mod namespace;
pub(crate) mod state;
pub(crate) mod steps;
pub(crate) mod table;
