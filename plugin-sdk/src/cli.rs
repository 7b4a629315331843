//! The flags that every plugin has, a log on stderr, and a `main`.
//!
//! Flags are Go's: one dash or two, a value behind a blank or an equals sign. What upstream's plugins call differently is
//! understood too.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use nri_plugin::cli::Program;
//! use nri_plugin::{Event, EventMask, Plugin};
//!
//! struct Quiet {
//!     greeting: String,
//! }
//!
//! impl Plugin for Quiet {
//!     fn events(&self) -> EventMask {
//!         Event::StartContainer.into()
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     Program::new("quiet", "says nothing about containers that start")
//!         .flag_or("greeting", "TEXT", "hello", "what it does not say")
//!         .main(|given| Ok(Quiet { greeting: given.value("greeting").unwrap_or_default().to_owned() }))
//! }
//! ```

mod flags;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use self::flags::{Flag, FlagKind};
pub use self::flags::{ParsedFlags, UsageError};
use crate::plugin::{Plugin, Refusal, chain};
use crate::runner::{self, Options};

/// A plugin as a program.
#[derive(Clone, Debug)]
pub struct Program {
    name: &'static str,
    about: &'static str,
    flags: Vec<Flag>,
}

impl Program {
    /// A program that is called this, and does that.
    #[must_use]
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, flags: Vec::new() }
    }

    /// Adds a flag of its own that has a value. `value` says of what kind.
    #[must_use]
    pub fn flag(mut self, name: &'static str, value: &'static str, help: &'static str) -> Self {
        self.flags.push(Flag { name, aliases: &[], kind: FlagKind::Value(value), default: None, help });
        self
    }

    /// Adds one that has this value if it is not given. `--help` tells it.
    #[must_use]
    pub fn flag_or(
        mut self,
        name: &'static str,
        value: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        self.flags.push(Flag { name, aliases: &[], kind: FlagKind::Value(value), default: Some(default), help });
        self
    }

    /// Adds a flag of its own that is there or not.
    #[must_use]
    pub fn switch(mut self, name: &'static str, help: &'static str) -> Self {
        self.flags.push(Flag { name, aliases: &[], kind: FlagKind::Switch, default: None, help });
        self
    }

    /// Reads flags, without the name of the program in front.
    ///
    /// # Errors
    ///
    /// A flag that there is not, or one without its value.
    pub fn parse(&self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<ParsedFlags, UsageError> {
        flags::parse(&self.flags, args.into_iter().map(Into::into))
    }

    /// What `--help` prints.
    #[must_use]
    pub fn help(&self) -> String {
        format!("{}: {}\n\n{}", self.name, self.about, flags::help_table(&self.flags))
    }

    /// Reads the flags of this process, makes the plugin and runs it until a signal, on one thread. What goes wrong is
    /// one sentence on stderr, and exit code 1.
    pub fn main<P: Plugin>(self, make: impl FnOnce(&ParsedFlags) -> Result<P, Refusal>) -> ExitCode {
        let flags = match self.parse(std::env::args_os().skip(1)) {
            Ok(flags) if flags.is_help() => {
                // Whoever has closed stdout does not want to read it.
                let _ = io::stdout().write_all(self.help().as_bytes());
                return ExitCode::SUCCESS;
            }
            Ok(flags) => flags,
            Err(error) => return self.fail(&chain(&error)),
        };
        match self.start(flags, make) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => self.fail(&text),
        }
    }

    fn start<P: Plugin>(
        &self,
        flags: ParsedFlags,
        make: impl FnOnce(&ParsedFlags) -> Result<P, Refusal>,
    ) -> Result<(), String> {
        let plugin = make(&flags).map_err(|refusal| refusal.to_string())?;
        // Who makes a plugin may have begun a log of its own.
        log(flags.verbosity(), io::stderr);
        let options = flags.into_options().map_err(|error| chain(&error))?;
        run(plugin, options).map_err(|error| chain(&*error))
    }

    fn fail(&self, text: &str) -> ExitCode {
        // Nobody is left to tell if that fails.
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
        ExitCode::FAILURE
    }
}

fn run(plugin: impl Plugin, options: Options) -> Result<(), Box<dyn Error>> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = executor.block_on(runner::run(plugin, options));
    // A handler that does not end is not waited for: it had its time.
    executor.shutdown_background();
    Ok(outcome?)
}

/// Begins a log, unless there is one already. Returns whether it has.
pub fn log<W>(verbosity: u8, writer: W) -> bool
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let level = match verbosity {
        0 => Level::INFO,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(writer)
        .try_init()
        .is_ok()
}
