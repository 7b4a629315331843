//! Measures what a shim costs: ours, `hello_shim`, beside Go's for runc, under one containerd 2.4
//! and in one interleaved run.
//!
//! `shim-bench OURS DIR [ROUNDS]` starts the containerd in DIR, and lets it run a container with
//! each of the two by turns. When the shim has rested for a moment, its memory is read. The time is
//! that of `start`, called in a bundle as containerd does, and lasts until Connect is answered,
//! since Go's `start` returns before its server is ready; what the runtime below adds to it is not
//! the shim's.
//!
//! It takes root, `runc` and a static `busybox`.

mod middle;
mod resident;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use shim_plugins::protobuf::Message as _;
use shim_plugins::protos::api::{ConnectRequest, ShutdownRequest};
use shim_plugins::protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use shim_plugins::protos::shim_async::TaskClient;
use shim_plugins::ttrpc::asynchronous::Client;
use shim_plugins::ttrpc::asynchronous::transport::Socket;
use shim_plugins::ttrpc::context;
use tempfile::TempDir;

use self::middle::median;

const NAMESPACE: &str = "bench";
const ROUNDS: usize = 15;
/// The program that sleeps in the containers. It must be static.
const BUSYBOX: &str = "/bin/busybox";
const LIMIT: Duration = Duration::from_secs(10);
/// The time after which the work of a start is certainly over.
const REST: Duration = Duration::from_millis(300);

/// The bars: the largest ratios to Go's values.
const BARS: [f64; 3] = [0.5, 0.15, 0.25];
const NAMES: [&str; 3] = ["start to ready", "private memory, idle", "resident memory, idle"];
const UNITS: [&str; 3] = ["ms", "MiB", "MiB"];

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [ours, dir, rest @ ..] = &args[..] else { anyhow::bail!("usage: shim-bench OURS DIR [ROUNDS]") };
    let rounds = match rest {
        [rounds] => rounds.to_string_lossy().parse()?,
        _ => ROUNDS,
    };
    let dir = fs::canonicalize(dir)?;
    let programs = [fs::canonicalize(ours)?, dir.join("containerd-shim-runc-v2")];
    let containerd = Containerd::start(&dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (program, samples) in programs.iter().zip(&mut samples) {
            let ready = runtime.block_on(time_to_ready(program, &containerd))?;
            let [private, resident] = containerd.memory_of(program)?;
            let sample = [ready, private, resident];
            // The first round fills caches.
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    report(&samples, rounds)
}

fn report([ours, gos]: &[Vec<[f64; 3]>; 2], rounds: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "Medians of {rounds} rounds.\n\n| | Go | Rust | ratio | bar | |\n|---|--:|--:|--:|--:|---|")?;
    for index in 0..3 {
        let (go, rust) = (median(gos.iter().map(|of| of[index])), median(ours.iter().map(|of| of[index])));
        let (ratio, bar) = (rust / go, BARS[index]);
        let verdict = if ratio <= bar { "met" } else { "missed" };
        let (name, unit) = (NAMES[index], UNITS[index]);
        writeln!(out, "| {name} | {go:.2} {unit} | {rust:.2} {unit} | {ratio:.2} | {bar} | {verdict} |")?;
    }
    Ok(())
}

