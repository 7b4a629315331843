//! The benchmark: times many operations of several callers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nri_adaptation::Notice;
use nri_proto::Pod;

use crate::clock::{Used, monotonic_ns};
use crate::layer::Layer;
use crate::metrics::Counts;
use crate::payload::Payload;
use crate::protocol::{ByOp, Latency, Request, Run, Slow};
use crate::relay::{Act, Answer};

/// The number of containers that the process has created.
#[derive(Clone, Default)]
pub(crate) struct Serial(Arc<std::sync::atomic::AtomicUsize>);

impl Serial {
    fn next(&self) -> usize {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1
    }
}

/// A completed operation. There are thousands of them while memory is measured, so the type is
/// small.
struct Done {
    /// Whether the operation is the request's `op2`.
    is_second: bool,
    start: Instant,
    took: Duration,
    remark: Option<Box<Remark>>,
}

/// Facts that only few operations have.
enum Remark {
    Failed(String),
    /// The result, if it is to be shown.
    Answered(Answer),
}

/// The parts that a run needs.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) layer: Arc<Layer>,
    pub(crate) payload: Arc<Payload>,
    pub(crate) serial: Serial,
    pub(crate) counts: Arc<Counts>,
}

impl Bench {
    pub(crate) async fn run(&self, request: &Request) -> Result<Run> {
        let mut request = Request { callers: request.callers.max(1), ..request.clone() };
        if request.mode.is_empty() {
            "empty".clone_into(&mut request.mode);
        }
        if request.warmup > 0 {
            let warmup = Request { n: request.warmup, duration_ms: 0, inline: false, ..request.clone() };
            Box::pin(self.chunks(&warmup, &mut Used::default())).await?;
        }
        let (t0_ns, t0) = (monotonic_ns(), Instant::now());
        let mut used = Used::default();
        let (done, wall) = if request.duration_ms > 0 || request.inline {
            // Checked here, because a caller would end silently if there were no such operation.
            self.prepare(&request, 0)?;
            Box::pin(self.inline(&request, &mut used)).await?
        } else {
            Box::pin(self.chunks(&request, &mut used)).await?
        };
        Ok(summary(&request, done, wall, used, t0, t0_ns))
    }

    /// Prepares requests in chunks, and times only the relaying.
    async fn chunks(&self, request: &Request, used: &mut Used) -> Result<(Vec<Done>, Duration)> {
        let chunk = if request.chunk == 0 { request.n.max(1) } else { request.chunk };
        let (mut done, mut wall) = (Vec::with_capacity(request.n), Duration::ZERO);
        while done.len() < request.n {
            let count = chunk.min(request.n - done.len());
            let made = (0..count).map(|number| self.prepare(request, number % request.callers));
            let queue = Arc::new(Mutex::new(made.collect::<Result<VecDeque<_>>>()?));
            let (before, begun) = (Used::now(), Instant::now());
            let callers = (0..request.callers).map(|_| {
                let (bench, queue, sample) = (self.clone(), Arc::clone(&queue), request.sample);
                async move {
                    let mut done = Vec::new();
                    loop {
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                        let Some((is_second, pod, act)) = next else { return done };
                        done.push(bench.perform(is_second, pod, act, sample).await);
                    }
                }
            });
            let chunk_done = Box::pin(all(callers)).await?;
            wall += begun.elapsed();
            used.add_since(before);
            done.extend(chunk_done);
        }
        Ok((done, wall))
    }

    /// Has each caller prepare each request right before its call, for a time or a number of calls.
    async fn inline(&self, request: &Request, used: &mut Used) -> Result<(Vec<Done>, Duration)> {
        let until = (request.duration_ms > 0).then(|| Instant::now() + Duration::from_millis(request.duration_ms));
        let left = Arc::new(Mutex::new(request.n));
        let (before, begun) = (Used::now(), Instant::now());
        let callers = (0..request.callers).map(|caller| {
            let (bench, request, left) = (self.clone(), request.clone(), Arc::clone(&left));
            async move {
                let mut done = Vec::with_capacity(request.n / request.callers);
                loop {
                    let goes_on = match until {
                        Some(until) => Instant::now() < until,
                        None => {
                            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                            let goes_on = *left > 0;
                            *left = left.saturating_sub(1);
                            goes_on
                        }
                    };
                    let (true, Ok((is_second, pod, act))) = (goes_on, bench.prepare(&request, caller)) else {
                        return done;
                    };
                    done.push(bench.perform(is_second, pod, act, request.sample).await);
                }
            }
        });
        let done = Box::pin(all(callers)).await?;
        used.add_since(before);
        Ok((done, begun.elapsed()))
    }

