//! Go plugins that stand still or die. Each test has the number of the defect that Go's own runtime
//! side has in that case.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nri_adaptation::health::State;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Happening, Notice, Source, UpdatesFailed};
use nri_proto::{Container, Eviction, PluginId, Pod, Update};
use nri_tests::go;
use tokio::process::Child;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::adaptation::{Runtime, container, pod};
use crate::peer::PATIENCE;

/// The time that a busy machine may need in addition to the timeout of a plugin.
const SLACK: Duration = Duration::from_secs(2);

/// A runtime with these pods and containers, which returns its snapshot when the test allows it.
struct Node {
    snapshot: Snapshot,
    asked: Semaphore,
    allowed: Semaphore,
}

impl Node {
    fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self { snapshot, asked: Semaphore::new(0), allowed: Semaphore::new(Semaphore::MAX_PERMITS) })
    }

    /// Waits until a plugin is configured, which comes before its snapshot.
    async fn until_asked(&self) {
        timeout(PATIENCE, self.asked.acquire()).await.expect("no plugin gets that far").unwrap().forget();
    }
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        self.asked.add_permits(1);
        self.allowed.acquire().await.unwrap().forget();
        self.snapshot.clone()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}

/// Returns a snapshot of pods and containers, each with this many bytes of annotations.
fn snapshot((pods, pod_size): (usize, usize), (containers, container_size): (usize, usize)) -> Snapshot {
    let container = |number: usize| Container {
        annotations: [("large".to_owned(), "x".repeat(container_size))].into(),
        ..container(&format!("c{number}"))
    };
    Snapshot {
        pods: (0..pods).map(|number| large(&format!("p{number}"), pod_size)).collect(),
        containers: (0..containers).map(container).collect(),
    }
}

fn large(id: &str, size: usize) -> Pod {
    Pod { annotations: [("large".to_owned(), "x".repeat(size))].into(), ..pod(id) }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().unwrap().try_into().unwrap()), signal).unwrap();
}

