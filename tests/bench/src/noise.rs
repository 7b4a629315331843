//! Measures how busy the machine is with other processes.

use anyhow::{Context, Result};

use crate::middle::median;

/// The CPU times at the beginning of a measurement.
pub(crate) struct Noise {
    pids: Vec<u32>,
    machine: Machine,
    own: u64,
}

/// The machine's CPU time, in ticks.
#[derive(Clone, Copy)]
struct Machine {
    total: u64,
    busy: u64,
}

impl Noise {
    pub(crate) fn begin(mut pids: Vec<u32>) -> Result<Self> {
        pids.sort_unstable();
        pids.dedup();
        Ok(Self { machine: machine()?, own: used_by(&pids)?, pids })
    }

    /// Returns the share of the machine's CPU time that other processes have used since.
    pub(crate) fn end(self) -> Result<f64> {
        let (now, own) = (machine()?, used_by(&self.pids)? - self.own);
        let total = (now.total - self.machine.total).max(1);
        let busy = now.busy - self.machine.busy;
        Ok(busy.saturating_sub(own) as f64 / total as f64)
    }
}

fn machine() -> Result<Machine> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    // user, nice, system, idle, iowait, irq, softirq, steal
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>()?;
    let total = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Ok(Machine { total, busy: total - idle })
}

fn used_by(pids: &[u32]) -> Result<u64> {
    pids.iter().map(|pid| process(*pid)).sum()
}

fn process(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no command in a stat file")?;
    // The first of these fields is the state; user and system time are the twelfth and thirteenth.
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().context("no number of ticks")).sum()
}

/// The largest share of CPU time for other processes in a quiet round. A noisy round is repeated,
/// and left out if enough other rounds remain.
pub(crate) const QUIET: f64 = 0.10;

/// Rounds of a measurement, each with its noise.
pub(crate) struct Rounds<T>(Vec<(T, f64)>);

impl<T> Rounds<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Runs a round, and another one if the first was noisy.
    pub(crate) fn add(&mut self, mut round: impl FnMut() -> Result<(T, f64)>) -> Result<()> {
        self.0.push(round()?);
        if self.0.last().is_some_and(|(_, noise)| *noise > QUIET) {
            self.0.push(round()?);
        }
        Ok(())
    }

    /// Leaves out noisy rounds, but never more than half of all rounds.
    pub(crate) fn quiet(mut self) -> Quiet<T> {
        self.0.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let n_rounds = self.0.len();
        let n_quiet = self.0.iter().filter(|(_, noise)| *noise <= QUIET).count();
        self.0.truncate(n_quiet.max(n_rounds.div_ceil(2)));
        Quiet { kept: self.0.into_iter().map(|(round, _)| round).collect(), n_quiet, n_rounds }
    }
}

/// The rounds that count.
pub(crate) struct Quiet<T> {
    kept: Vec<T>,
    n_quiet: usize,
    n_rounds: usize,
}

impl<T> Quiet<T> {
    /// Returns the median of a value over the rounds.
    pub(crate) fn middle(&self, of: impl Fn(&T) -> f64) -> f64 {
        median(self.kept.iter().map(of))
    }

    /// Formats how many of the rounds were quiet.
    pub(crate) fn count(&self) -> String {
        format!("{} of {}", self.n_quiet, self.n_rounds)
    }
}
