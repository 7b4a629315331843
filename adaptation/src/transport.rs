//! Plugins behind a socket.
//!
//! - `socket.rs` makes the socket and checks who could reach it; `listener.rs` accepts connections.
//! - `strangers.rs` limits the peers that have not registered; `front.rs` is a peer until it is let
//!   in.
//! - `connection.rs` is a connection from its beginning to its end.
//! - `remote.rs` is the plugin behind it: the one place where this crate speaks the wire.

pub(crate) mod connection;
pub(crate) mod front;
pub(crate) mod listener;
pub(crate) mod remote;
pub mod socket;
pub(crate) mod strangers;
