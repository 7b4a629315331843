//! Our runtime side as a process that is driven from outside: one JSON object per line on standard input, one answer
//! per line on standard output, in order. Tests and benchmarks drive it as they drive the same program on Go's adaptation.
//!
//! Not yet: `generate`, `metrics`, `builtin`, `default_validator`, launched plugins; they come with what they show.

mod clock;
mod lines;
mod merge;
mod node;
mod payload;
mod protocol;
mod relay;
mod run;
mod stats;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nri_adaptation::{Adaptation, Config, Happening};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::monotonic_ns;
use crate::lines::Lines;
use crate::node::{Node, State};
use crate::payload::Payload;
use crate::protocol::{Call, Event, Hello, Outcome, Plugin, Request, Response, Wait};
use crate::run::{Bench, Serial};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    let driver = Driver::default();
    let (sender, mut commands) = mpsc::unbounded_channel();
    tokio::spawn(read(driver.lines.clone(), driver.calls.clone(), sender));
    let mut driver = driver;
    while let Some(request) = commands.recv().await {
        let mut response = Response { id: request.id, ..Response::default() };
        response.outcome = match driver.handle(&request, &mut response).await {
            Ok(None) => Outcome { ok: true, ..Outcome::default() },
            Ok(Some(outcome)) => outcome,
            Err(error) => Outcome { ok: false, error: format!("{error:#}"), error_code: "" },
        };
        driver.lines.write(&response);
        if request.cmd == "quit" {
            break;
        }
    }
    // Standard input may still be read by a thread that cannot be stopped.
    std::process::exit(0);
}

/// Calls under way, by tag.
type Calls = Arc<Mutex<HashMap<String, CancellationToken>>>;

/// Takes lines from standard input. Answers to events, and cancellations, take effect at once.
async fn read(lines: Lines, calls: Calls, commands: mpsc::UnboundedSender<Request>) {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    while let Ok(1..) = input.read_until(b'\n', &mut line).await {
        match serde_json::from_slice::<Request>(&line) {
            Ok(request) if matches!(request.cmd.as_str(), "update_reply" | "sync_reply") => lines.answer(request),
            Ok(request) if request.cmd == "cancel" => {
                let call = lock(&calls).remove(&request.tag);
                if let Some(call) = &call {
                    call.cancel();
                }
                let outcome = Outcome { ok: call.is_some(), ..Outcome::default() };
                lines.write(&Response { id: request.id, outcome, ..Response::default() });
            }
            Ok(request) => {
                // The commands are taken until the process ends.
                let _ = commands.send(request);
            }
            Err(error) => {
                let outcome = Outcome { ok: false, error: error.to_string(), error_code: "" };
                lines.write(&Response { outcome, ..Response::default() });
            }
        }
        line.clear();
    }
}

#[derive(Default)]
struct Driver {
    lines: Lines,
    calls: Calls,
    state: Arc<Mutex<State>>,
    serial: Serial,
    running: Option<Running>,
}

struct Running {
    nri: Arc<Adaptation>,
    payload: Option<Arc<Payload>>,
    callbacks: bool,
    joined: Arc<Mutex<Vec<(usize, i64)>>>,
}

impl Driver {
    /// Executes a command. What it answers with is put into `response`.
    async fn handle(&mut self, request: &Request, response: &mut Response) -> Result<Option<Outcome>> {
        match request.cmd.as_str() {
            "hello" => {
                let version = env!("CARGO_PKG_VERSION");
                let pid = std::process::id();
                response.hello = Some(Hello { implementation: "nri-rs", version, pid, protocol: 2 });
            }
            "start" => self.start(request)?,
            "set_state" => {
                let payload = self.running()?.payload.clone().context("started without payloads")?;
                lock(&self.state).snapshot = payload.snapshot(request);
            }
            "set_objects" => lock(&self.state).snapshot = node::decode(&request.objects)?,
            "wait_plugins" => response.wait = Some(self.wait(request).await?),
            "syncs" => response.syncs = Some(std::mem::take(&mut lock(&self.state).syncs)),
            "run" => response.run = Some(self.bench()?.run(request).await?),
            "stats" => {
                let plugins = self.running.as_ref().map_or(0, |running| running.nri.plugins().len());
                response.stats = Some(stats::stats(plugins));
            }
            "call" => return self.call(request, response).await,
            "call_async" => self.call_async(request)?,
            "block_sync" => self.running()?.nri.settled().await,
            "unblock_sync" | "gc" => {}
            "merge" => response.merge = Some(merge::merge(request)?),
            "plugins" => response.plugins = Some(self.plugins()?),
            "stop" => self.stop().await,
            "quit" => self.stop().await,
            other => bail!("unknown command {other:?}"),
        }
        Ok(None)
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().context("not started")
    }

    fn start(&mut self, request: &Request) -> Result<()> {
        ensure!(self.running.is_none(), "already started");
        ensure!(request.builtin == 0, "there are no built-in plugins in this driver yet");
        let payload = match request.payloads.as_str() {
            "" => None,
            directory => Some(Arc::new(Payload::load(directory)?)),
        };
        let node = Node::new(self.lines.clone(), request, Arc::clone(&self.state));
        let nri = Arc::new(Adaptation::new(config(request)?, Arc::new(node)));
        let joined = Arc::default();
        tokio::spawn(watch(
            nri.watch_plugins(),
            Arc::clone(&nri),
            self.lines.clone(),
            request.callbacks,
            Arc::clone(&joined),
        ));
        nri.listen()?;
        self.running = Some(Running { nri, payload, callbacks: request.callbacks, joined });
        Ok(())
    }

