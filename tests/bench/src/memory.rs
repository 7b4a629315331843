//! Measures the memory of a runtime after much work.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::compare::Bench;
use crate::job::{Job, Op};
use crate::process::{ADJUSTS, Cluster, Setup, Side};
use crate::row::{Bar, Found, Row};

const PLUGINS: usize = 30;
const CREATES: usize = 5000;
/// The bar: the largest ratio to Go's memory.
const BAR: f64 = 0.40;
/// The time in which a process may return free memory to the system.
const SETTLE: Duration = Duration::from_millis(500);

/// Compares the memory of both sides. They run concurrently, because memory does not depend on how
/// busy the machine is.
pub(crate) fn compare(bench: &mut Bench<'_>) -> Result<Row> {
    let setup = Setup { plugins: vec![ADJUSTS; PLUGINS], ..Setup::default() };
    let (go, rust) = (bench.cluster(Side::Go, &setup)?, bench.cluster(Side::Rust, &setup)?);
    let creates = CREATES * bench.options.scale.min(100) / 100;
    let (theirs, ours) = thread::scope(|scope| {
        let theirs = scope.spawn(|| resident_kib(go, creates));
        let ours = resident_kib(rust, creates);
        (theirs.join().unwrap_or_else(|_| Err(anyhow!("the thread of Go's side panicked"))), ours)
    });
    let (theirs, ours) = (theirs?, ours?);
    let shown = |kib: f64| format!("{:.1} MiB", kib / 1024.0);
    Ok(Row {
        what: format!("resident memory, {PLUGINS} plugins, after {creates} creations with typical adjustments"),
        go: shown(theirs),
        rust: shown(ours),
        found: Found::Ratio(ours / theirs),
        bar: Bar::AtMost(BAR),
        quiet: "-".to_owned(),
    })
}

fn resident_kib(mut cluster: Cluster, n: usize) -> Result<f64> {
    // Requests are prepared one by one, so that waiting requests do not count.
    cluster.work(Job { op: Op::Create, n, chunk: 1, callers: 1, beside: 0 })?;
    thread::sleep(SETTLE);
    let resident = cluster.resident_kib()?;
    cluster.stop()?;
    Ok(resident)
}
