//! The processes that are measured.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::job::{Job, Op};
use crate::noise::Noise;
use crate::options::Options;
use crate::sample::Outcome;

/// How long plugins may take to join if nothing hinders them.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);
/// How many variables an adjusting plugin sets.
const ENV_EACH: usize = 2;

/// The runtime that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Go,
    Rust,
}

/// The options of a plugin.
pub(crate) type Behaviour = &'static [&'static str];
/// A plugin that answers at once, without changes.
pub(crate) const PLAIN: Behaviour = &[];
/// A plugin that makes a typical adjustment.
pub(crate) const ADJUSTS: Behaviour = &["-adjust"];

/// The setup of a runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) plugins: Vec<Behaviour>,
    /// How many containers exist at the start.
    pub(crate) containers: usize,
    /// The plugin that may be asked about several pods at a time, where a runtime can do that.
    pub(crate) per_pod: Option<&'static str>,
}

/// A runtime with its plugins.
pub(crate) struct Cluster {
    pub(crate) versions: String,
    /// The plugins. They are dropped before the runtime, so that they do not complain about its
    /// end.
    plugins: Vec<Process>,
    runtime: Process,
    /// How many of them adjust containers.
    n_adjusting: usize,
    operations: usize,
    folder: TempDir,
    benchplugin: PathBuf,
    realtime: Option<u8>,
    /// The process that keeps processors awake.
    awake: u32,
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
    asked: usize,
}

impl Cluster {
    /// Starts a runtime that relays `request`, with its plugins, and a process that keeps
    /// processors awake.
    pub(crate) fn start(side: Side, setup: &Setup, request: &Path, options: &Options, awake: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (program, is_ours) = match (side, &options.baseline) {
            (Side::Go, None) => (options.peers.join("benchruntime"), false),
            (Side::Go, Some(build)) => (build.clone(), true),
            (Side::Rust, _) => (std::env::current_exe()?.with_file_name("bench-runtime"), true),
        };
        let mut command = command(&program, options.realtime);
        command.arg("-socket").arg(socket_in(&folder)).arg("-request").arg(request);
        command.arg("-containers").arg(setup.containers.to_string());
        if let Some(plugin) = setup.per_pod.filter(|_| is_ours) {
            command.args(["-per-pod", plugin]);
        }
        let mut runtime = Process::start(command)?;
        let Greeting { versions } = runtime.hear()?;
        let mut cluster = Self {
            versions,
            runtime,
            plugins: Vec::new(),
            n_adjusting: setup.plugins.iter().filter(|behaviour| **behaviour == ADJUSTS).count(),
            operations: 0,
            folder,
            benchplugin: options.peers.join("benchplugin"),
            realtime: options.realtime,
            awake,
        };
        for behaviour in &setup.plugins {
            cluster.launch(behaviour)?;
            let wanted = cluster.plugins.len();
            cluster.wait(wanted, JOIN_TIMEOUT)?;
        }
        Ok(cluster)
    }

    /// Returns the path of the socket on which plugins connect.
    pub(crate) fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Starts a plugin.
    pub(crate) fn launch(&mut self, behaviour: Behaviour) -> Result<&mut Process> {
        let mut command = command(&self.benchplugin, self.realtime);
        command.arg("-socket").arg(self.socket()).arg("-index").arg(self.plugins.len().to_string()).args(behaviour);
        self.plugins.push(Process::start(command)?);
        Ok(self.plugins.last_mut().expect("it was just added"))
    }

    /// Waits until there are `n` plugins, and returns how long that took.
    pub(crate) fn wait(&mut self, n: usize, timeout: Duration) -> Result<Duration> {
        let start = Instant::now();
        let Admitted { plugins } = self.runtime.ask(&format!("wait {n} {}", timeout.as_secs()))?;
        ensure!(plugins == n, "{plugins} plugins instead of {n} after {timeout:?}");
        Ok(start.elapsed())
    }

    /// Runs a job. Also returns how busy the machine was with other processes.
    pub(crate) fn run(&mut self, job: Job) -> Result<(Outcome, f64)> {
        let noise = Noise::begin(self.pids().collect())?;
        let outcome = self.work(job)?;
        Ok((outcome, noise.end()?))
    }

    /// Runs a job.
    pub(crate) fn work(&mut self, job: Job) -> Result<Outcome> {
        let Job { op, n, chunk, callers, beside } = job;
        let line = format!("run {} {n} {chunk} {callers} {beside}", op.name());
        let outcome: Outcome = self.runtime.ask(&line)?;
        self.operations += outcome.sample.operations + outcome.beside;
        let (wanted, env) = (self.n_adjusting * ENV_EACH, outcome.env);
        ensure!(op != Op::Create || env == wanted, "{env} variables were set instead of {wanted}");
        Ok(outcome)
    }

    /// Returns the processes that belong to the measurement.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.plugins.iter().chain([&self.runtime]).map(|process| process.child.id()).chain([self.awake])
    }

    /// Returns the resident memory of the runtime, in KiB.
    pub(crate) fn resident_kib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.runtime.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no resident memory is told")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Stops the cluster, and checks that every plugin got every request.
    pub(crate) fn stop(mut self) -> Result<()> {
        let _: serde_json::Value = self.runtime.ask("quit")?;
        self.runtime.end()?;
        for plugin in &mut self.plugins {
            let Farewell { asked } = plugin.hear()?;
            let wanted = self.operations;
            ensure!(asked == wanted, "a plugin was sent {asked} requests instead of {wanted}");
            plugin.end()?;
        }
        Ok(())
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("nri.sock")
}

pub(crate) fn command(program: &Path, realtime: Option<u8>) -> Command {
    let Some(priority) = realtime else { return Command::new(program) };
    let mut command = Command::new("chrt");
    command.arg("--rr").arg(priority.to_string()).arg(program);
    command
}

/// A child process that takes lines and answers with lines of JSON. Dropping it kills the process.
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

    pub(crate) fn hear<A: DeserializeOwned>(&mut self) -> Result<A> {
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
        // Most processes have ended by now, and the kill fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
