//! A runtime that makes requests at an even pace, each about a pod that nothing else is asked about.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::waits::Call;
use crate::Adaptation;
use crate::tests::fake::pod;
use crate::tests::schedules::{LIFE, Random, step};

/// The places of the requests in the life of a pod that decide whether something happens.
const GATES: [usize; 3] = [0, 1, 3];

/// A runtime that makes requests at an even pace.
pub(super) struct Load {
    nri: Arc<Adaptation>,
    random: Mutex<Random>,
    calls: Mutex<Vec<Call>>,
    /// Pods that no request is open about, and how far each is.
    idle: Mutex<Vec<(u64, usize)>>,
}

impl Load {
    pub(super) fn new(nri: &Arc<Adaptation>, random: Random) -> Arc<Self> {
        let (calls, idle) = (Mutex::default(), Mutex::default());
        Arc::new(Self { nri: Arc::clone(nri), random: Mutex::new(random), calls, idle })
    }

    /// Returns the requests that have returned, in the order in which they did.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Makes a request every `gap` and a bit, until told to stop. Returns when all requests have returned.
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

    /// Makes one request about a pod of its own.
    pub(super) async fn call(&self, number: u64, place: usize) {
        let id = format!("p{number}");
        let operation = self.nri.begin(pod(&id));
        let made = Instant::now();
        let succeeded = step(&operation, &id, place).await.is_ok();
        let returned = Instant::now();
        let (what, is_gate) = (format!("{} {id}", LIFE[place]), GATES.contains(&place));
        let call = Call { what, pod: number, step: place, made, returned, is_gate, succeeded };
        if call.has_happened() {
            operation.commit();
            if place + 1 < LIFE.len() {
                self.idle.lock().unwrap().push((number, place + 1));
            }
        } else {
            // Nothing is asked about this pod any more: what undoes a request would be in the way of others.
            operation.abandon();
        }
        self.calls.lock().unwrap().push(call);
    }

    /// Returns a pod that there is already, and how far it is. `None` is a new one.
    fn next_pod(&self) -> Option<(u64, usize)> {
        let mut idle = self.idle.lock().unwrap();
        let n_idle = u64::try_from(idle.len()).unwrap();
        let chosen = usize::try_from(self.random.lock().unwrap().below(n_idle + 3)).unwrap();
        (chosen < idle.len()).then(|| idle.swap_remove(chosen))
    }

    fn bit_of(&self, gap: Duration) -> Duration {
        self.random.lock().unwrap().millis(u64::try_from(gap.as_millis()).unwrap() / 4)
    }
}
