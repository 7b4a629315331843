//! Comparisons with Go, and communication with Go peers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "these are tests, and what they share")]

mod adaptation;
mod adjusting;
mod annotations;
mod books;
mod call;
mod containerd;
mod envelope;
mod faults;
mod generate;
mod graph;
mod launched;
mod lines;
mod merge;
mod mini_runtime;
mod mux;
mod node;
mod peer;
mod program;
mod random;
mod rogue;
mod runtime;
mod schema;
mod sdk;
mod serve;
mod stubs;
mod stuck;
mod texts;
mod validating;
