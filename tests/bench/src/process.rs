//! The processes that are measured.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::noise::Noise;
use crate::options::Options;
use crate::sample::Sample;

/// Whose runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Go,
    Rust,
}

/// A runtime with its plugins.
pub(crate) struct Cluster {
    pub(crate) versions: String,
    runtime: Process,
    plugins: Vec<Process>,
    operations: usize,
    _folder: TempDir,
}

#[derive(Deserialize)]
struct Greeting {
    versions: String,
}

#[derive(Deserialize)]
struct Admitted {
    plugins: usize,
}

#[derive(Deserialize)]
struct Farewell {
    started: usize,
}

impl Cluster {
    /// Starts a runtime that relays `request` to `n` plugins.
    pub(crate) fn start(side: Side, n: usize, request: &Path, options: &Options) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("nri.sock");
        let (program, face): (PathBuf, &[&str]) = match (side, &options.baseline) {
            (Side::Go, None) => (options.peers.join("benchruntime"), &[]),
            (Side::Go, Some(build)) => (build.clone(), &["relay"]),
            (Side::Rust, _) => (std::env::current_exe()?, &["relay"]),
        };
        let mut command = command(&program, options.realtime);
        command.args(face).arg("-socket").arg(&socket).arg("-request").arg(request);
        let mut runtime = Process::start(command)?;
        let Greeting { versions } = runtime.hear()?;
        let mut cluster = Self { versions, runtime, plugins: Vec::new(), operations: 0, _folder: folder };
        for index in 0..n {
            cluster.add(&socket, index, options)?;
        }
        Ok(cluster)
    }

    fn add(&mut self, socket: &Path, index: usize, options: &Options) -> Result<()> {
        let mut command = command(&options.peers.join("benchplugin"), options.realtime);
        command.arg("-socket").arg(socket).arg("-index").arg(index.to_string());
        self.plugins.push(Process::start(command)?);
        let wanted = self.plugins.len();
        let Admitted { plugins } = self.runtime.ask(&format!("wait {wanted}"))?;
        ensure!(plugins == wanted, "{plugins} plugins instead of {wanted}");
        Ok(())
    }

    /// Relays so many requests, and says how busy the machine was with other things.
    pub(crate) fn run(&mut self, operations: usize, chunk: usize) -> Result<(Sample, f64)> {
        let pids = self.plugins.iter().chain([&self.runtime]).map(|process| process.child.id());
        let noise = Noise::begin(pids.collect())?;
        let sample: Sample = self.runtime.ask(&format!("run {operations} {chunk}"))?;
        self.operations += sample.operations;
        Ok((sample, noise.end()?))
    }

    /// Ends it, and checks that every plugin was asked every time.
    pub(crate) fn stop(mut self) -> Result<()> {
        let _: serde_json::Value = self.runtime.ask("quit")?;
        self.runtime.end()?;
        for plugin in &mut self.plugins {
            let Farewell { started } = plugin.hear()?;
            let wanted = self.operations;
            ensure!(started == wanted, "a plugin was sent {started} requests instead of {wanted}");
            plugin.end()?;
        }
        Ok(())
    }
}

pub(crate) fn command(program: &Path, realtime: Option<u8>) -> Command {
    let Some(priority) = realtime else { return Command::new(program) };
    let mut command = Command::new("chrt");
    command.arg("--rr").arg(priority.to_string()).arg(program);
    command
}

/// A child that is asked in lines and answers in lines of JSON. It is killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let name = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("could not start {name}"))?;
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Ok(Self { name, child, answers })
    }

    pub(crate) fn ask<A: DeserializeOwned>(&mut self, line: &str) -> Result<A> {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        writeln!(input, "{line}").with_context(|| format!("{} does not listen", self.name))?;
        self.hear().with_context(|| format!("no answer to {line:?}"))
    }

    fn hear<A: DeserializeOwned>(&mut self) -> Result<A> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.name))
    }

    fn end(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Most have ended by now, and cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
