//! The multiplexer, from its pure parts up to whole connections.

mod bounds;
mod closing;
mod cutting;
mod decoding;
mod faults;
pub(crate) mod raw;
mod sockets;
mod streams;
