//! Stories that run in one process, and what must be true of the workspace itself.

// A test says that something must be so; when it is not, it stops right there.
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
mod tidy;
mod unasked;
mod workspace;
