//! Measures what a plugin costs: the example `logger` on our SDK beside one on Go's stub, in one
//! interleaved run.
//!
//! `sdk-bench OURS GOS RUNTIME [--rounds N] [--write FILE]` starts a runtime on Go's own adaptation
//! (`tests/interop/peers/cmd/runtime`), and then both plugins by turns. The time is from the start
//! of the process until the runtime says that the plugin is registered. Then the plugin hears some
//! lives of pods, is left alone for a moment, and its memory is read.

mod middle;
mod page;
mod resident;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const ROUNDS: usize = 15;
/// The number of pod lives in each round.
const LIVES: usize = 20;
/// The time after which the work of a round is certainly over.
const REST: Duration = Duration::from_millis(300);

/// The bars: the largest ratios to Go's values, and the largest size of the program in megabytes.
const REGISTERED: f64 = 1.0;
const RESIDENT: f64 = 0.35;
const PROGRAM: f64 = 3.0;

const EVENTS: [&str; 11] = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
];

fn main() -> Result<ExitCode> {
    let Arguments { ours, gos, runtime, rounds, write } =
        Arguments::parse(std::env::args_os().skip(1).map(PathBuf::from))?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("nri.sock");
    let mut runtime = Runtime::start(&runtime, &socket)?;
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (program, samples) in [&ours, &gos].into_iter().zip(&mut samples) {
            let sample = measure(&mut runtime, program, &socket)?;
            // The first round fills caches.
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let [theirs, our_size] = [&gos, &ours].map(|program| size(program));
    let (table, met) = table(&samples, [theirs?, our_size?])?;
    page::say(&table)?;
    page::write(
        write.as_deref(),
        "sdk-bench",
        &format!("{} Medians of {rounds} rounds.\n\n{table}", page::circumstances()?),
    )?;
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Arguments {
    ours: PathBuf,
    gos: PathBuf,
    runtime: PathBuf,
    rounds: usize,
    write: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = PathBuf>) -> Result<Self> {
        const USAGE: &str = "usage: sdk-bench OURS GOS RUNTIME [--rounds N] [--write FILE]";
        let mut path = || words.next().context(USAGE);
        let (ours, gos, runtime) = (path()?, path()?, path()?);
        let mut arguments = Self { ours, gos, runtime, rounds: ROUNDS, write: None };
        while let Some(flag) = words.next() {
            let value = words.next().context(USAGE)?;
            match flag.to_str() {
                Some("--rounds") => arguments.rounds = value.to_string_lossy().parse()?,
                Some("--write") => arguments.write = Some(value),
                _ => bail!(USAGE),
            }
        }
        Ok(arguments)
    }
}

/// The time until the plugin is registered, in milliseconds, and its resident memory, in MiB.
struct Sample {
    registered: f64,
    resident: f64,
}

fn measure(runtime: &mut Runtime, program: &Path, socket: &Path) -> Result<Sample> {
    let mut command = Command::new(program);
    command.args(["--idx", "10", "--socket"]).arg(socket);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut plugin = Plugin(command.spawn().with_context(|| format!("could not run {}", program.display()))?);
    runtime.until(|line| is_logged(line, "registered as"))?;
    let registered = begun.elapsed();
    runtime.until(|line| is_logged(line, "connected and synchronized"))?;
    for _ in 0..LIVES {
        for event in EVENTS {
            runtime.tell(event)?;
        }
    }
    std::thread::sleep(REST);
    let [_, resident] = resident::memory(plugin.0.id())?;
    kill(Pid::from_raw(plugin.0.id().try_into()?), Signal::SIGTERM)?;
    ensure!(plugin.0.wait()?.success(), "{} did not end well", program.display());
    runtime.until(|line| is_logged(line, "closed"))?;
    Ok(Sample { registered: registered.as_secs_f64() * 1e3, resident })
}

/// A plugin process. Dropping it kills the process, also after a failed measurement.
struct Plugin(Child);

impl Drop for Plugin {
    fn drop(&mut self) {
        // The kill fails if the process was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_logged(line: &Value, text: &str) -> bool {
    line["log"].as_str().is_some_and(|log| log.contains(text))
}

/// A runtime on Go's own adaptation, which ends when its standard input is closed.
struct Runtime {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Runtime {
    fn start(program: &Path, socket: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("-socket").arg(socket).args(["-containers", "20", "-env-bytes", "1000"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("its output is a pipe")?).lines();
        let mut runtime = Self { child, lines };
        runtime.until(|line| line["did"] == "start")?;
        Ok(runtime)
    }

    fn until(&mut self, is_such: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let line = self.lines.next().context("the runtime ended")??;
            let line = serde_json::from_str(&line)?;
            if is_such(&line) {
                return Ok(line);
            }
        }
    }

    /// Notifies the plugin of an event of a typical container.
    fn tell(&mut self, event: &str) -> Result<()> {
        let mut request = json!({"pod": {"id": "p", "name": "p", "namespace": "default", "annotations": {"a": "b"}}});
        if event.ends_with("Container") {
            let env: Vec<_> = (0..20).map(|n| format!("VARIABLE_{n}={}", "x".repeat(60))).collect();
            let mount = |n| json!({"destination": format!("/m/{n}"), "type": "bind", "source": "/s", "options": ["rbind", "ro"]});
            let mounts: Vec<_> = (0..10).map(mount).collect();
            request["container"] = json!({"id": "c", "pod_sandbox_id": "p", "name": "c", "env": env, "mounts": mounts});
        }
        let command = json!({"do": event, "request": request});
        let input = self.child.stdin.as_mut().context("its input is a pipe")?;
        writeln!(input, "{command}")?;
        let answer = self.until(|line| line["did"] == event)?;
        ensure!(answer["error"].is_null(), "{event}: {answer}");
        Ok(())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends at once, and its exit status does not matter.
        let _ = self.child.wait();
    }
}

/// Returns the size of a program without debug information, in MB.
fn size(program: &Path) -> Result<f64> {
    let stripped = tempfile::NamedTempFile::new()?;
    let status =
        Command::new("strip").arg("-o").arg(stripped.path()).arg(program).status().context("could not run strip")?;
    ensure!(status.success(), "strip ended with {status}");
    Ok(std::fs::metadata(stripped.path())?.len() as f64 / 1e6)
}

fn table([ours, gos]: &[Vec<Sample>; 2], [their_size, our_size]: [f64; 2]) -> Result<(String, bool)> {
    let mut table = "| | Go | Rust | ratio | bar | |\n|---|--:|--:|--:|--:|---|\n".to_owned();
    let mut all_met = true;
    let mut row = |what: &str, unit: &str, [go, rust]: [f64; 2], bar: String, is_met: bool| {
        let verdict = if is_met { "met" } else { "**missed**" };
        all_met &= is_met;
        writeln!(table, "| {what} | {go:.2} {unit} | {rust:.2} {unit} | {:.2} | {bar} | {verdict} |", rust / go)
    };
    let of = |figure: fn(&Sample) -> f64| [gos, ours].map(|samples| middle::median(samples.iter().map(figure)));
    let [go, rust] = of(|sample| sample.registered);
    row("start to registered", "ms", [go, rust], format!("≤ {REGISTERED:.2}"), rust / go <= REGISTERED)?;
    let [go, rust] = of(|sample| sample.resident);
    row("resident memory", "MiB", [go, rust], format!("≤ {RESIDENT:.2}"), rust / go <= RESIDENT)?;
    row("program, stripped", "MB", [their_size, our_size], format!("≤ {PROGRAM:.2} MB"), our_size <= PROGRAM)?;
    Ok((table, all_met))
}
