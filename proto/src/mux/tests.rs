//! The multiplexer: its pure parts, and whole connections.

mod bounds;
mod closing;
mod cutting;
mod decoding;
mod faults;
pub(crate) mod raw;
mod sockets;
mod streams;