    async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.nri.stop().await;
        }
    }

    fn bench(&self) -> Result<Bench> {
        let running = self.running()?;
        let payload = running.payload.clone().context("started without payloads")?;
        Ok(Bench { nri: Arc::clone(&running.nri), payload, serial: self.serial.clone() })
    }

    async fn wait(&self, request: &Request) -> Result<Wait> {
        let running = self.running()?;
        let deadline = Instant::now() + Duration::from_millis(request.timeout_ms);
        loop {
            let count = running.nri.plugins().len();
            if count >= request.n {
                let reached = lock(&running.joined).iter().find(|(count, _)| *count >= request.n).map(|(_, at)| *at);
                return Ok(Wait { n: count, t_ns: reached.unwrap_or_else(monotonic_ns) });
            }
            ensure!(Instant::now() < deadline, "{count} of {} plugins after {} ms", request.n, request.timeout_ms);
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    async fn call(&self, request: &Request, response: &mut Response) -> Result<Option<Outcome>> {
        let nri = Arc::clone(&self.running()?.nri);
        let (pod, act) = relay::read(&request.op, &request.request_b64).context("request")?;
        match relay::relay(&nri, pod, act, deadline(request)).await {
            Ok(answer) => response.call = Some(Call { response_b64: answer.encode() }),
            Err(error) => return Ok(Some(relay::outcome(&error))),
        }
        Ok(None)
    }

    fn call_async(&self, request: &Request) -> Result<()> {
        let nri = Arc::clone(&self.running()?.nri);
        let (pod, act) = relay::read(&request.op, &request.request_b64).context("request")?;
        let cancel = CancellationToken::new();
        {
            let mut calls = lock(&self.calls);
            ensure!(!calls.contains_key(&request.tag), "tag {:?} is in use", request.tag);
            calls.insert(request.tag.clone(), cancel.clone());
        }
        let (lines, calls, tag, deadline) =
            (self.lines.clone(), Arc::clone(&self.calls), request.tag.clone(), deadline(request));
        tokio::spawn(async move {
            let relayed = Box::pin(cancel.run_until_cancelled(relay::relay(&nri, pod, act, deadline))).await;
            lock(&calls).remove(&tag);
            let (outcome, response_b64) = match relayed {
                Some(Ok(answer)) => (Outcome { ok: true, ..Outcome::default() }, answer.encode()),
                Some(Err(error)) => (relay::outcome(&error), Default::default()),
                None => {
                    let error = "canceled by the caller".to_owned();
                    (Outcome { ok: false, error, error_code: "canceled" }, Default::default())
                }
            };
            lines.write(&Event::Done { tag, outcome, response_b64 });
        });
        Ok(())
    }

    fn plugins(&self) -> Result<Vec<Plugin>> {
        let running = self.running()?;
        ensure!(running.callbacks, "started without callbacks");
        let plugin = |status: nri_adaptation::PluginStatus| Plugin {
            name: status.id.name().to_owned(),
            index: status.id.index().to_string(),
            events: status.events.to_wire().unwrap_or(0),
            state: status.state.to_string(),
        };
        Ok(running.nri.plugins().into_iter().map(plugin).collect())
    }
}

fn config(request: &Request) -> Result<Config> {
    let mut config = Config::from_toml(&request.policy).context("policy")?;
    config.socket = (!request.socket.is_empty() && !request.disable_connections).then(|| request.socket.clone().into());
    let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text.to_owned() };
    config.runtime_name = or(&request.name, "nri-driver");
    config.runtime_version = or(&request.version, "v0.0.0");
    if !request.nri_version.is_empty() {
        config.nri_version.clone_from(&request.nri_version);
    }
    if request.request_timeout_ms > 0 {
        config.policies.defaults.request_timeout = Some(Duration::from_millis(request.request_timeout_ms));
    }
    if request.registration_timeout_ms > 0 {
        config.registration_timeout = Duration::from_millis(request.registration_timeout_ms);
    }
    if let Some(strikes) = std::num::NonZeroU32::new(request.strikes) {
        config.policies.defaults.strikes = Some(strikes);
    }
    Ok(config)
}

fn deadline(request: &Request) -> Option<Instant> {
    (request.timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(request.timeout_ms))
}

/// Notes when plugins join, and tells the controller if it wants to know.
async fn watch(
    mut happenings: tokio::sync::broadcast::Receiver<Happening>,
    nri: Arc<Adaptation>,
    lines: Lines,
    callbacks: bool,
    joined: Arc<Mutex<Vec<(usize, i64)>>>,
) {
    // A watcher must not keep alive what it watches.
    let nri = Arc::downgrade(&nri);
    loop {
        let happening = match happenings.recv().await {
            Ok(happening) => happening,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let (plugin, state, reason) = match happening {
            Happening::Joined { plugin, .. } => {
                let Some(nri) = nri.upgrade() else { return };
                lock(&joined).push((nri.plugins().len(), monotonic_ns()));
                (plugin, "active".to_owned(), String::new())
            }
            Happening::State { plugin, state } => (plugin, state.to_string(), String::new()),
            Happening::Closed { plugin, reason } => (plugin, "closed".to_owned(), reason),
            Happening::Asked { .. } | Happening::Late { .. } => continue,
        };
        if callbacks {
            lines.write(&Event::Plugin { plugin: plugin.to_string(), state, reason });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