    fn prepare(&self, request: &Request, caller: usize) -> Result<(bool, Pod, Box<Act>)> {
        let is_second = !request.op2.is_empty() && caller % 2 == 1;
        let op = if is_second { &request.op2 } else { &request.op };
        let pod = self.payload.pod(caller, &request.mode);
        let container = || self.payload.container(self.serial.next(), &pod, &request.payload);
        let act = match op.as_str() {
            "RunPodSandbox" => Act::Notice(Notice::RunPod),
            "StopPodSandbox" => Act::Notice(Notice::StopPod),
            "RemovePodSandbox" => Act::Notice(Notice::RemovePod),
            "CreateContainer" => Act::Create(container()),
            "PostCreateContainer" => Act::Notice(Notice::PostCreate(container())),
            "StartContainer" => Act::Notice(Notice::Start(container())),
            "PostStartContainer" => Act::Notice(Notice::PostStart(container())),
            "UpdateContainer" => Act::Update(container(), Some(self.payload.resources())),
            "PostUpdateContainer" => Act::Notice(Notice::PostUpdate(container())),
            "StopContainer" => Act::Stop(container()),
            "RemoveContainer" => Act::Notice(Notice::Remove(container())),
            _ => bail!("unknown op {op:?}"),
        };
        Ok((is_second, pod, Box::new(act)))
    }

    async fn perform(&self, is_second: bool, pod: Pod, act: Box<Act>, sample: bool) -> Done {
        let start = Instant::now();
        let answer = self.layer.relay(pod, act, None).await;
        let took = start.elapsed();
        self.counts.requested(&self.layer);
        let remark = match answer {
            Ok(answer) => sample.then_some(Remark::Answered(answer)),
            Err(error) => Some(Remark::Failed(error.outcome().error)),
        };
        Done { is_second, start, took, remark: remark.map(Box::new) }
    }
}

/// Runs all callers, each in a task of its own.
async fn all(callers: impl Iterator<Item = impl Future<Output = Vec<Done>> + Send + 'static>) -> Result<Vec<Done>> {
    let tasks: Vec<_> = callers.map(tokio::spawn).collect();
    let mut done = Vec::new();
    for task in tasks {
        let more = task.await?;
        if done.is_empty() {
            done = more;
        } else {
            done.extend(more);
        }
    }
    Ok(done)
}

fn summary(request: &Request, done: Vec<Done>, wall: Duration, used: Used, t0: Instant, t0_ns: i64) -> Run {
    let mut run = Run {
        op: request.op.clone(),
        mode: request.mode.clone(),
        n: done.len(),
        callers: request.callers,
        wall_ns: nanos(wall),
        utime_us: used.user_us,
        stime_us: used.system_us,
        vol_ctxsw: used.voluntary,
        invol_ctxsw: used.involuntary,
        t0_ns,
        ..Run::default()
    };
    let mut by_op: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut all = Vec::with_capacity(done.len());
    let mut last = None;
    for Done { is_second, start, took, remark } in done {
        let error = match remark.map(|remark| *remark) {
            None => None,
            Some(Remark::Failed(error)) => Some(error),
            Some(Remark::Answered(answer)) => {
                if last.as_ref().is_none_or(|(end, _)| *end <= start + took) {
                    last = Some((start + took, answer));
                }
                None
            }
        };
        all.push(nanos(took));
        if !request.op2.is_empty() {
            let op = if is_second { &request.op2 } else { &request.op };
            by_op.entry(op).or_default().push(nanos(took));
        }
        let since = start.saturating_duration_since(t0);
        if request.bin_ms > 0 {
            let bin = usize::try_from((since + took).as_millis() / u128::from(request.bin_ms)).unwrap_or(usize::MAX);
            run.series.resize(run.series.len().max(bin + 1), 0);
            run.series[bin] += 1;
        }
        if request.slow_ms > 0 && took > Duration::from_millis(request.slow_ms) && run.slow.len() < 1000 {
            let error = error.clone().unwrap_or_default();
            run.slow.push(Slow { start_ns: nanos(since), dur_ns: nanos(took), error });
        }
        if let Some(error) = error {
            run.errors += 1;
            *run.error_messages.entry(error).or_default() += 1;
        }
    }
    let count = f64::from(u32::try_from(run.n.max(1)).unwrap_or(u32::MAX));
    run.ops_per_s = count / wall.as_secs_f64().max(1e-9);
    run.cpu_us_per_op = (used.user_us + used.system_us) as f64 / count;
    run.lat_ns = latency(all);
    run.sample_b64 = last.map(|(_, answer)| answer.encode()).unwrap_or_default();
    let by_op = by_op.into_iter().map(|(op, took)| (op.to_owned(), ByOp { n: took.len(), lat_ns: latency(took) }));
    run.by_op = by_op.collect();
    run
}

fn latency(mut took: Vec<u64>) -> Latency {
    took.sort_unstable();
    let Some(last) = took.len().checked_sub(1) else { return Latency::default() };
    let at = |permille: usize| took[last.min(took.len() * permille / 1000)];
    let mean = took.iter().sum::<u64>() / took.len() as u64;
    Latency { min: took[0], p50: at(500), p90: at(900), p99: at(990), p999: at(999), max: took[last], mean }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
