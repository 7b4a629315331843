//! Our runtime side as a process that is driven from outside: one JSON object per line on standard
//! input, one answer per line on standard output, in order. Tests and benchmarks drive it as they
//! drive the same program on Go's adaptation.
//!
//! The driver writes no profiles itself. Use a profiler from outside.

mod api;
mod builtin;
mod calls;
mod clock;
mod generate;
mod layer;
mod lines;
mod merge;
mod metrics;
mod micro;
mod node;
mod payload;
mod protocol;
mod relay;
mod run;
mod sorted;
mod start;
mod stats;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::calls::Calls;
use crate::lines::Lines;
use crate::metrics::Counts;
use crate::node::{State, Syncs};
use crate::payload::Payload;
use crate::protocol::{Call, Event, Hello, Outcome, Request, Response, Wait};
use crate::run::{Bench, Serial};
use crate::start::Running;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// One thread is enough: it waits for plugins most of the time, and each further thread has a heap
// and a stack.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut driver = Driver::default();
    let (sender, mut commands) = mpsc::unbounded_channel();
    tokio::spawn(read(driver.lines.clone(), driver.calls.clone(), sender));
    while let Some(request) = commands.recv().await {
        let mut response = Response { id: request.id, ..Response::default() };
        response.outcome = match driver.handle(&request, &mut response).await {
            Ok(()) => Outcome { ok: true, ..Outcome::default() },
            Err(outcome) => outcome,
        };
        // Events from before the answer are written before it.
        if let Some(running) = &driver.running {
            running.told().await;
        }
        driver.lines.write(&response);
        if request.cmd == "quit" {
            break;
        }
    }
    // Standard input may still be read by a thread that cannot be stopped.
    std::process::exit(0);
}

