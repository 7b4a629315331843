//! Tests of the domain and the handle of a CRI server, with plugins in the same process and a
//! runtime without containers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests, and what they share")]

mod domain;
mod handle;
mod server;
