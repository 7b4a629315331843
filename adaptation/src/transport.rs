//! Plugins that are connected through a socket.
//!
//! - `socket.rs` creates the socket and checks who may reach it; `listener.rs` accepts connections.
//! - `strangers.rs` limits the number of peers that are not admitted yet. `front.rs` serves the
//!   calls of one peer.
//! - `connection.rs` takes a connection from its beginning to its end.
//! - `remote.rs` is the plugin behind a connection: the only code in this crate that calls plugins
//!   over the wire.

pub(crate) mod connection;
pub(crate) mod front;
pub(crate) mod listener;
pub(crate) mod remote;
pub mod socket;
pub(crate) mod strangers;
