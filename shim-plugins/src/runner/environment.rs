//! The inputs and outputs of a shim's process, as a value, so that a test can run a shim in its own
//! process.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

/// The default limit for a server to be ready: see [`Environment::ready_limit`].
pub const DEFAULT_READY_LIMIT: Duration = Duration::from_secs(30);

/// The inputs and outputs of a shim's process: arguments, variables, directory, input and output.
pub struct Environment {
    /// The command line, without the program.
    pub args: Vec<String>,
    /// The environment variables.
    pub vars: BTreeMap<String, String>,
    /// The working directory: the bundle, when containerd runs a shim.
    pub directory: PathBuf,
    /// Standard input: what containerd sends to `start`.
    pub input: Box<dyn Read + Send>,
    /// Standard output: the answer to containerd.
    pub output: Box<dyn Write + Send>,
    /// The directory of sockets, unless containerd names another one.
    pub socket_dir: PathBuf,
    /// How long a new server may take to be ready, or the server of a group to answer.
    pub ready_limit: Duration,
    /// How `start` starts the server.
    pub launcher: Box<dyn Launcher>,
}

/// Starts the server of a shim as a process; in tests, as a thread.
pub trait Launcher: Send {
    /// Starts the server, which outlives the process that started it.
    fn launch(&self, server: ServerParams) -> io::Result<Box<dyn LaunchedServer>>;
}

/// A server that was started.
pub trait LaunchedServer: Send {
    /// Tells the server to end in order, and waits. After `grace` the server is killed.
    fn end(&mut self, grace: Duration);
}

/// The parameters of starting the server of a shim.
pub struct ServerParams {
    /// The command line, without the program.
    pub args: Vec<String>,
    /// The working directory.
    pub directory: PathBuf,
    /// The socket on which the server listens.
    pub listener: UnixListener,
    /// The server's end of the handshake with `start`.
    pub handshake: OwnedFd,
}

/// A signal that controls a running shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlSignal {
    /// SIGTERM or SIGINT: the shim ends in order.
    End,
    /// SIGUSR1: the shim logs its diagnostics.
    Diagnose,
}
