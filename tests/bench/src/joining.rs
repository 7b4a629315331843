//! Measures how long a plugin takes to join behind a peer that hinders it.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::compare::Bench;
use crate::middle::median;
use crate::process::{Behaviour, PLAIN, Setup, Side};
use crate::row::{Bar, Found, Row};

/// The peer that connects first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nobody,
    /// The peer connects and sends nothing.
    Silent,
    /// The peer reads the beginning of its snapshot, and is stopped then.
    Stopped,
}

/// The number of containers: their snapshot is far larger than the buffer of a socket.
const CONTAINERS: usize = 1000;
const STOPS: Behaviour = &["-stop-after", "65536"];
const ROUNDS: usize = 7;
/// The number of rounds with Go. Each takes seconds, and one is enough to show that.
const GO_ROUNDS: usize = 1;
/// The time limit of a join, after which Go's plugins have given up.
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

/// Returns how much longer a join takes than without the other peer. Medians are compared, because
/// the time to start a process varies.
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

/// Returns the time from the start of a plugin until it is synchronized, or `None` if that takes
/// too long.
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
    // No plugin got a request, and the stopped one cannot leave, so both are killed.
    Ok(is_in.then(|| start.elapsed().as_secs_f64() * 1e3))
}
