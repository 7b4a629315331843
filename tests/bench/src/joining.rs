//! How long a plugin waits to be let in behind one that hinders.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::compare::Bench;
use crate::middle::median;
use crate::process::{Behaviour, PLAIN, Setup, Side};
use crate::row::{Bar, Found, Row};

/// Who came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nobody,
    /// It connects and says nothing.
    Silent,
    /// It reads the beginning of what there is, and is stopped then.
    Stopped,
}

/// Far more than a socket holds.
const CONTAINERS: usize = 1000;
const STOPS: Behaviour = &["-stop-after", "65536"];
const ROUNDS: usize = 7;
/// In Go each of them takes seconds, and one shows that.
const GO_ROUNDS: usize = 1;
/// Longer than Go's plugins wait to be registered: they have given up then.
const PATIENCE: Duration = Duration::from_secs(8);
const BAR_MS: f64 = 100.0;

pub(crate) fn compare(bench: &mut Bench<'_>) -> Result<Vec<Row>> {
    let silent = row(bench, "registration behind a silent client: delay", Before::Silent, 0)?;
    let stopped = row(bench, "registration behind a stopped reader: delay", Before::Stopped, CONTAINERS)?;
    Ok(vec![silent, stopped])
}

fn row(bench: &mut Bench<'_>, what: &str, before: Before, containers: usize) -> Result<Row> {
    let go = delay_ms(bench, Side::Go, before, containers, GO_ROUNDS)?;
    let rust = delay_ms(bench, Side::Rust, before, containers, ROUNDS)?;
    let shown = |delay: Option<f64>| delay.map_or("it gave up".to_owned(), |delay| format!("{delay:.0} ms"));
    Ok(Row {
        what: what.to_owned(),
        go: shown(go),
        rust: shown(rust),
        found: Found::Milliseconds(rust.unwrap_or(f64::INFINITY)),
        bar: Bar::AtMost(BAR_MS),
        quiet: "-".to_owned(),
    })
}

/// How much longer it takes than behind nobody. Medians, since starting a process takes a different
/// time each time.
fn delay_ms(
    bench: &mut Bench<'_>,
    side: Side,
    before: Before,
    containers: usize,
    rounds: usize,
) -> Result<Option<f64>> {
    let (mut without, mut with) = (vec![], vec![]);
    for _ in 0..rounds {
        without.push(join_ms(bench, side, Before::Nobody, containers)?.context("a plugin alone was not let in")?);
        with.push(join_ms(bench, side, before, containers)?);
    }
    let with: Option<Vec<f64>> = with.into_iter().collect();
    Ok(with.map(|with| (median(with) - median(without)).max(0.0)))
}

/// From its start until it is synchronized, unless that takes too long.
fn join_ms(bench: &mut Bench<'_>, side: Side, before: Before, containers: usize) -> Result<Option<f64>> {
    let mut cluster = bench.cluster(side, &Setup { containers, ..Setup::default() })?;
    let _silent = match before {
        Before::Nobody => None,
        Before::Silent => Some(UnixStream::connect(cluster.socket())?),
        Before::Stopped => {
            let _: Value = cluster.launch(STOPS)?.hear()?;
            None
        }
    };
    let start = Instant::now();
    cluster.launch(PLAIN)?;
    let is_in = cluster.wait(1, PATIENCE).is_ok();
    // Neither plugin was asked anything, and one cannot leave: they are killed.
    Ok(is_in.then(|| start.elapsed().as_secs_f64() * 1e3))
}
