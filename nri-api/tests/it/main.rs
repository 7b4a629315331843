//! Tests of the public interface: a runtime in memory, and built-in plugins.

#![allow(clippy::unwrap_used, reason = "these are tests, and what they share")]

mod books;
mod cancelling;
mod domains;
mod errors;
mod exits;
mod hidden;
mod joining;
mod kit;
mod lives;
mod logs;
mod model;
mod operators;
mod podless;
mod posts;
mod restarting;
mod rig;
mod snapshots;
mod stages;
mod stopping;
mod waiting;
