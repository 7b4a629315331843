//! What we say beside what Go says, and what we say to it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "these are tests, and what they share")]

mod adaptation;
mod call;
mod envelope;
mod faults;
mod graph;
mod mux;
mod peer;
mod rogue;
mod runtime;
mod schema;
mod serve;
mod texts;