/// Stops a plugin process, and returns when it stands still.
async fn stop(child: &Child) {
    signal(child, Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", child.id().unwrap());
    while !fs::read_to_string(&stat).unwrap().contains(") T ") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Runtime {
    /// Starts a plugin, and waits until it has joined. Also returns its policy.
    async fn joined(&mut self, program: &std::path::Path, index: &str) -> (Child, String) {
        let child = self.plugin(program, index);
        loop {
            if let Happening::Joined { policy, .. } = self.next().await {
                return (child, policy);
            }
        }
    }

    /// Returns how long it takes to notify all plugins of the start or stop of a pod.
    async fn tell(&self, pod: Pod, notice: Notice) -> Duration {
        let begun = Instant::now();
        let operation = self.nri.begin(pod);
        let told = timeout(PATIENCE, operation.notify(notice)).await.expect("the runtime hangs");
        told.unwrap();
        operation.commit();
        begun.elapsed()
    }

    async fn until(&self, state: State) {
        let is_so = async {
            while self.nri.plugins()[0].state != state {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, is_so).await.unwrap_or_else(|_| panic!("it is never {state}"));
    }
}

/// A12, M06: in Go the write waits for ever, with the lock of the whole node.
#[tokio::test]
async fn u1_a_plugin_that_stops_reading_costs_its_timeout_and_other_pods_nothing() {
    let Ok(program) = go::program("benchplugin") else { return };
    let policy = "plugin_defaults = { request_timeout = \"1s\", strikes = 1000 }";
    let mut runtime = Runtime::with(policy, Node::new(Snapshot::default()));
    let (child, _) = runtime.joined(&program, "7").await;
    stop(&child).await;

    let mebibyte = large("p", 1 << 20);
    let (first, other) =
        tokio::join!(runtime.tell(mebibyte.clone(), Notice::RunPod), runtime.tell(pod("q"), Notice::RunPod));
    assert!(first < Duration::from_secs(1) + SLACK, "{first:?}");
    assert!(other < Duration::from_secs(1) + SLACK, "{other:?}: it had to wait longer than the first one");
    // The journal of the plugin has room for these requests.
    let smaller = large("p", 100 << 10);
    for _ in 0..20 {
        let took = runtime.tell(smaller.clone(), Notice::RunPod).await;
        assert!(took < Duration::from_millis(900), "{took:?}: it is known to be silent");
    }
    // A14: the late answer changes nothing, and the plugin is asked again.
    signal(&child, Signal::SIGCONT);
    runtime.until(State::Active).await;
    assert!(runtime.tell(pod("r"), Notice::RunPod).await < Duration::from_secs(1));
    assert_eq!(runtime.nri.plugins()[0].state, State::Active);
    runtime.nri.stop().await;
}

/// A13: in Go no pod can be started or stopped while a plugin stands still during its
/// synchronization.
#[tokio::test]
async fn u2_a_plugin_that_stands_still_while_it_is_synchronized_holds_up_nobody() {
    let Ok(program) = go::program("benchplugin") else { return };
    let node = Node::new(snapshot((110, 10_000), (110, 10_000)));
    node.allowed.forget_permits(Semaphore::MAX_PERMITS);
    let source = Arc::clone(&node) as Arc<dyn Source>;
    let mut runtime = Runtime::with("plugin_defaults.sync_timeout = \"2s\"", source);
    let child = runtime.plugin(&program, "7");
    node.until_asked().await;
    stop(&child).await;
    node.allowed.add_permits(1);

    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let took = runtime.tell(pod("p"), Notice::RunPod).await;
        assert!(took < Duration::from_millis(900), "{took:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let Happening::Closed { reason, .. } = runtime.next().await else { panic!("it was not given up") };
    assert!(reason.contains("synchronize"), "{reason}");
    assert!(begun.elapsed() < Duration::from_secs(2) + SLACK, "{:?}", begun.elapsed());

    node.allowed.add_permits(1);
    runtime.joined(&program, "8").await;
    runtime.nri.stop().await;
}

/// A23: in Go the runtime panics.
#[tokio::test]
async fn u6_a_go_plugin_is_synchronized_with_one_pod_and_nine_large_containers() {
    let Ok(program) = go::program("benchplugin") else { return };
    let mut runtime = Runtime::with("", Node::new(snapshot((1, 0), (9, 600_000))));
    let _plugin = runtime.joined(&program, "7").await;
    runtime.nri.stop().await;
}

/// A23: in Go no plugin can join any more.
#[tokio::test]
async fn u43_a_go_plugin_is_synchronized_with_many_large_pods_and_one_container() {
    let Ok(program) = go::program("benchplugin") else { return };
    let mut runtime = Runtime::with("", Node::new(snapshot((110, 80_000), (1, 0))));
    let _plugin = runtime.joined(&program, "7").await;
    runtime.nri.stop().await;
}

/// In Go ordinary requests fill the socket of a plugin that is kept, until one of them waits for
/// ever.
#[tokio::test]
async fn u30_a_plugin_that_is_kept_and_stops_reading_freezes_nothing() {
    let Ok(program) = go::program("declarer") else { return };
    let policy = "[plugins.declarer]\nrequest_timeout = \"200ms\"\non_timeout = \"skip\"";
    let mut runtime = Runtime::with(policy, Node::new(Snapshot::default()));
    let (child, policy) = runtime.joined(&program, "7").await;
    assert!(policy.contains("keep_connected=true (declared)"), "{policy}");
    stop(&child).await;

    let mut all = Duration::ZERO;
    for number in 0..300 {
        let pod = large(&format!("p{number}"), 3000);
        all += runtime.tell(pod.clone(), Notice::RunPod).await + runtime.tell(pod, Notice::PostUpdatePod).await;
    }
    // The first request waits, and perhaps one or two probes.
    assert!(all < Duration::from_secs(1) + SLACK, "300 requests took {all:?}");
    runtime.until(State::Suspended).await;
    runtime.nri.stop().await;
}

/// In Go it depends on timing whether a request fails shortly after a plugin's death.
#[tokio::test]
async fn u35_a_plugin_that_was_killed_fails_requests_by_policy_at_any_time() {
    let Ok(program) = go::program("benchplugin") else { return };
    for (policy, fails) in [("plugins.bench.required = true", true), ("", false)] {
        let mut runtime = Runtime::with(policy, Node::new(Snapshot::default()));
        for micros in [0, 100, 1000, 50_000].repeat(5) {
            let (child, _) = runtime.joined(&program, "7").await;
            signal(&child, Signal::SIGKILL);
            tokio::time::sleep(Duration::from_micros(micros)).await;
            let outcome = runtime.nri.begin(pod("p")).notify(Notice::RunPod).await;
            assert_eq!(outcome.is_err(), fails, "{micros} us after its death: {outcome:?}");
            if let Err(error) = outcome {
                assert!(error.to_string().contains("bench failed to handle RunPodSandbox request"), "{error}");
            }
        }
        runtime.nri.stop().await;
    }
}

/// In Go the plugin alone decides, and its declaration is not visible.
#[tokio::test]
async fn u42_the_operator_has_the_last_word_about_what_a_plugin_declares() {
    let Ok(program) = go::program("declarer") else { return };
    let operator = "on_timeout = \"skip\"\nkeep_connected = false\nstrikes = 1";
    for (said, shown, fails, stays) in [
        ("", "on_timeout=fail (declared), strikes=3, keep_connected=true (declared)", true, true),
        (
            operator,
            "on_timeout=skip (operator, by name), strikes=1 (operator, by name), keep_connected=false",
            false,
            false,
        ),
        ("declarations = \"ignore\"", "on_timeout=skip, strikes=3, keep_connected=false", false, true),
    ] {
        let policy = format!("plugin_defaults.request_timeout = \"300ms\"\n[plugins.declarer]\n{said}");
        let mut runtime = Runtime::with(&policy, Node::new(Snapshot::default()));
        let (child, policy) = runtime.joined(&program, "7").await;
        assert!(policy.contains(shown), "{policy}");
        stop(&child).await;
        let outcome = runtime.nri.begin(pod("p")).notify(Notice::RunPod).await;
        assert_eq!(outcome.is_err(), fails, "{said:?}: {outcome:?}");
        tokio::task::yield_now().await;
        assert_eq!(runtime.nri.plugins().len(), usize::from(stays), "{said:?}");
        runtime.nri.stop().await;
    }
}
