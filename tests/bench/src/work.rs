//! Runs the jobs of a runtime. Go's side does the same in `measure.go`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use nri_adaptation::merge::MergedCreate;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Notice};
use nri_proto::api::StartContainerRequest;
use nri_proto::{Container, Pod};
use tokio::task::JoinHandle;

use crate::id::id;
use crate::job::{Job, Op};
use crate::sample::{Outcome, Sample, cpu_used, microseconds};

/// How long the callers that create containers run before the measurement begins.
const HEAD_START: Duration = Duration::from_millis(300);

/// Creates requests for containers and pods that differ only in their ids.
#[derive(Clone)]
pub(crate) struct Requests {
    pod: Pod,
    container: Container,
    serial: Arc<AtomicUsize>,
}

type Request = (Pod, Container);

impl Requests {
    pub(crate) fn new(request: StartContainerRequest) -> Self {
        let StartContainerRequest { pod, container, special_fields: _ } = request;
        let (pod, container) = (pod.unwrap_or_default().into(), container.unwrap_or_default().into());
        Self { pod, container, serial: Arc::default() }
    }

    /// Creates a request for a container in this pod.
    fn prepare(&self, pod: usize) -> Request {
        let (mut of_pod, mut container) = (self.pod.clone(), self.container.clone());
        of_pod.id = id(0x9d, pod);
        container.pod_id.clone_from(&of_pod.id);
        container.id = id(0xc7, self.serial.fetch_add(1, Ordering::Relaxed));
        (of_pod, container)
    }

    /// Creates `n` requests, and divides them among the callers.
    fn share(&self, n: usize, callers: usize) -> Vec<Vec<Request>> {
        let of = |caller| (caller..n).step_by(callers).map(|_| self.prepare(caller)).collect();
        (0..callers).map(of).collect()
    }

    /// Returns a snapshot of `n` containers, two in each pod.
    pub(crate) fn snapshot(&self, n: usize) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for serial in 0..n {
            let (pod, container) = self.prepare(serial / 2);
            snapshot.containers.push(container);
            if serial % 2 == 0 {
                snapshot.pods.push(pod);
            }
        }
        snapshot
    }
}

/// Runs a job, each caller in a task of its own.
pub(crate) async fn work(nri: &Arc<Adaptation>, requests: &Requests, job: Job) -> Result<Outcome> {
    let Job { op, n, chunk, callers, beside } = job;
    let others = Others::begin(nri, requests, callers, beside).await;
    let (mut took, mut cpu, mut wall, mut env) = (Vec::with_capacity(n), Duration::ZERO, Duration::ZERO, 0);
    while took.len() < n {
        let shares = requests.share(chunk.min(n - took.len()), callers);
        let (before, start) = (cpu_used()?, Instant::now());
        let tasks = shares.into_iter().map(|share| tokio::spawn(relay(Arc::clone(nri), op, share)));
        let done = try_join_all(tasks).await?;
        wall += start.elapsed();
        cpu += cpu_used()? - before;
        for done in done {
            let (times, variables) = done?;
            took.extend(times);
            env = variables;
        }
    }
    let beside = others.end().await?;
    Ok(Outcome { sample: Sample::new(took, cpu)?, wall_us: microseconds(wall), beside, env })
}

/// Runs one caller. Returns how long each request took, and how many variables the plugins set in
/// the last one. A result is dropped by the caller after its time was taken.
async fn relay(nri: Arc<Adaptation>, op: Op, requests: Vec<Request>) -> Result<(Vec<Duration>, usize)> {
    let (mut took, mut env) = (Vec::with_capacity(requests.len()), 0);
    for request in requests {
        let start = Instant::now();
        let created = call(&nri, op, request).await?;
        took.push(start.elapsed());
        env = created.map_or(0, |created| created.adjustment.env.len());
    }
    Ok((took, env))
}

async fn call(nri: &Adaptation, op: Op, (pod, container): Request) -> Result<Option<MergedCreate>> {
    let operation = nri.begin(pod);
    let created = match op {
        Op::Start => {
            operation.notify(Notice::Start(container)).await?;
            None
        }
        Op::Create => Some(operation.create_container(container).await?),
    };
    operation.commit();
    Ok(created)
}

/// Callers that create containers until they are stopped.
struct Others {
    done: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Result<usize>>>,
}

impl Others {
    async fn begin(nri: &Arc<Adaptation>, requests: &Requests, first_pod: usize, n: usize) -> Self {
        let done = Arc::new(AtomicBool::default());
        let caller = |pod| {
            let (done, nri, requests) = (Arc::clone(&done), Arc::clone(nri), requests.clone());
            tokio::spawn(async move {
                let mut created = 0;
                while !done.load(Ordering::Relaxed) {
                    call(&nri, Op::Create, requests.prepare(pod)).await?;
                    created += 1;
                }
                Ok(created)
            })
        };
        let callers = (first_pod..first_pod + n).map(caller).collect();
        if n > 0 {
            tokio::time::sleep(HEAD_START).await;
        }
        Self { done, callers }
    }

    /// Stops the callers, and returns how many containers they created.
    async fn end(self) -> Result<usize> {
        self.done.store(true, Ordering::Relaxed);
        try_join_all(self.callers).await?.into_iter().sum()
    }
}
