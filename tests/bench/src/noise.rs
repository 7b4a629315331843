//! How busy the machine is with what is not measured.

use anyhow::{Context, Result};

/// A look at the machine before something is measured.
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
    pub(crate) fn begin(pids: Vec<u32>) -> Result<Self> {
        Ok(Self { machine: machine()?, own: used_by(&pids)?, pids })
    }

    /// The share of the machine's CPU time that went to others since.
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
    // The state is first of these; user and system time are the twelfth and thirteenth.
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().context("no number of ticks")).sum()
}
