//! Random cases that both Go and this implementation process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::{env, process};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

/// Returns the number of cases. `NRI_LONG` asks for a longer run.
pub(crate) fn cases() -> u32 {
    if env::var_os("NRI_LONG").is_some() { 30_000 } else { 2_000 }
}

/// Compares all cases, and returns how often each verdict occurred. Ends at the first unknown
/// difference.
pub(crate) fn tally<S: Strategy, V: Ord + Debug>(
    strategy: &S,
    compare: impl FnMut(S::Value) -> Result<V, TestCaseError>,
) -> BTreeMap<V, u32> {
    let (compare, tally) = (RefCell::new(compare), RefCell::new(BTreeMap::new()));
    let seed = seed();
    let config =
        Config { cases: cases(), rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let compared = TestRunner::new(config).run(strategy, |case| {
        let verdict = (compare.borrow_mut())(case)?;
        *tally.borrow_mut().entry(verdict).or_default() += 1;
        Ok(())
    });
    if let Err(error) = compared {
        panic!("NRI_SEED={seed} repeats this: {error}");
    }
    let tally = tally.into_inner();
    eprintln!("seed {seed}: {tally:?}");
    tally
}

/// Returns the seed of the run. `NRI_SEED` repeats an earlier run.
pub(crate) fn seed() -> u64 {
    match env::var("NRI_SEED") {
        Ok(seed) => seed.parse().expect("NRI_SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() ^ u64::from(process::id()) << 32),
    }
}
