//! Go plugins that track the state of each pod and container join, stand still for a while and
//! leave while a runtime works at full speed: containers are restarted, some starts fail, and the
//! domain is slow. Whenever the runtime rests, the plugins' state must equal its own.

mod node;
mod visits;

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nri_api::{Config, Handle, Nri};
use nri_tests::go;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::node::{Node, Worker};
use self::visits::Visitor;
use crate::random::seed;

/// The number of tasks that create, start, stop and remove pods concurrently.
const WORKERS: usize = 16;

/// Nearly the largest size of a message.
const LARGE: usize = 3_993 << 10;

/// Settings under which a plugin that stands still is soon skipped, and is not closed.
const IMPATIENT: &str = "plugin_defaults = { request_timeout = \"500ms\", keep_connected = true }";

/// Returns how long they work in total. `NRI_LONG` asks for a longer run.
fn length() -> Duration {
    Duration::from_secs(if env::var_os("NRI_LONG").is_some() { 60 } else { 4 })
}

/// Returns a random number generator for the part with this number.
fn chance(seed: u64, number: usize) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// A runtime on a socket of its own.
struct Runtime {
    nri: Nri,
    handle: Handle,
    node: Arc<Node>,
    directory: TempDir,
}

impl Runtime {
    async fn start(node: Node, config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::from_toml(config).unwrap();
        (config.socket, config.plugin_path) = (Some(directory.path().join("nri.sock")), None);
        let (nri, node) = (Nri::new(config), Arc::new(node));
        let handle = nri.register("k8s.io", Arc::clone(&node) as _).unwrap();
        nri.start().await.unwrap();
        Self { nri, handle, node, directory }
    }

    fn visitor(&self, program: &Path, index: &'static str, chance: TestRng) -> Visitor {
        Visitor::new(program, &self.directory.path().join("nri.sock"), index, self.nri.watch_plugins(), chance)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_books_of_plugins_that_come_and_go_are_those_of_the_runtime() {
    let Ok(program) = go::program("bookkeeper") else { return };
    let seed = seed();
    eprintln!("seed {seed}");
    let runtime = Runtime::start(Node::slow(chance(seed, usize::MAX)), IMPATIENT).await;
    let Runtime { handle, node, .. } = &runtime;
    let mut workers: Vec<_> = (0..WORKERS).map(|number| Worker::new(handle, node, chance(seed, number))).collect();
    let mut visitors: Vec<_> = ["10", "20"]
        .into_iter()
        .enumerate()
        .map(|(number, index)| runtime.visitor(&program, index, chance(seed, WORKERS + number)))
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < length() {
        let is_over = CancellationToken::new();
        let working = workers.into_iter().map(|worker| tokio::spawn(worker.work_until(is_over.clone())));
        let visiting = visitors.into_iter().map(|visitor| tokio::spawn(visitor.visit_until(is_over.clone())));
        let (working, visiting): (Vec<_>, Vec<_>) = (working.collect(), visiting.collect());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        is_over.cancel();
        workers = all(working).await;
        visitors = all(visiting).await;
        for visitor in &mut visitors {
            visitor.has_the_books_of(node).await;
        }
    }
    let heard: u64 = visitors.iter().map(Visitor::events).sum();
    let visits: usize = visitors.iter().map(|visitor| visitor.visits).sum();
    let pauses: usize = visitors.iter().map(|visitor| visitor.pauses).sum();
    let closed: usize = visitors.iter().map(|visitor| visitor.closed).sum();
    let (pods, restarts) = (node.pods_so_far(), node.restarts_so_far());
    eprintln!(
        "{pods} pods, {restarts} restarts, {visits} visits, {pauses} pauses, {closed} times closed, {heard} events"
    );
    assert!(heard > 300 && restarts > 0 && pauses > 0, "too little happened to show anything");
    runtime.nri.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_synchronized_with_ten_thousand_containers_and_with_one_as_large_as_a_message() {
    let Ok(program) = go::program("bookkeeper") else { return };
    for (containers, largest) in [(10_000, 0), (1_000, LARGE)] {
        // A plugin that is slow because the machine is busy must not be closed.
        let runtime = Runtime::start(Node::with(containers, largest), "plugin_request_timeout = \"20s\"").await;
        let mut visitor = runtime.visitor(&program, "10", chance(0, 0));
        visitor.come();
        visitor.has_the_books_of(&runtime.node).await;
        runtime.nri.stop().await;
    }
}

async fn all<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}
