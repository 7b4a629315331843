//! Runs a shim: everything that containerd asks of the program, from 1.6 to 2.4.
//!
//! - `shim`: the type [`Shim`], and which action a command line asks for.
//! - `flags`, `bootstrap`, `options`, `environment`: what the process is run with.
//! - `start`, `delete`, `serve`, `info`: the actions.
//! - `handshake`, `program`, `probe`: the server as a process of its own, and how `start` talks to it.
//! - `socket`, `socket_lock`, `debug_socket`, `group`: the sockets of a shim. `log`: its log. `mounts`: the mounts it performs itself.

mod bootstrap;
mod debug_socket;
mod delete;
mod environment;
mod flags;
mod group;
mod handshake;
pub(crate) mod info;
mod log;
mod mounts;
mod options;
mod probe;
mod program;
mod serve;
mod shim;
mod socket;
mod socket_lock;
mod start;

#[cfg(test)]
mod tests;

pub use bootstrap::{Bootstrap, BootstrapError, Dialect};
pub use delete::{CleanupReport, CleanupTarget, DeleteError};
pub use environment::{ControlSignal, DEFAULT_READY_LIMIT, Environment, LaunchedServer, Launcher, ServerParams};
pub use flags::FlagError;
pub use handshake::ServerError;
pub use mounts::Mounts;
pub use options::{CONFIGURATION, OptionsError};
pub use serve::ServeError;
pub use shim::{RunError, Shim};
pub use socket::SocketError;
pub use start::StartError;
