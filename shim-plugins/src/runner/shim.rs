//! The shim itself, and which action a command line asks for.

use std::error::Error;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tokio::sync::mpsc;

use super::delete::{self, CleanupFn, CleanupReport, CleanupTarget, DeleteError};
use super::environment::{ControlSignal, Environment, ServerParams};
use super::flags::{FlagError, Flags};
use super::mounts::Mounts;
use super::serve::{self, ServeError};
use super::start::{self, StartError};
use super::{info, program};
use crate::config::Configuration;
use crate::graph::Problems;
use crate::load::Registry;
use crate::plugin::{ErrorChain, Plugin};
use crate::process::Clock;

/// A shim: its name, and the plugins that it is assembled from.
pub struct Shim {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) revision: String,
    pub(super) registry: Registry,
    pub(super) configuration: Configuration,
    pub(super) mounts: Mounts,
    pub(super) cleanup: Option<Box<CleanupFn>>,
    pub(super) log_to_containerd: bool,
    pub(super) clock: Clock,
}

/// Why a shim did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command line is not one of a shim.
    #[error("could not understand the command line")]
    Flags(#[from] FlagError),

    /// It asks for something that there is not.
    #[error("there is no action {0:?}; there are start, delete, serve, plugins ls and plugins graph")]
    NoAction(String),

    /// It does not say for which namespace.
    #[error("the namespace of a shim cannot be empty")]
    NoNamespace,

    /// The plugins do not fit together.
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

    /// Nobody hears the answer.
    #[error("could not answer")]
    Answer(#[source] io::Error),
}

impl Shim {
    /// A shim of that name, `io.containerd.hello.v1` for example, in that version, with no plugins yet.
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
            clock: Clock::default(),
        }
    }

    /// Says what was built, as `-v` shows it.
    #[must_use]
    pub fn revision(self, revision: impl Into<String>) -> Self {
        Self { revision: revision.into(), ..self }
    }

    /// Registers a plugin.
    #[must_use]
    pub fn plugin(self, plugin: Plugin) -> Self {
        Self { registry: self.registry.with(plugin), ..self }
    }

    /// Configures the plugins. What containerd says comes on top of it.
    #[must_use]
    pub fn configuration(self, configuration: Configuration) -> Self {
        Self { configuration, ..self }
    }

    /// Says which mounts the shim performs itself.
    #[must_use]
    pub fn mounts(self, mounts: Mounts) -> Self {
        Self { mounts, ..self }
    }

    /// Says how to clean up after a container whose server may be dead. It is done in a process of its own, after every
    /// end of a container, perhaps more than once, and has 4 seconds.
    #[must_use]
    pub fn on_delete<F>(mut self, cleanup: impl Fn(CleanupTarget) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<CleanupReport, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.cleanup = Some(Box::new(move |target| Box::pin(cleanup(target))));
        self
    }

    /// Tells the time by another clock: in events, and in answers about ends.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Leaves the log to the author: what is logged with `tracing` does not go to containerd.
    #[must_use]
    pub fn own_log(self) -> Self {
        Self { log_to_containerd: false, ..self }
    }

    /// Does what this process is run for: the whole of `main`.
    pub fn run(self) -> ExitCode {
        let environment = match program::environment() {
            Ok(environment) => environment,
            Err(error) => return self.complain(&error),
        };
        match self.run_in(environment) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&self, error: &(dyn Error + 'static)) -> ExitCode {
        let _ = writeln!(io::stderr(), "{}: {}", self.name, ErrorChain(error));
        ExitCode::FAILURE
    }

    /// Does what an environment asks for.
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
        match words[..] {
            ["plugins", "ls"] => return show(environment, &info::table(&info::graph(self)?)),
            ["plugins", "graph"] => return show(environment, &info::graph(self)?.dot()),
            _ if flags.namespace.is_empty() => return Err(RunError::NoNamespace),
            _ => {}
        }
        match words[..] {
            ["start", ..] => Ok(start::start(self, &flags, environment)?),
            ["delete", ..] => Ok(delete::delete(self, &flags, environment)?),
            ["serve", ..] | [] => Ok(program::serve(self, &flags)?),
            [other, ..] => Err(RunError::NoAction(other.to_owned())),
        }
    }

    /// Serves what a [`Launcher`] was given, until the end. A test calls it where a process would run.
    pub async fn serve(&self, server: ServerParams, signals: mpsc::Receiver<ControlSignal>) -> Result<(), ServeError> {
        let ServerParams { args: _, directory: _, listener, started } = server;
        serve::serve(self, UnixStream::from(started), listener, signals).await
    }
}

fn show(environment: &mut Environment, text: &str) -> Result<(), RunError> {
    let output = &mut environment.output;
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(RunError::Answer)
}
