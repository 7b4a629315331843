//! Measures two sides that run alternately, for a moment each.

use anyhow::Result;

use crate::middle::median;
use crate::sample::Sample;

/// The results, in microseconds.
pub(crate) struct Rounds {
    pub(crate) go_us: f64,
    pub(crate) rust_us: f64,
    /// The median of the ratios of the rounds.
    pub(crate) ratio: f64,
    pub(crate) cpu_ratio: f64,
}

/// One round: two samples of each side.
struct Round {
    go: [Sample; 2],
    rust: [Sample; 2],
}

impl Rounds {
    /// Runs both sides once to warm up, and then `count` rounds.
    pub(crate) fn measure(
        count: usize,
        mut go: impl FnMut() -> Result<Sample>,
        mut rust: impl FnMut() -> Result<Sample>,
    ) -> Result<Self> {
        go()?;
        rust()?;
        let mut rounds = vec![];
        for _ in 0..count {
            // A change in the speed of the machine affects both sides alike.
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
