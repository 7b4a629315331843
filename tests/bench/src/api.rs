//! Measures what `nri-api` costs in addition to the adaptation.
//!
//! `api-bench PLUGIN [--write FILE]` counts with valgrind how many instructions a StartContainer
//! takes that is relayed to one plugin, on the adaptation alone and through `nri-api`: no clock is
//! asked, so a busy machine does no harm. It also times the snapshot of many containers beside
//! encoding it. `api-bench relay` is the process that is counted.

mod id;
mod middle;
mod page;
mod payload;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use mimalloc::MiMalloc;
use nri_adaptation::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use nri_adaptation::request::Request;
use nri_adaptation::snapshot::{MAX_CHUNK, Snapshot};
use nri_adaptation::{Adaptation, Notice, Source, UpdatesFailed};
use nri_api::{Config, Domain, DomainError, Inventory, KnownPod, Nri, PodState};
use nri_proto::event::WireEvents;
use nri_proto::{Container, ContainerState, Event, Eviction, FailurePolicy, PluginId, Pod, Update};
use tokio::runtime::Builder;

use self::id::id;

/// The allocator that our programs use.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: api-bench PLUGIN [--write FILE]";

/// The two numbers of notices for which instructions are counted. The cost of the start and the end
/// is the same for both, and is subtracted.
const FEW: usize = 200;
const MANY: usize = 2200;

/// How many containers the snapshot has, in pods of this many.
const CONTAINERS: usize = 10_000;
const PER_POD: usize = 4;
const ROUNDS: usize = 15;

/// The bars: the largest ratio to the adaptation's instructions, and to the time of encoding.
const NOTICE: f64 = 1.10;
const SNAPSHOT: f64 = 1.0;

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        ["relay", layer, plugin, count] => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(Box::pin(relay(layer, Path::new(plugin), count.parse()?)))?;
            Ok(ExitCode::SUCCESS)
        }
        [plugin] => compare(plugin, None),
        [plugin, "--write", file] => compare(plugin, Some(Path::new(file))),
        _ => bail!(USAGE),
    }
}

