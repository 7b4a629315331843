//! Runs a shim: all actions that containerd asks of the program, from containerd 1.6 to 2.4.
//!
//! - `shim`: the type [`Shim`], which dispatches the command line. `environment`, `flags`,
//!   `bootstrap`, `options`: what the process reads.
//! - `start`, `delete`, `serve`, `info`: the actions. `handshake`: how `start` talks to the server.
//!   `abandoned`: when a server that nobody needs ends.
//! - `program`: the server as a process of its own. `shim_server`: what listens and answers.
//!   `builtin`: the plugins that every shim has. `log`, `log_format`: the log FIFO, and its lines.
//!   `mounts`: the mounts that a shim performs itself. `group`: which containers share a shim.
//! - `socket`, `socket_path`, `socket_lock`, `debug_socket`, `probe`: the sockets of a shim.

mod abandoned;
mod bootstrap;
mod builtin;
mod debug_socket;
mod delete;
mod environment;
mod flags;
mod group;
mod handshake;
pub(crate) mod info;
mod log;
mod log_format;
mod mounts;
mod options;
mod probe;
mod program;
mod serve;
mod shim;
mod shim_server;
mod socket;
mod socket_lock;
mod socket_path;
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
