//! Measures the throughput of many callers while plugins are slow.

use std::thread;

use anyhow::{Result, anyhow};

use crate::compare::Bench;
use crate::job::{Job, Op};
use crate::middle::median;
use crate::noise::{Noise, QUIET};
use crate::process::{Behaviour, Cluster, PLAIN, Setup, Side};
use crate::row::{Bar, Found, Row};

const SLOW: Behaviour = &["-sleep", "100ms"];
const CALLERS: usize = 16;
/// The number of operations: a multiple of the callers, and more than a hundred.
const OPERATIONS: usize = 112;

/// Measures three slow plugins, whose lanes are used concurrently.
pub(crate) fn all_slow(bench: &mut Bench<'_>) -> Result<Row> {
    let setup = Setup { plugins: vec![SLOW; 3], ..Setup::default() };
    let what = format!("{CALLERS} callers, 3 plugins of 100 ms: requests per second");
    compare(bench, what, &setup, 2, 2.8)
}

/// Measures one slow plugin that may be asked about several pods at a time.
pub(crate) fn one_per_pod(bench: &mut Bench<'_>) -> Result<Row> {
    let setup = Setup { plugins: vec![PLAIN, SLOW, PLAIN], per_pod: Some("01-bench"), ..Setup::default() };
    let what = format!("{CALLERS} callers, one of 3 plugins of 100 ms, ours `per-pod`: requests per second");
    compare(bench, what, &setup, 5, 12.0)
}

/// Measures both sides. They sleep nearly all of the time, so both run concurrently, and ours
/// several times.
fn compare(bench: &mut Bench<'_>, what: String, setup: &Setup, times: usize, bar: f64) -> Result<Row> {
    let (mut go, mut rust) = (bench.cluster(Side::Go, setup)?, bench.cluster(Side::Rust, setup)?);
    let noise = Noise::begin(go.pids().chain(rust.pids()).collect())?;
    let (theirs, ours) = thread::scope(|scope| {
        let theirs = scope.spawn(|| per_second(&mut go));
        let ours: Result<Vec<f64>> = (0..times).map(|_| per_second(&mut rust)).collect();
        (theirs.join().unwrap_or_else(|_| Err(anyhow!("the thread of Go's side panicked"))), ours)
    });
    let (theirs, ours) = (theirs?, median(ours?));
    let is_quiet = noise.end()? <= QUIET;
    go.stop()?;
    rust.stop()?;
    Ok(Row {
        what,
        go: format!("{theirs:.1}/s"),
        rust: format!("{ours:.1}/s"),
        found: Found::Ratio(ours / theirs),
        bar: Bar::AtLeast(bar),
        quiet: format!("{} of 1", u8::from(is_quiet)),
    })
}

fn per_second(cluster: &mut Cluster) -> Result<f64> {
    let job = Job { op: Op::Create, n: OPERATIONS, chunk: OPERATIONS, callers: CALLERS, beside: 0 };
    Ok(OPERATIONS as f64 * 1e6 / cluster.work(job)?.wall_us)
}
