//! Measures how long one request takes, and how much CPU time of the runtime, for one caller.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::compare::Bench;
use crate::job::{Job, Op};
use crate::middle::median;
use crate::noise::{Quiet, Rounds};
use crate::process::{Behaviour, Cluster, Setup, Side};
use crate::row::{Bar, Found, Row};
use crate::sample::Sample;

/// How long a turn should take. Rounds are then short compared with disturbances.
const TURN: Duration = Duration::from_millis(400);
/// The number of requests that are prepared before they are relayed.
const CHUNK: usize = 250;
/// The number of times that the processes are started: the placement of its memory makes a process
/// faster or slower.
const STARTS: usize = 6;
/// The bar: the largest ratio to Go's p50. With many plugins, most of the time is spent in them.
const P50_BAR: f64 = 0.70;
const P50_BAR_OF_MANY: f64 = 0.75;
const MANY: usize = 10;
/// The bar: the largest ratio to Go's CPU time.
const CPU_BAR: f64 = 0.35;

/// Compares both sides with `n_plugins` plugins of this behaviour, for each of these requests.
pub(crate) fn compare(bench: &mut Bench<'_>, n_plugins: usize, behaviour: Behaviour, ops: &[Op]) -> Result<Vec<Row>> {
    let setup = Setup { plugins: vec![behaviour; n_plugins], ..Setup::default() };
    let mut rounds: Vec<Rounds<Round>> = ops.iter().map(|_| Rounds::new()).collect();
    let n_rounds = bench.options.rounds;
    for start in 0..STARTS.min(n_rounds) {
        let (go, rust) = (bench.cluster(Side::Go, &setup)?, bench.cluster(Side::Rust, &setup)?);
        let mut pair = Pair { go, rust };
        for (op, rounds) in ops.iter().zip(&mut rounds) {
            let n = pair.warm_up(*op, bench.options.scale)?;
            for _ in 0..n_rounds / STARTS + usize::from(start < n_rounds % STARTS) {
                rounds.add(|| pair.round(*op, n))?;
            }
        }
        pair.stop()?;
    }
    let answers = if behaviour.is_empty() { "" } else { ", typical adjustments" };
    let plugins = if n_plugins == 1 { "plugin" } else { "plugins" };
    let what = |op: Op| format!("{}, {n_plugins} {plugins}{answers}", op.name());
    Ok(ops.iter().zip(rounds).flat_map(|(op, rounds)| rows(&what(*op), n_plugins, &rounds.quiet())).collect())
}

fn rows(what: &str, n_plugins: usize, rounds: &Quiet<Round>) -> [Row; 2] {
    let row = |measure: &str, of: fn(&Figures) -> f64, bar: f64| Row {
        what: format!("{what}: {measure}"),
        go: format!("{:.0} µs", rounds.middle(|round| of(&round.go))),
        rust: format!("{:.0} µs", rounds.middle(|round| of(&round.rust))),
        found: Found::Ratio(rounds.middle(|round| of(&round.rust) / of(&round.go))),
        bar: Bar::AtMost(bar),
        quiet: rounds.count(),
    };
    let p50_bar = if n_plugins < MANY { P50_BAR } else { P50_BAR_OF_MANY };
    [row("p50", |figures| figures.p50_us, p50_bar), row("CPU", |figures| figures.cpu_us, CPU_BAR)]
}

/// Both runtimes, each with its plugins. One works while the other sleeps.
struct Pair {
    go: Cluster,
    rust: Cluster,
}

/// The results of one round.
struct Round {
    go: Figures,
    rust: Figures,
}

/// The medians over the turns of a round.
struct Figures {
    p50_us: f64,
    cpu_us: f64,
}

impl Pair {
    /// Runs both sides until they are warm, and returns the number of operations of a turn.
    fn warm_up(&mut self, op: Op, scale: usize) -> Result<usize> {
        self.rust.run(alone(op, CHUNK))?;
        self.go.run(alone(op, CHUNK))?;
        let start = Instant::now();
        self.go.run(alone(op, CHUNK))?;
        let turns = TURN.as_secs_f64() / start.elapsed().as_secs_f64();
        let n = ((turns * CHUNK as f64) as usize * scale / 100).max(CHUNK / 5);
        self.rust.run(alone(op, n))?;
        Ok(n)
    }

    /// Runs one round: Go, Rust, Rust, Go. A change in the speed of the machine affects both sides
    /// alike.
    fn round(&mut self, op: Op, n: usize) -> Result<(Round, f64)> {
        let mut noise = Vec::new();
        let mut turn = |cluster: &mut Cluster| -> Result<Sample> {
            let (outcome, others) = cluster.run(alone(op, n))?;
            noise.push(others);
            Ok(outcome.sample)
        };
        let first = turn(&mut self.go)?;
        let rust = [turn(&mut self.rust)?, turn(&mut self.rust)?];
        let go = [first, turn(&mut self.go)?];
        let worst = noise.into_iter().fold(0.0, f64::max);
        Ok((Round { go: figures(&go), rust: figures(&rust) }, worst))
    }

    fn stop(self) -> Result<()> {
        self.go.stop()?;
        self.rust.stop()
    }
}

/// Returns the job of a single caller.
pub(crate) fn alone(op: Op, n: usize) -> Job {
    Job { op, n, chunk: CHUNK, callers: 1, beside: 0 }
}

fn figures(samples: &[Sample]) -> Figures {
    let middle = |of: fn(&Sample) -> f64| median(samples.iter().map(of));
    Figures { p50_us: middle(|sample| sample.p50_us), cpu_us: middle(|sample| sample.cpu_us_per_op) }
}
