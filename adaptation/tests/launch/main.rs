//! Plugins that an adaptation launches as processes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests, and what they share")]

mod changes;
mod ends;
mod log;
mod node;
#[path = "../../../tests/memory/own_process.rs"]
mod own_process;
mod plugin;
mod start;
mod trust;
