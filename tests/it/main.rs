//! Tests across crates that run in one process, and checks of the workspace itself.

// A test asserts, and stops at the first failure.
#![allow(clippy::panic, clippy::unwrap_used)]

mod admission;
mod demo;
mod early;
mod faults;
mod fuzz;
mod hostile;
mod joining;
mod layers;
mod limits;
mod node;
mod raw;
mod readme;
mod rooms;
mod socket_group;
mod source;
mod sync_plugin;
mod templates;
mod tidy;
mod unasked;
mod workspace;
