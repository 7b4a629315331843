//! The type [`Shim`], and the dispatch of its command line.

use std::error::Error;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tokio::sync::mpsc;

use super::delete::{self, CleanupFn, CleanupReport, CleanupTarget, DeleteError};
use super::environment::{ControlSignal, Environment, ServerParams};
use super::flags::{FlagError, Flags};
use super::log_format::LineFormat;
use super::mounts::Mounts;
use super::serve::{self, ServeError};
use super::start::{self, StartError};
use super::{info, program};
use crate::config::Configuration;
use crate::graph::Problems;
use crate::load::Registry;
use crate::plugin::{ErrorChain, Plugin};
use crate::process::Clock;

/// A containerd shim: its name, its version, and the plugins that it consists of.
pub struct Shim {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) revision: String,
    pub(super) registry: Registry,
    pub(super) configuration: Configuration,
    pub(super) mounts: Mounts,
    pub(super) cleanup: Option<Box<CleanupFn>>,
    pub(super) log_to_containerd: bool,
    pub(super) needs_task: bool,
    pub(super) clock: Clock,
}

/// Why an action of a shim failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command line could not be parsed.
    #[error("invalid command line")]
    Flags(#[from] FlagError),

    /// The action is unknown.
    #[error("unknown action {0:?}: expected start, delete, serve, plugins ls, plugins graph or help")]
    UnknownAction(String),

    /// The flag `-namespace` is missing or empty.
    #[error("the namespace of a shim must not be empty")]
    NoNamespace,

    /// The flag `-id` is missing or empty.
    #[error("the id of a container must not be empty")]
    NoId,

    /// The plugins have no valid order.
    #[error(transparent)]
    Graph(#[from] Problems),

    /// The action `start` failed.
    #[error("could not start")]
    Start(#[from] StartError),

    /// The action `delete` failed.
    #[error("could not delete")]
    Delete(#[from] DeleteError),

    /// The server failed.
    #[error("could not serve")]
    Serve(#[from] ServeError),

    /// The answer could not be written.
    #[error("could not write the answer")]
    Answer(#[source] io::Error),
}

impl Shim {
    /// Creates a shim without plugins of its own.
    ///
    /// `name` is the name of the runtime, for example `io.containerd.hello.v1`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            revision: String::new(),
            registry: Registry::new(),
            configuration: Configuration::default(),
            mounts: Mounts::default(),
            cleanup: None,
            log_to_containerd: true,
            needs_task: true,
            clock: Clock::default(),
        }
    }

    /// Sets the source revision that `-v` shows.
    #[must_use]
    pub fn revision(self, revision: impl Into<String>) -> Self {
        Self { revision: revision.into(), ..self }
    }

    /// Registers a plugin.
    #[must_use]
    pub fn plugin(self, plugin: Plugin) -> Self {
        Self { registry: self.registry.with(plugin), ..self }
    }

    /// Sets the configuration of the plugins. Options from containerd override it key by key.
    #[must_use]
    pub fn configuration(self, configuration: Configuration) -> Self {
        Self { configuration, ..self }
    }

    /// Sets the mounts that the shim performs itself.
    #[must_use]
    pub fn mounts(self, mounts: Mounts) -> Self {
        Self { mounts, ..self }
    }

    /// Sets the cleanup after a container, whose server may be dead.
    ///
    /// The cleanup runs in a process of its own after every end of a container, possibly more than
    /// once, and may take 4 seconds.
    #[must_use]
    pub fn on_delete<F>(mut self, cleanup: impl Fn(CleanupTarget) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<CleanupReport, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.cleanup = Some(Box::new(move |target| Box::pin(cleanup(target))));
        self
    }

    /// Lets the shim start although no plugin contributes the Task service of containerd.
    ///
    /// Containerd cannot create containers with such a shim.
    #[must_use]
    pub fn without_task(self) -> Self {
        Self { needs_task: false, ..self }
    }

    /// Sets the clock for the times in events and exits.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Leaves logging to the author: `tracing` output does not go to containerd.
    #[must_use]
    pub fn own_log(self) -> Self {
        Self { log_to_containerd: false, ..self }
    }

    /// Runs the action of this process's command line: the whole of `main`.
    pub fn run(self) -> ExitCode {
        let environment = match program::environment() {
            Ok(environment) => environment,
            Err(error) => return self.report(&error),
        };
        let args = environment.args.clone();
        match self.run_in(environment) {
            Ok(()) => ExitCode::SUCCESS,
            // The standard error of a server is the log of containerd.
            Err(error @ RunError::Serve(_)) if !matches!(error, RunError::Serve(ServeError::NotStarted)) => {
                let format = LineFormat::new(&Flags::parse(args).unwrap_or_default());
                let _ = io::stderr().write_all(format.error_line(&ErrorChain(&error).to_string()).as_bytes());
                ExitCode::FAILURE
            }
            Err(error) => self.report(&error),
        }
    }

    fn report(&self, error: &(dyn Error + 'static)) -> ExitCode {
        let _ = writeln!(io::stderr(), "{}: {}", self.name, ErrorChain(error));
        ExitCode::FAILURE
    }

    /// Runs the action that an environment asks for.
    pub fn run_in(&self, mut environment: Environment) -> Result<(), RunError> {
        let flags = Flags::parse(environment.args.iter().cloned())?;
        let environment = &mut environment;
        if flags.version {
            return info::version(self, environment).map_err(RunError::Answer);
        }
        if flags.info {
            return info::info(self, environment).map_err(RunError::Answer);
        }
        let words: Vec<_> = flags.words.iter().map(String::as_str).collect();
        if flags.help || environment.args.is_empty() {
            return info::usage(self, environment).map_err(RunError::Answer);
        }
        match words[..] {
            ["help" | "version", ..] => return info::usage(self, environment).map_err(RunError::Answer),
            ["plugins", "ls"] => return print(environment, &info::table(&info::graph(self)?)),
            ["plugins", "graph"] => return print(environment, &info::graph(self)?.dot()),
            _ if flags.namespace.is_empty() => return Err(RunError::NoNamespace),
            ["start" | "delete", ..] if flags.id.is_empty() => return Err(RunError::NoId),
            _ => {}
        }
        match words[..] {
            ["start", ..] => Ok(start::start(self, &flags, environment)?),
            ["delete", ..] => Ok(delete::delete(self, &flags, environment)?),
            ["serve", ..] | [] => Ok(program::serve(self, &flags)?),
            [other, ..] => Err(RunError::UnknownAction(other.to_owned())),
        }
    }

    /// Runs the server that a [`Launcher`](super::Launcher) launches, until its end. A test calls
    /// this method in place of starting a process.
    pub async fn serve(&self, server: ServerParams, signals: mpsc::Receiver<ControlSignal>) -> Result<(), ServeError> {
        let ServerParams { args: _, directory: _, listener, handshake } = server;
        serve::serve(self, UnixStream::from(handshake), listener, signals).await
    }
}

fn print(environment: &mut Environment, text: &str) -> Result<(), RunError> {
    let output = &mut environment.output;
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(RunError::Answer)
}
