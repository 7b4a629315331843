//! The results of one run.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// The results of one run of a runtime, in microseconds. Go's side prints the same fields.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) operations: usize,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_op: f64,
}

/// The results of a job. Go's side prints the same fields.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Outcome {
    #[serde(flatten)]
    pub(crate) sample: Sample,
    pub(crate) wall_us: f64,
    /// How many containers other callers created meanwhile.
    pub(crate) beside: usize,
    /// How many variables the plugins set for the last container that was created.
    pub(crate) env: usize,
}

impl Sample {
    /// Summarizes operations, given their durations and their total CPU time.
    pub(crate) fn new(mut took: Vec<Duration>, cpu: Duration) -> Result<Self> {
        took.sort_unstable();
        let at = |percent: usize| took.get(took.len() * percent / 100).copied().context("nothing was measured");
        Ok(Self {
            operations: took.len(),
            p50_us: microseconds(at(50)?),
            p99_us: microseconds(at(99)?),
            cpu_us_per_op: microseconds(cpu) / took.len() as f64,
        })
    }
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the CPU time of this process so far, user and system.
pub(crate) fn cpu_used() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("could not ask for the CPU time")?;
    let total = usage.user_time() + usage.system_time();
    let microseconds = u64::try_from(nix::sys::time::TimeValLike::num_microseconds(&total))?;
    Ok(Duration::from_micros(microseconds))
}