/// Takes lines from standard input. Answers to events, and cancellations, take effect at once.
async fn read(lines: Lines, calls: Calls, commands: mpsc::UnboundedSender<Request>) {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    while let Ok(1..) = input.read_until(b'\n', &mut line).await {
        match Request::read(&line) {
            Ok(request) if matches!(request.cmd.as_str(), "update_reply" | "sync_reply") => lines.answer(request),
            Ok(request) if request.cmd == "cancel" => {
                let outcome = Outcome { ok: calls.cancel(&request.tag), ..Outcome::default() };
                lines.write(&Response { id: request.id, outcome, ..Response::default() });
            }
            Ok(request) => {
                // The commands are taken until the process ends.
                let _ = commands.send(request);
            }
            Err((id, error)) => {
                let outcome = Outcome { ok: false, error: error.to_string(), error_code: "" };
                lines.write(&Response { id, outcome, ..Response::default() });
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
    syncs: Arc<Syncs>,
    serial: Serial,
    payload: Option<Arc<Payload>>,
    running: Option<Running>,
    /// The counts of the last start, which stay readable after its end.
    counts: Option<Arc<Counts>>,
}

impl Driver {
    /// Executes a command, and writes the answer into `response`.
    async fn handle(&mut self, request: &Request, response: &mut Response) -> Result<(), Outcome> {
        match request.cmd.as_str() {
            "call" => self.call(request, response).await,
            "merge" => caught(|| merge::merge(request)).map(|merge| response.merge = Some(merge)),
            "generate" => caught(|| generate::generate(request)).map(|spec| response.generate = Some(spec)),
            _ => self.obey(request, response).await.map_err(|error| relay::failure(&error)),
        }
    }

    async fn obey(&mut self, request: &Request, response: &mut Response) -> Result<()> {
        match request.cmd.as_str() {
            "hello" => {
                let version = env!("CARGO_PKG_VERSION");
                let pid = std::process::id();
                response.hello = Some(Hello { implementation: "nri-rs", version, pid, protocol: 2 });
            }
            "start" => self.start(request).await?,
            "set_state" => {
                let snapshot = self.payload()?.snapshot(request);
                self.set(State { snapshot, failure: None });
            }
            "set_objects" => self.set(State::decode(&request.objects)?),
            "wait_plugins" => self.wait(request, response).await?,
            "syncs" => response.syncs = Some(self.syncs.take()),
            "run" => response.run = Some(self.bench()?.run(request).await?),
            "micro" => response.run = Some(micro::micro(request, &*self.payload()?)?),
            "stats" => {
                let plugins = self.running.as_ref().map_or(0, |running| running.counts.now().0);
                response.stats = Some(stats::stats(plugins));
            }
            "call_async" => self.call_async(request, response)?,
            "block_sync" => self.block().await?,
            "unblock_sync" => self.unblock()?,
            "plugins" => {
                let running = self.running()?;
                ensure!(running.callbacks, "started without callbacks");
                response.plugins = Some(running.watcher.plugins(&running.layer));
            }
            "metrics" => {
                let records = self.counts.as_ref().and_then(|counts| counts.take());
                response.metrics = Some(records.context("started without record_metrics")?);
            }
            // Nothing to do: without a garbage collector, memory is freed at once.
            "gc" => {}
            "profile" => bail!("this driver takes no profiles"),
            "stop" | "quit" => self.stop().await,
            other => bail!("unknown command {other:?}"),
        }
        Ok(())
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().context("not started")
    }

    fn payload(&self) -> Result<Arc<Payload>> {
        self.payload.clone().context("started without payloads")
    }

    fn set(&self, state: State) {
        if let Some(running) = &self.running {
            running.layer.adopt(&state);
        }
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    async fn start(&mut self, request: &Request) -> Result<()> {
        ensure!(self.running.is_none(), "already started");
        self.payload = match request.payloads.as_str() {
            "" => None,
            directory => Some(Arc::new(Payload::load(directory)?)),
        };
        let (state, payload) = (Arc::clone(&self.state), self.payload.as_deref());
        let running = Running::start(request, &self.lines, state, &self.syncs, payload).await?;
        self.counts = Some(Arc::clone(&running.counts));
        self.running = Some(running);
        Ok(())
    }

    async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }

    fn bench(&self) -> Result<Bench> {
        let Running { layer, counts, .. } = self.running()?;
        let (layer, counts) = (Arc::clone(layer), Arc::clone(counts));
        Ok(Bench { layer, payload: self.payload()?, serial: self.serial.clone(), counts })
    }

    async fn wait(&self, request: &Request, response: &mut Response) -> Result<()> {
        let counts = &self.running()?.counts;
        let reached =
            tokio::time::timeout(Duration::from_millis(request.timeout_ms), counts.reach(request.n)).await.is_ok();
        let (n, t_ns) = counts.now();
        response.wait = Some(Wait { n, t_ns });
        ensure!(reached, "timeout: {n} of {} plugins", request.n);
        Ok(())
    }

    /// Waits until no plugin is joining. There is nothing to block, because a joining plugin stops
    /// no request.
    async fn block(&mut self) -> Result<()> {
        let running = self.running.as_mut().context("not started")?;
        running.blocks += 1;
        running.layer.settled().await;
        Ok(())
    }

    fn unblock(&mut self) -> Result<()> {
        let blocks = self.running.as_mut().map(|running| &mut running.blocks).filter(|blocks| **blocks > 0);
        *blocks.context("not blocked")? -= 1;
        Ok(())
    }

    async fn call(&self, request: &Request, response: &mut Response) -> Result<(), Outcome> {
        let Running { layer, counts, .. } = self.running().map_err(|error| relay::failure(&error))?;
        let called = relay::call(layer, &request.op, &request.request_b64, deadline(request)).await;
        counts.requested(layer);
        response.call = Some(Call { response_b64: called? });
        Ok(())
    }

    fn call_async(&self, request: &Request, response: &mut Response) -> Result<()> {
        let token = self.calls.begin(&request.tag)?;
        let (unanswered, answered) = oneshot::channel();
        response.unanswered = Some(unanswered);
        let running = self.running.as_ref().map(|running| (Arc::clone(&running.layer), Arc::clone(&running.counts)));
        let (lines, calls, deadline) = (self.lines.clone(), self.calls.clone(), deadline(request));
        let Request { tag, op, request_b64, .. } = request.clone();
        tokio::spawn(async move {
            let called = match &running {
                Some((layer, _)) => {
                    Box::pin(token.run_until_cancelled(relay::call(layer, &op, &request_b64, deadline))).await
                }
                None => Some(Err(Outcome { error: "not started".to_owned(), ..Outcome::default() })),
            };
            if let Some((layer, counts)) = &running {
                counts.requested(layer);
            }
            let (outcome, response_b64) = match called {
                Some(Ok(response)) => (Outcome { ok: true, ..Outcome::default() }, response),
                Some(Err(outcome)) => (outcome, Default::default()),
                None => {
                    let error = "canceled by the caller".to_owned();
                    (Outcome { ok: false, error, error_code: "canceled" }, Default::default())
                }
            };
            // After a cancellation, another call may use the same tag.
            if !token.is_cancelled() {
                calls.end(&tag);
            }
            // The end of a call is written after its beginning.
            let _ = answered.await;
            lines.write(&Event::Done { tag, outcome, response_b64 });
        });
        Ok(())
    }
}

/// Runs a pure function, and turns a panic into an outcome.
fn caught<T>(act: impl FnOnce() -> Result<T>) -> Result<T, Outcome> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => done.map_err(|error| relay::failure(&error)),
        Err(panic) => Err(relay::panicked(&*panic)),
    }
}

fn deadline(request: &Request) -> Option<Instant> {
    (request.timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(request.timeout_ms))
}
