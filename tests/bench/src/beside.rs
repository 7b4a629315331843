//! Measures StartContainer while other callers wait for a plugin that does not subscribe to it.

use anyhow::Result;

use crate::compare::Bench;
use crate::job::{Job, Op};
use crate::latency::alone;
use crate::noise::Rounds;
use crate::process::{Behaviour, Cluster, PLAIN, Setup, Side};
use crate::row::{Bar, Found, Row};

const SLOW: Behaviour = &["-sleep", "100ms", "-events", "CreateContainer"];
/// The number of callers that create containers meanwhile.
const CREATING: usize = 8;
const ROUNDS: usize = 6;
const OPERATIONS: usize = 1000;
/// The number of requests to Go's side, each of which takes nearly a second.
const GO_OPERATIONS: usize = 8;
/// The bar: the largest ratio to the time without these callers.
const BAR: f64 = 2.0;

/// The p50 without and with the creations.
struct Round {
    without_us: f64,
    with_us: f64,
}

pub(crate) fn compare(bench: &mut Bench<'_>) -> Result<Row> {
    let setup = Setup { plugins: vec![PLAIN, SLOW, PLAIN], ..Setup::default() };
    let mut go = bench.cluster(Side::Go, &setup)?;
    go.work(alone(Op::Start, OPERATIONS / 4))?;
    let (theirs, _) = round(&mut go, OPERATIONS / 4, GO_OPERATIONS)?;
    drop(go);

    let mut rust = bench.cluster(Side::Rust, &setup)?;
    rust.work(alone(Op::Start, OPERATIONS))?;
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        rounds.add(|| round(&mut rust, OPERATIONS, OPERATIONS))?;
    }
    let rounds = rounds.quiet();
    let middle = |of: fn(&Round) -> f64| rounds.middle(of);
    let shown = |without: f64, with: f64| format!("{with:.0} µs, without {without:.0} µs");
    Ok(Row {
        what: format!("StartContainer, 2 plugins, while {CREATING} callers wait for a third in CreateContainer: p50"),
        go: shown(theirs.without_us, theirs.with_us),
        rust: shown(middle(|round| round.without_us), middle(|round| round.with_us)),
        found: Found::Ratio(middle(|round| round.with_us / round.without_us)),
        bar: Bar::AtMost(BAR),
        quiet: rounds.count(),
    })
}

fn round(cluster: &mut Cluster, without: usize, with: usize) -> Result<(Round, f64)> {
    let (before, noise) = cluster.run(alone(Op::Start, without))?;
    let (beside, noise_beside) = cluster.run(Job { beside: CREATING, ..alone(Op::Start, with) })?;
    let round = Round { without_us: before.sample.p50_us, with_us: beside.sample.p50_us };
    Ok((round, noise.max(noise_beside)))
}