/// Returns the milliseconds until the shim is ready.
async fn time_to_ready(program: &Path, containerd: &Containerd) -> Result<f64> {
    let bundle = tempfile::tempdir()?;
    fs::write(bundle.path().join("config.json"), r#"{"ociVersion":"1.0.2","process":{"args":["true"]},"linux":{}}"#)?;
    // As in containerd, the FIFO is opened for both directions before the shim starts.
    let fifo = bundle.path().join("log");
    ensure!(Command::new("mkfifo").arg(&fifo).status()?.success(), "could not make a FIFO");
    let _log = File::options().read(true).write(true).open(&fifo)?;

    let begun = Instant::now();
    let address = start(program, bundle.path(), &containerd.socket())?;
    let task = TaskClient::new(Client::new(Socket::connect(&address).await?));
    let connected = task.connect(context::with_duration(LIMIT), &ConnectRequest::new()).await?;
    let ready = begun.elapsed();

    // Go's shim may end before it has answered. Containerd ignores that, too.
    let shut = task.shutdown(context::with_duration(LIMIT), &ShutdownRequest::new()).await;
    let is_gos = program.starts_with(&containerd.bin);
    ensure!(shut.is_ok() || is_gos, "{} did not answer to Shutdown: {shut:?}", program.display());
    let gone = PathBuf::from(format!("/proc/{}/cwd", connected.shim_pid));
    until("the shim ends", || Ok(fs::read_link(&gone).is_err()))?;
    Ok(ready.as_secs_f64() * 1e3)
}

/// Waits until a condition holds.
fn until(what: &str, mut is_true: impl FnMut() -> Result<bool>) -> Result<()> {
    let over = Instant::now() + LIMIT;
    while !is_true()? {
        ensure!(Instant::now() < over, "waited for too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A containerd for the measurement. Dropping it kills the process.
struct Containerd {
    bin: PathBuf,
    dir: TempDir,
    child: Child,
}

impl Containerd {
    fn start(bin: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let rootfs = dir.path().join("rootfs/bin");
        fs::create_dir_all(&rootfs)?;
        fs::copy(BUSYBOX, rootfs.join("sleep")).with_context(|| format!("could not copy {BUSYBOX}"))?;
        let config = format!(
            "version = 2\nroot = \"{0}/root\"\nstate = \"{0}/state\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.internal.v1.opt\"]\n\
             [grpc]\naddress = \"{0}/c.sock\"\n",
            dir.path().display()
        );
        let file = dir.path().join("config.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(bin.join("containerd"));
        command.arg("-c").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("could not run {}", bin.display()))?;
        let containerd = Self { bin: bin.to_owned(), dir, child };
        until("containerd starts", || Ok(containerd.ctr(&["version"])?.success()))?;
        Ok(containerd)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("c.sock")
    }

    fn ctr(&self, args: &[&str]) -> Result<ExitStatus> {
        let mut command = Command::new(self.bin.join("ctr"));
        command.arg("-a").arg(self.socket()).args(["-n", NAMESPACE]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?)
    }

    /// Returns the memory of a shim whose container sleeps.
    fn memory_of(&self, program: &Path) -> Result<[f64; 2]> {
        let id = format!("bench-{}", std::process::id());
        let (program, rootfs) = (program.display().to_string(), self.dir.path().join("rootfs").display().to_string());
        let run = ["run", "-d", "--runtime", &program, "--rootfs", &rootfs, &id, "/bin/sleep", "1000"];
        ensure!(self.ctr(&run)?.success(), "containerd could not run a container with {program}");
        std::thread::sleep(REST);
        let memory = resident::memory(shim_of(&id)?)?;
        ensure!(self.ctr(&["task", "kill", "-s", "KILL", &id])?.success(), "could not kill the container");
        // `task rm` reports the exit code of a killed container as an error.
        until("the container can be removed", || {
            self.ctr(&["task", "rm", &id])?;
            Ok(self.ctr(&["container", "rm", &id])?.success())
        })?;
        Ok(memory)
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the process of the shim of a container.
fn shim_of(id: &str) -> Result<u32> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        if words.windows(2).any(|pair| pair == [&b"-id"[..], id.as_bytes()]) {
            return Ok(pid);
        }
    }
    anyhow::bail!("there is no shim of {id}")
}

fn start(program: &Path, bundle: &Path, containerd: &Path) -> Result<String> {
    let id = bundle.file_name().and_then(OsStr::to_str).context("a bundle has a name")?;
    let mut params = BootstrapParams::new();
    id.clone_into(&mut params.instance_id);
    NAMESPACE.clone_into(&mut params.namespace);
    params.containerd_grpc_address = containerd.display().to_string();
    params.containerd_ttrpc_address = format!("{}.ttrpc", containerd.display());
    params.socket_dir = Some(bundle.join("sockets").display().to_string());
    let mut child = Command::new(program)
        .args(["-namespace", NAMESPACE, "-id", id, "-address"])
        .arg(containerd)
        .arg("start")
        .env("TTRPC_ADDRESS", &params.containerd_ttrpc_address)
        .env("MAX_SHIM_VERSION", "2")
        .current_dir(bundle)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not run {}", program.display()))?;
    child.stdin.take().context("its input is a pipe")?.write_all(&params.write_to_bytes()?)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
    Ok(BootstrapResult::parse_from_bytes(&output.stdout)?.address)
}
