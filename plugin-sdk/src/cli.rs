//! A plugin as a program: the flags that every plugin has, a log on stderr, and a `main`.
//!
//! - [`Program`] (`cli.rs`) describes the program, parses its flags and runs the plugin.
//! - [`ParsedFlags`] (`cli/flags.rs`) are the flags on a command line.
//!
//! The syntax is that of Go's flags: one dash or two, and a value after a space or an equals sign.
//! The names that upstream's plugins use for the common flags are accepted as aliases.
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
//!         .main(|flags| {
//!             let greeting = flags.value("greeting").unwrap_or_default().to_owned();
//!             Ok(Quiet { greeting })
//!         })
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

/// A program that runs a plugin: its name, its description and its flags.
#[derive(Clone, Debug)]
pub struct Program {
    name: &'static str,
    about: &'static str,
    flags: Vec<Flag>,
}

impl Program {
    /// Creates a program with this name and a description for `--help`. Both are for messages only:
    /// the runtime knows the plugin by [`Options::name`].
    #[must_use]
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, flags: Vec::new() }
    }

    /// Adds a flag with a value. `value` is the placeholder for the value in `--help`.
    #[must_use]
    pub fn flag(mut self, name: &'static str, value: &'static str, help: &'static str) -> Self {
        self.flags.push(Flag { name, aliases: &[], kind: FlagKind::Value(value), default: None, help });
        self
    }

    /// Adds a flag with a value, and a default for it. `--help` shows the default.
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

    /// Adds a flag without a value.
    #[must_use]
    pub fn switch(mut self, name: &'static str, help: &'static str) -> Self {
        self.flags.push(Flag { name, aliases: &[], kind: FlagKind::Switch, default: None, help });
        self
    }

    /// Parses a command line, without the name of the program.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown flag, or for a flag without its value.
    pub fn parse(&self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<ParsedFlags, UsageError> {
        flags::parse(&self.flags, args.into_iter().map(Into::into))
    }

    /// Returns the text of `--help`.
    #[must_use]
    pub fn help(&self) -> String {
        format!("{}: {}\n\n{}", self.name, self.about, flags::help_table(&self.flags))
    }

    /// Parses the flags of this process, creates the plugin, and runs it on one thread until a
    /// signal.
    ///
    /// An error is printed to stderr as one line, and the exit code is 1.
    pub fn main<P: Plugin>(self, make: impl FnOnce(&ParsedFlags) -> Result<P, Refusal>) -> ExitCode {
        let flags = match self.parse(std::env::args_os().skip(1)) {
            Ok(flags) if flags.is_help() => {
                // If stdout is closed, there is no reader.
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
        // `make` may have started a log, which then stays in use.
        log(flags.verbosity(), io::stderr);
        let options = flags.into_options().map_err(|error| chain(&error))?;
        run(plugin, options).map_err(|error| chain(&*error))
    }

    fn fail(&self, text: &str) -> ExitCode {
        // An error of writing to stderr cannot be reported.
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
        ExitCode::FAILURE
    }
}

fn run(plugin: impl Plugin, options: Options) -> Result<(), Box<dyn Error>> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = executor.block_on(runner::run(plugin, options));
    // A handler that still runs has exceeded the grace period, so do not wait for it.
    executor.shutdown_background();
    Ok(outcome?)
}

/// Starts a log that writes to `writer`, unless the process has one. Returns whether the log was
/// started.
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
