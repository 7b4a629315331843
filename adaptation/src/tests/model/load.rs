//! A runtime that makes requests at an even pace, each about a pod without other requests in
//! flight.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::waits::Call;
use crate::Adaptation;
use crate::tests::fake::pod;
use crate::tests::schedules::{LIFE, Random, step};

/// The interval at which the operations that stayed open end together.
const TICK: Duration = Duration::from_secs(3);

/// The steps in the life of a pod whose requests plugins can veto.
const GATES: [usize; 3] = [0, 1, 3];

/// A runtime that makes requests at an even pace.
pub(super) struct Load {
    nri: Arc<Adaptation>,
    random: Mutex<Random>,
    calls: Mutex<Vec<Call>>,
    /// Pods without an open operation, with their next step.
    idle: Mutex<Vec<(u64, usize)>>,
    begun: Instant,
}

impl Load {
    pub(super) fn new(nri: &Arc<Adaptation>, random: Random) -> Arc<Self> {
        let (calls, idle) = (Mutex::default(), Mutex::default());
        Arc::new(Self { nri: Arc::clone(nri), random: Mutex::new(random), calls, idle, begun: Instant::now() })
    }

    /// Returns the requests that have returned, in that order.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Makes a request about every `gap` until `stop` is cancelled. Returns when all operations
    /// have ended.
    pub(super) async fn run(self: Arc<Self>, gap: Duration, stop: CancellationToken) {
        let mut requests = JoinSet::new();
        let mut n_pods = 0;
        while stop.run_until_cancelled(sleep(gap + self.bit_of(gap))).await.is_some() {
            let (pod, number) = self.next_pod().unwrap_or_else(|| {
                n_pods += 1;
                (n_pods, 0)
            });
            let load = Arc::clone(&self);
            requests.spawn(async move { load.call(pod, number).await });
            while requests.try_join_next().is_some_and(|joined| joined.is_ok()) {}
        }
        while let Some(joined) = requests.join_next().await {
            joined.unwrap();
        }
    }

    /// Makes one request about a pod. Some operations stay open for a while, and some of these are
    /// abandoned.
    pub(super) async fn call(&self, number: u64, place: usize) {
        let id = format!("p{number}");
        let operation = self.nri.begin(pod(&id));
        let made = Instant::now();
        let succeeded = step(&operation, &id, place).await.is_ok();
        let returned = Instant::now();
        let (what, is_gate) = (format!("{} {id}", LIFE[place]), GATES.contains(&place));
        let (ended, is_abandoned) = (None, false);
        let call = Call { what, pod: number, step: place, made, returned, ended, is_gate, succeeded, is_abandoned };
        let at = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(call);
            calls.len() - 1
        };
        let stays_open = self.below(4) == 0;
        if stays_open {
            self.next_tick().await;
        }
        let is_abandoned = is_gate && (!succeeded || stays_open && self.below(4) == 0);
        if is_abandoned {
            // This pod has no further requests. A rollback would delay other requests.
            operation.abandon();
        } else {
            operation.commit();
            if place + 1 < LIFE.len() {
                self.idle.lock().unwrap().push((number, place + 1));
            }
        }
        let mut calls = self.calls.lock().unwrap();
        (calls[at].ended, calls[at].is_abandoned) = (Some(Instant::now()), is_abandoned);
    }

    async fn next_tick(&self) {
        let ticks = self.begun.elapsed().as_secs() / TICK.as_secs() + 1;
        sleep_until(self.begun + TICK * u32::try_from(ticks).unwrap()).await;
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.lock().unwrap().below(limit)
    }

    /// Returns an existing pod without an open operation, and its next step. `None` asks for a new
    /// pod.
    fn next_pod(&self) -> Option<(u64, usize)> {
        let mut idle = self.idle.lock().unwrap();
        let n_idle = u64::try_from(idle.len()).unwrap();
        let chosen = usize::try_from(self.below(n_idle + 3)).unwrap();
        (chosen < idle.len()).then(|| idle.swap_remove(chosen))
    }

    fn bit_of(&self, gap: Duration) -> Duration {
        self.random.lock().unwrap().millis(u64::try_from(gap.as_millis()).unwrap() / 4)
    }
}
