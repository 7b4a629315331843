//! Two sides that do the same by turns, each in a moment.

use anyhow::Result;

use crate::middle::median;
use crate::sample::Sample;

/// What was found, in microseconds.
pub(crate) struct Rounds {
    pub(crate) go_us: f64,
    pub(crate) rust_us: f64,
    /// Medians of the ratios within a round.
    pub(crate) ratio: f64,
    pub(crate) cpu_ratio: f64,
}

/// Both sides, twice each.
struct Round {
    go: [Sample; 2],
    rust: [Sample; 2],
}

impl Rounds {
    /// Lets both sides work once for nothing, and then so many rounds.
    pub(crate) fn measure(
        count: usize,
        mut go: impl FnMut() -> Result<Sample>,
        mut rust: impl FnMut() -> Result<Sample>,
    ) -> Result<Self> {
        go()?;
        rust()?;
        let mut rounds = vec![];
        for _ in 0..count {
            // What gets slower or faster meanwhile does so for both.
            let (first, ours, again, last) = (go()?, rust()?, rust()?, go()?);
            rounds.push(Round { go: [first, last], rust: [ours, again] });
        }
        let mean = |samples: &[Sample; 2], of: fn(&Sample) -> f64| (of(&samples[0]) + of(&samples[1])) / 2.0;
        let middle = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of));
        let p50 = |sample: &Sample| sample.p50_us;
        let cpu = |sample: &Sample| sample.cpu_us_per_op;
        Ok(Self {
            go_us: middle(&|round| mean(&round.go, p50)),
            rust_us: middle(&|round| mean(&round.rust, p50)),
            ratio: middle(&|round| mean(&round.rust, p50) / mean(&round.go, p50)),
            cpu_ratio: middle(&|round| mean(&round.rust, cpu) / mean(&round.go, cpu)),
        })
    }
}
