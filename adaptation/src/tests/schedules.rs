//! Random schedules, compared with a simple model: a plugin sees the events of a pod in the order
//! of its life, and none twice.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nri_proto::PluginId;
use tokio::time::{Instant, sleep, timeout};

use super::fake::{Diary, FakePlugin, LIFE as EVENTS, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Adaptation;
use crate::Notice;
use crate::Operation;
use crate::Plugin;
use crate::RelayError;

/// A small random number generator. The seed is enough to reproduce a failure.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub(super) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most + 1))
    }

    fn manner(&mut self) -> Manner {
        match self.below(10) {
            0..=4 => at_once(),
            5..=6 => Manner::After(self.millis(1900)),
            7 => Manner::After(self.millis(9000)),
            8 => Manner::Refuses,
            _ => Manner::GivesUpAfter(self.millis(2500)),
        }
    }
}

/// A required plugin that always answers.
const GOOD: &str = "30-c";

/// The events in the life of a pod, as the diary spells them.
pub(super) const LIFE: [&str; 9] = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
];

/// The part of that life that belongs to a container.
const CONTAINED: Range<usize> = 1..7;

pub(super) async fn step(operation: &Operation, id: &str, number: usize) -> Result<(), RelayError> {
    let container = container(id);
    match number {
        0 => operation.notify(Notice::RunPod).await,
        1 => operation.create_container(container).await.map(drop),
        2 => operation.notify(Notice::PostCreate(container)).await,
        3 => operation.notify(Notice::Start(container)).await,
        4 => operation.notify(Notice::PostStart(container)).await,
        5 => operation.stop_container(container).await.map(drop).map_err(|error| error.cause),
        6 => operation.notify(Notice::Remove(container)).await,
        7 => operation.notify(Notice::StopPod).await,
        _ => operation.notify(Notice::RemovePod).await,
    }
}

/// Runs the life of a pod, or of a container in it. Some callers have a deadline, others drop their
/// request.
async fn live(nri: Arc<Adaptation>, pod_id: String, id: String, mut random: Random, bound: Duration) {
    let steps = if id == pod_id { 0..LIFE.len() } else { CONTAINED };
    for number in steps {
        sleep(random.millis(500)).await;
        let before = Instant::now();
        let operation = nri.begin(pod(&pod_id));
        let outcome = match random.below(6) {
            0 => {
                let operation = operation.until(Instant::now() + random.millis(3000));
                let _ = step(&operation, &id, number).await;
                operation.commit();
                Ok(())
            }
            1 => {
                let _ = timeout(random.millis(3000), step(&operation, &id, number)).await;
                operation.commit();
                Ok(())
            }
            _ => {
                let outcome = step(&operation, &id, number).await;
                operation.commit();
                outcome
            }
        };
        assert!(before.elapsed() <= bound, "{} of {id} took {:?}", LIFE[number], before.elapsed());
        // The required plugin always answers, even after it was replaced.
        let failed = matches!(&outcome, Err(RelayError::Failed(failure)) if failure.plugin == GOOD);
        assert!(!failed, "{} of {id}: {outcome:?}", LIFE[number]);
    }
}

/// Returns the steps of a pod that a plugin saw, as indexes into [`LIFE`].
fn seen(diary: &Diary, plugin: &str, pod: &str) -> Vec<usize> {
    let lines = diary.lines();
    let of_pod = lines.iter().filter_map(|line| {
        let mut words = line.split(' ');
        let (who, what, about) = (words.next()?, words.next()?, words.next()?);
        (who == plugin && about == pod).then(|| LIFE.iter().position(|step| *step == what)).flatten()
    });
    of_pod.collect()
}

/// Replaces the required plugin.
async fn succeed(nri: &Adaptation, name: &str, diary: &Diary) -> (String, Arc<FakePlugin>) {
    let plugin = FakePlugin::new(name, EVENTS, at_once(), diary);
    nri.admit(GOOD.parse().unwrap(), Arc::clone(&plugin) as Arc<dyn Plugin>).await.unwrap();
    (name.to_owned(), plugin)
}

async fn schedule(seed: u64) {
    let mut random = Random::of(seed);
    let diary = Diary::default();
    let names = ["10-a", "20-b", GOOD];
    let plugins = names.map(|name| FakePlugin::new(name, EVENTS, random.manner(), &diary));
    // The last plugin always answers, so it must not miss any event.
    plugins[2].behave(at_once());
    let policy = format!(
        "plugins.c = {{ required = true, join_timeout = '5m' }}\nplugin_defaults.strikes = {}\n[plugins.a]\nkeep_connected = {}\n[plugins.b]\nconcurrency = \"{}\"\non_timeout = \"{}\"",
        1 + random.below(4),
        random.below(2) == 0,
        ["serial", "per-pod"][usize::try_from(random.below(2)).unwrap()],
        ["skip", "fail"][usize::try_from(random.below(2)).unwrap()],
    );
    let named: Vec<_> = names.iter().zip(&plugins).map(|(name, plugin)| (*name, plugin)).collect();
    let nri = Arc::new(adaptation(&policy, &named).await);
    // For each plugin: the request timeout and the lane timeout, for both of the requests that are
    // queued for a pod. Twice, because a plugin that just joined may first have to receive such a
    // request.
    let bound = (SECOND * 2 + SECOND * 10) * 3 * 2 * 2;
    let objects: Vec<_> = (0..=random.below(4))
        .map(|number| format!("p{number}"))
        .flat_map(|pod| [(pod.clone(), pod.clone()), (pod.clone(), format!("{pod}-other"))])
        .collect();
    let mut living = Vec::new();
    for (pod, id) in objects.iter().cloned() {
        living.push(tokio::spawn(live(Arc::clone(&nri), pod, id, Random(random.below(u64::MAX) | 1), bound)));
    }
    let mut successors = Vec::new();
    for number in 0..6 {
        sleep(random.millis(3000)).await;
        let manner = random.manner();
        match usize::try_from(random.below(3)).unwrap() {
            2 => successors.push(succeed(&nri, &format!("{GOOD}{number}"), &diary).await),
            other => plugins[other].behave(manner),
        }
    }
    for life in living {
        life.await.unwrap();
    }
    sleep(SECOND * 60).await;
    let successors = successors.iter().map(|(name, plugin)| (name.as_str(), plugin));
    for (name, plugin) in named.into_iter().chain(successors) {
        let serial = name != "20-b" || !policy.contains("per-pod");
        assert!(!serial || plugin.most_at_a_time() <= 1, "{name} had {} requests at once", plugin.most_at_a_time());
        for (_, id) in &objects {
            let seen = seen(&diary, name, id);
            assert!(seen.is_sorted_by(|one, next| one < next), "{name} saw of {id}: {seen:?}");
        }
        assert!(nri.plugins().iter().all(|status| status.id != GOOD.parse::<PluginId>().unwrap()
            || status.state == crate::api::health::State::Active));
    }
    nri.stop().await;
}

#[test]
fn what_a_plugin_sees_of_a_pod_is_its_life_in_order_whatever_the_others_do() {
    let schedules = if std::env::var_os("NRI_LONG").is_some() { 20_000 } else { 2_000 };
    for seed in 1..=schedules {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                timeout(SECOND * 3600, schedule(seed)).await.expect("a deadlock");
            });
            assert_eq!(runtime.metrics().num_alive_tasks(), 0, "a task is left");
        }));
        assert!(outcome.is_ok(), "the schedule of seed {seed} failed");
    }
}
