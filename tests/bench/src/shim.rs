//! What a shim costs before it has a container: ours, `hello_shim`, beside Go's for runc, in one interleaved run.
//!
//! `shim-bench OURS GOS [ROUNDS]` runs both by turns, as containerd 2.4 does: it calls `start` in a bundle, connects to the address in
//! the answer, and calls Connect. The time is from the beginning to the answer of Connect, since Go's `start` returns before
//! its server is ready. Then the shim is left alone for a moment, and its memory is read.

mod middle;
mod resident;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use shim_plugins::protobuf::Message as _;
use shim_plugins::protos::api::{ConnectRequest, ShutdownRequest};
use shim_plugins::protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use shim_plugins::protos::shim_async::TaskClient;
use shim_plugins::ttrpc::asynchronous::Client;
use shim_plugins::ttrpc::asynchronous::transport::Socket;
use shim_plugins::ttrpc::context;

const NAMESPACE: &str = "bench";
const ROUNDS: usize = 15;
const LIMIT: Duration = Duration::from_secs(10);
/// After so long nothing of the start goes on any more.
const REST: Duration = Duration::from_millis(300);

/// The bars: at most so much of Go's.
const BARS: [f64; 3] = [0.5, 0.15, 0.25];
const NAMES: [&str; 3] = ["start to ready", "private memory, idle", "resident memory, idle"];
const UNITS: [&str; 3] = ["ms", "MiB", "MiB"];

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [ours, gos, rest @ ..] = &args[..] else { anyhow::bail!("usage: shim-bench OURS GOS [ROUNDS]") };
    let rounds = match rest {
        [rounds] => rounds.to_string_lossy().parse()?,
        _ => ROUNDS,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (program, samples) in [ours, gos].into_iter().zip(&mut samples) {
            let sample = runtime.block_on(measure(&fs::canonicalize(program)?))?;
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
        let median = |samples: &[[f64; 3]]| middle::median(samples.iter().map(|sample| sample[index]));
        let (go, rust) = (median(gos), median(ours));
        let (ratio, bar) = (rust / go, BARS[index]);
        let verdict = if ratio <= bar { "met" } else { "missed" };
        let (name, unit) = (NAMES[index], UNITS[index]);
        writeln!(out, "| {name} | {go:.2} {unit} | {rust:.2} {unit} | {ratio:.2} | {bar} | {verdict} |")?;
    }
    Ok(())
}

/// Milliseconds until it is ready; private and resident memory in MiB.
async fn measure(program: &Path) -> Result<[f64; 3]> {
    let bundle = tempfile::tempdir()?;
    fs::write(bundle.path().join("config.json"), r#"{"ociVersion":"1.0.2","process":{"args":["true"]},"linux":{}}"#)?;
    // As containerd does, it is opened for both directions before the shim is.
    let fifo = bundle.path().join("log");
    ensure!(Command::new("mkfifo").arg(&fifo).status()?.success(), "could not make a FIFO");
    let _log = File::options().read(true).write(true).open(&fifo)?;

    let begun = Instant::now();
    let address = start(program, bundle.path())?;
    let task = TaskClient::new(Client::new(Socket::connect(&address).await?));
    let connected = task.connect(context::with_duration(LIMIT), &ConnectRequest::new()).await?;
    let ready = begun.elapsed();

    tokio::time::sleep(REST).await;
    let [private, resident] = resident::memory(connected.shim_pid)?;
    task.shutdown(context::with_duration(LIMIT), &ShutdownRequest::new()).await?;
    let gone = PathBuf::from(format!("/proc/{}/cwd", connected.shim_pid));
    let over = Instant::now() + LIMIT;
    while fs::read_link(&gone).is_ok() {
        ensure!(Instant::now() < over, "{} does not end", program.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok([ready.as_secs_f64() * 1e3, private, resident])
}

fn start(program: &Path, bundle: &Path) -> Result<String> {
    let containerd = bundle.join("c.sock");
    let id = bundle.file_name().and_then(OsStr::to_str).context("a bundle has a name")?;
    let mut params = BootstrapParams::new();
    id.clone_into(&mut params.instance_id);
    NAMESPACE.clone_into(&mut params.namespace);
    params.containerd_grpc_address = containerd.display().to_string();
    params.containerd_ttrpc_address = format!("{}.ttrpc", containerd.display());
    params.socket_dir = Some(bundle.join("sockets").display().to_string());
    let mut child = Command::new(program)
        .args(["-namespace", NAMESPACE, "-id", id, "-address"])
        .arg(&containerd)
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
