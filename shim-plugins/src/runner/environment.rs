//! What a shim is run with. Everything comes from here, so that a test can run a shim in its own process.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server has to be ready, unless somebody says otherwise.
pub const DEFAULT_READY_LIMIT: Duration = Duration::from_secs(30);

/// What a shim is run with.
pub struct Environment {
    /// The command line, without the program.
    pub args: Vec<String>,
    /// The environment variables.
    pub vars: BTreeMap<String, String>,
    /// The working directory: the bundle, when containerd runs a shim.
    pub directory: PathBuf,
    /// What containerd says.
    pub input: Box<dyn Read + Send>,
    /// What containerd hears.
    pub output: Box<dyn Write + Send>,
    /// Where sockets go, unless containerd says otherwise.
    pub socket_dir: PathBuf,
    /// How long a server has to be ready, or that of a group to answer.
    pub ready_limit: Duration,
    /// How `start` starts the server.
    pub launcher: Box<dyn Launcher>,
}

/// Starts the server of a shim.
pub trait Launcher: Send {
    /// Starts it. It outlives whoever started it.
    fn launch(&self, server: ServerParams) -> io::Result<Box<dyn LaunchedServer>>;
}

/// A server that was started.
pub trait LaunchedServer: Send {
    /// Asks it to end in order, and waits until it has; if it has not after so long, it is killed.
    fn end(&mut self, grace: Duration);
}

/// What the server of a shim is started with.
pub struct ServerParams {
    /// The command line, without the program.
    pub args: Vec<String>,
    /// The working directory.
    pub directory: PathBuf,
    /// What it listens on.
    pub listener: UnixListener,
    /// Its end of what it and `start` talk over.
    pub started: OwnedFd,
}

/// A signal that a shim knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlSignal {
    /// SIGTERM or SIGINT: end in order.
    End,
    /// SIGUSR1: say how you are.
    Diagnose,
}