fn compare(plugin: &str, write: Option<&Path>) -> Result<ExitCode> {
    let alone = per_notice("adaptation", plugin)?;
    let through = per_notice("api", plugin)?;
    let (taken, encoded) = Builder::new_current_thread().enable_all().build()?.block_on(Box::pin(snapshots()))?;
    let (notice, snapshot) = (through / alone, taken / encoded);
    let met = |ratio: f64, bar: f64| if ratio <= bar { "met" } else { "missed" };
    let table = format!(
        "| what | compared with | | ratio | bar | |\n|---|---|---|--:|--:|---|\n\
         | StartContainer through nri-api: {through:.0} instructions | through the adaptation alone | {alone:.0} instructions | {notice:.3} | ≤ {NOTICE:.2} | {} |\n\
         | snapshot of {CONTAINERS} containers: {taken:.2} ms | encoding it | {encoded:.2} ms | {snapshot:.2} | ≤ {SNAPSHOT:.2} | {} |\n",
        met(notice, NOTICE),
        met(snapshot, SNAPSHOT),
    );
    page::say(&table)?;
    page::write(write, "api-bench", &format!("{}\n\n{table}", page::circumstances()?))?;
    Ok(if notice <= NOTICE && snapshot <= SNAPSHOT { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the number of instructions of one more notice.
fn per_notice(layer: &str, plugin: &str) -> Result<f64> {
    let (few, many) = (instructions(layer, plugin, FEW)?, instructions(layer, plugin, MANY)?);
    Ok(many.checked_sub(few).context("more notices took fewer instructions")? as f64 / (MANY - FEW) as f64)
}

/// Returns the number of instructions of a whole process that relays `count` notices. Its plugin is
/// a process of its own, which is not counted.
fn instructions(layer: &str, plugin: &str, count: usize) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["relay", layer, plugin, &count.to_string()])
        .output()
        .context("could not run valgrind: `scripts/setup count` installs it")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    collected.filter(|_| output.status.success()).with_context(|| format!("valgrind counted nothing:\n{text}"))
}

/// Relays notices, as the process whose instructions are counted.
async fn relay(layer: &str, plugin: &Path, count: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("nri.sock");
    let config = Config { socket: Some(socket.clone()), plugin_path: None, ..Config::default() };
    let node = Arc::new(Node::new(0));
    let (pod, container) = (pod(0), container(0, ContainerState::Created));
    match layer {
        "adaptation" => {
            let nri = Adaptation::new(config, node);
            nri.listen()?;
            let _plugin = Child::start(plugin, &socket)?;
            until(|| !nri.plugins().is_empty()).await;
            for _ in 0..count {
                let operation = nri.begin(pod.clone());
                operation.notify(Notice::Start(container.clone())).await?;
                operation.commit();
            }
            nri.stop().await;
        }
        "api" => {
            let nri = Nri::new(config);
            let handle = nri.register("k8s.io", node)?;
            nri.start().await?;
            let _plugin = Child::start(plugin, &socket)?;
            until(|| !nri.plugins().is_empty()).await;
            for _ in 0..count {
                handle.start_container(pod.clone(), container.clone()).await?.commit();
            }
            nri.stop().await;
        }
        _ => bail!(USAGE),
    }
    Ok(())
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The process of the plugin. Dropping it kills the process.
struct Child(std::process::Child);

impl Child {
    fn start(program: &Path, socket: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("-socket").arg(socket).args(["-index", "10", "-events", "StartContainer"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("could not run {}", program.display()))?))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The plugin may have ended by itself.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Returns how long it takes, in milliseconds, to get a snapshot of many containers, and to encode
/// it.
async fn snapshots() -> Result<(f64, f64)> {
    let node = Arc::new(Node::new(CONTAINERS));
    let nri = Nri::new(Config { socket: None, plugin_path: None, ..Config::default() });
    let _handle = nri.register("k8s.io", node)?;
    nri.start().await?;
    let (mut taken, mut encoded) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let clock = Arc::new(Clock::default());
        let id: PluginId = format!("{round:02}-clock").parse()?;
        nri.admit(id, Arc::clone(&clock) as Arc<dyn Plugin>).await?;
        let times = clock.0.lock().unwrap_or_else(PoisonError::into_inner).take().context("it was not synchronized")?;
        // The first round fills caches.
        if round > 0 {
            taken.push(times.0.as_secs_f64() * 1e3);
            encoded.push(times.1.as_secs_f64() * 1e3);
        }
    }
    nri.stop().await;
    Ok((middle::median(taken), middle::median(encoded)))
}

/// A plugin that measures the time from its configuration to its snapshot, and the time of encoding
/// the snapshot.
#[derive(Default)]
struct Clock(Mutex<Option<(Duration, Duration)>>, Mutex<Option<Instant>>);

#[async_trait]
impl Plugin for Clock {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let events = WireEvents { known: [Event::StartContainer].into_iter().collect(), unknown: 0 };
        Ok(Subscription { events, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        let begun = self.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        let taken = begun.map(|begun| begun.elapsed()).unwrap_or_default();
        let begun = Instant::now();
        let bytes: usize = snapshot.chunks(MAX_CHUNK).map(|chunk| chunk.bytes.len()).sum();
        let encoded = begun.elapsed();
        if bytes < CONTAINERS {
            return Err(PluginError::refused("there are too few containers"));
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((taken, encoded));
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, _: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        Ok(Reply::Heard)
    }
}

/// A runtime with many running containers.
struct Node(Snapshot);

impl Node {
    fn new(containers: usize) -> Self {
        let pods = (0..containers.div_ceil(PER_POD)).map(pod).collect();
        let containers = (0..containers).map(|number| container(number, ContainerState::Running)).collect();
        Self(Snapshot { pods, containers })
    }
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        self.0.clone()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Domain for Node {
    async fn inventory(&self) -> Inventory {
        let Snapshot { pods, containers } = self.0.clone();
        let pods = pods.into_iter().map(|pod| KnownPod { pod, state: PodState::Running });
        Inventory { pods: pods.collect(), containers }
    }

    async fn update(&self, _: Update) -> Result<(), DomainError> {
        Ok(())
    }

    async fn evict(&self, _: Eviction) -> Result<(), DomainError> {
        Ok(())
    }
}

fn pod(number: usize) -> Pod {
    Pod { id: id(0x9d, number), ..payload::request().pod.unwrap_or_default().into() }
}

fn container(number: usize, state: ContainerState) -> Container {
    Container {
        id: id(0xc7, number),
        pod_id: id(0x9d, number / PER_POD),
        state,
        ..payload::request().container.unwrap_or_default().into()
    }
}
