//! The comparison: who works when, and what is made of it.

use std::time::{Duration, Instant};

use anyhow::Result;
use protobuf::Message;

use crate::options::Options;
use crate::payload;
use crate::process::{Cluster, Side};
use crate::sample::{Sample, median};

/// How long a turn should take, so that rounds are short beside what disturbs them.
const TURN: Duration = Duration::from_millis(400);
/// Requests that are made before they are relayed.
const CHUNK: usize = 250;
/// Fresh processes: a process may be lucky or not with where its memory is.
const STARTS: usize = 3;
/// A round with more of the machine's CPU time spent on others is made once more, and left out if
/// enough others remain.
const QUIET: f64 = 0.10;

/// What was found.
pub(crate) struct Comparison {
    pub(crate) rows: Vec<Row>,
    pub(crate) request_bytes: usize,
    /// What Rust is compared with.
    pub(crate) baseline: &'static str,
    pub(crate) go: String,
    pub(crate) rust: String,
}

/// One number of plugins.
pub(crate) struct Row {
    pub(crate) n_plugins: usize,
    pub(crate) go: Figures,
    pub(crate) rust: Figures,
    /// Medians of the ratios within a round.
    pub(crate) p50_ratio: f64,
    pub(crate) cpu_ratio: f64,
    /// Rounds that count, of how many.
    pub(crate) quiet: usize,
    pub(crate) rounds: usize,
}

/// Medians over rounds.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) p50_us: f64,
    pub(crate) cpu_us_per_op: f64,
}

impl Row {
    pub(crate) const P50_BAR: f64 = 0.75;
    pub(crate) const CPU_BAR: f64 = 0.35;

    pub(crate) fn meets_bars(&self) -> bool {
        self.p50_ratio <= Self::P50_BAR && self.cpu_ratio <= Self::CPU_BAR
    }
}

impl Comparison {
    pub(crate) fn meets_bars(&self) -> bool {
        self.rows.iter().all(Row::meets_bars)
    }
}

/// Runs the whole comparison.
pub(crate) fn compare(options: &Options) -> Result<Comparison> {
    let encoded = payload::request().write_to_bytes()?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), &encoded)?;
    let mut comparison = Comparison {
        rows: Vec::new(),
        request_bytes: encoded.len(),
        baseline: if options.baseline.is_some() { "baseline" } else { "Go" },
        go: String::new(),
        rust: String::new(),
    };
    for &n_plugins in &options.plugins {
        let mut rounds = Vec::new();
        for start in 0..STARTS {
            let mut pair = Pair {
                go: Cluster::start(Side::Go, n_plugins, file.path(), options)?,
                rust: Cluster::start(Side::Rust, n_plugins, file.path(), options)?,
                operations: 0,
            };
            pair.warm_up(options.scale)?;
            let share = options.rounds / STARTS + usize::from(start < options.rounds % STARTS);
            for _ in 0..share {
                rounds.push(pair.round()?);
                if rounds.last().is_some_and(|round| round.noise > QUIET) {
                    rounds.push(pair.round()?);
                }
            }
            comparison.go.clone_from(&pair.go.versions);
            comparison.rust.clone_from(&pair.rust.versions);
            pair.stop()?;
        }
        comparison.rows.push(Row::new(n_plugins, rounds));
    }
    Ok(comparison)
}

/// Both runtimes, each with its plugins. One works while the other sleeps.
struct Pair {
    go: Cluster,
    rust: Cluster,
    operations: usize,
}

/// What one round showed.
struct Round {
    go: Figures,
    rust: Figures,
    noise: f64,
}

impl Pair {
    /// Runs both until they are warm, and finds out how many operations make a turn.
    fn warm_up(&mut self, scale: usize) -> Result<()> {
        self.rust.run(CHUNK, CHUNK)?;
        self.go.run(CHUNK, CHUNK)?;
        let start = Instant::now();
        self.go.run(CHUNK, CHUNK)?;
        let turns = TURN.as_secs_f64() / start.elapsed().as_secs_f64();
        self.operations = ((turns * CHUNK as f64) as usize * scale / 100).max(CHUNK / 5);
        self.rust.run(self.operations, CHUNK)?;
        Ok(())
    }

    /// Go, Rust, Rust, Go: what gets slower or faster meanwhile does so for both.
    fn round(&mut self) -> Result<Round> {
        let (n, mut noise) = (self.operations, Vec::new());
        let mut turn = |cluster: &mut Cluster| -> Result<Sample> {
            let (sample, others) = cluster.run(n, CHUNK)?;
            noise.push(others);
            Ok(sample)
        };
        let first = turn(&mut self.go)?;
        let rust = [turn(&mut self.rust)?, turn(&mut self.rust)?];
        let go = [first, turn(&mut self.go)?];
        let worst = noise.into_iter().fold(0.0, f64::max);
        Ok(Round { go: figures(&go), rust: figures(&rust), noise: worst })
    }

    fn stop(self) -> Result<()> {
        self.go.stop()?;
        self.rust.stop()
    }
}

fn figures(samples: &[Sample]) -> Figures {
    let middle = |of: fn(&Sample) -> f64| median(samples.iter().map(of).collect());
    Figures { p50_us: middle(|sample| sample.p50_us), cpu_us_per_op: middle(|sample| sample.cpu_us_per_op) }
}

impl Row {
    fn new(n_plugins: usize, mut rounds: Vec<Round>) -> Self {
        rounds.sort_by(|one, other| one.noise.total_cmp(&other.noise));
        let n_rounds = rounds.len();
        let quiet = rounds.iter().filter(|round| round.noise <= QUIET).count();
        rounds.truncate(quiet.max(n_rounds.div_ceil(2)));
        let middle = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
        Self {
            n_plugins,
            go: Figures {
                p50_us: middle(|round| round.go.p50_us),
                cpu_us_per_op: middle(|round| round.go.cpu_us_per_op),
            },
            rust: Figures {
                p50_us: middle(|round| round.rust.p50_us),
                cpu_us_per_op: middle(|round| round.rust.cpu_us_per_op),
            },
            p50_ratio: middle(|round| round.rust.p50_us / round.go.p50_us),
            cpu_ratio: middle(|round| round.rust.cpu_us_per_op / round.go.cpu_us_per_op),
            quiet,
            rounds: n_rounds,
        }
    }
}
