//! The time that one request waits for plugins that do not answer: arithmetic without a clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::{BUDGETED_TIMEOUTS, RequestBudget};

/// The fraction of its request timeout that a plugin gets at least, while anything is left of the
/// budget.
const LEAST_SHARE: u32 = 10;

/// The remaining time that a request may wait, in total, for plugins that do not answer it.
///
/// The time of a plugin that answers is not charged. Until a plugin was silent, each plugin may
/// take its whole request timeout. After that, the plugins that are still to be asked share the
/// remaining time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    left: Duration,
    /// The request timeout from which a default budget is computed. A silent plugin costs at most
    /// this much, also if its own request timeout is longer. `None` for a budget that the operator
    /// has set.
    unit: Option<Duration>,
    /// The time that is kept for validators, which are asked after all others.
    kept: Duration,
    /// Whether the plugins that are still to be asked share the remaining time.
    is_shared: bool,
}

/// The time that a request waits for one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// The whole request timeout of the plugin.
    Whole,
    /// At most this time, for the lane and the answer together. If it is zero, the plugin is not
    /// asked.
    Only(Duration),
}

impl Patience {
    pub(crate) fn new(budget: RequestBudget) -> Self {
        let (left, unit) = match budget {
            RequestBudget::Set(budget) => (budget, None),
            RequestBudget::Timeouts(timeout) => (timeout.saturating_mul(BUDGETED_TIMEOUTS), Some(timeout)),
        };
        Self { left, unit, kept: Duration::ZERO, is_shared: false }
    }

    /// Keeps one request timeout for the validators, which are all asked at the same time. Of a
    /// budget that the operator has set, at most half is kept.
    pub(crate) fn keep_for_validators(&mut self, timeout: Duration) {
        self.kept = if self.unit.is_some() { timeout } else { timeout.min(self.left / 2) };
        self.left = self.left.saturating_sub(self.cost(self.kept));
    }

    /// Returns how long the request waits for the next plugin, whose request timeout is `timeout`.
    /// `n_to_ask` counts the plugins that are still to be asked, including the next one.
    pub(crate) fn of_next(&self, timeout: Duration, n_to_ask: impl FnOnce() -> usize) -> Allowance {
        if !self.is_shared {
            return if self.unit.is_some() { Allowance::Whole } else { Allowance::up_to(timeout, self.left) };
        }
        let n_to_ask = u32::try_from(n_to_ask().max(1)).unwrap_or(u32::MAX);
        let share = (self.left / n_to_ask).max(timeout / LEAST_SHARE);
        Allowance::up_to(timeout, share.min(self.left))
    }

    /// Returns how long the request waits for a validator whose request timeout is `timeout`.
    pub(crate) fn of_validators(&self, timeout: Duration) -> Allowance {
        Allowance::up_to(timeout, self.left.saturating_add(self.kept))
    }

    /// Charges the time that the request has waited for a plugin that did not answer. At most
    /// `timeout`, the request timeout of the plugin, is charged: beyond that, the request waited
    /// for answers to other requests.
    pub(crate) fn charge(&mut self, waited: Duration, timeout: Duration) {
        let lost = waited.min(timeout);
        self.left = self.left.saturating_sub(self.cost(lost));
        // A short silence is no reason to shorten the time of other plugins.
        self.is_shared |= !lost.is_zero() && lost >= timeout / LEAST_SHARE;
    }

    /// Returns what this much time of one plugin costs of the budget.
    fn cost(&self, time: Duration) -> Duration {
        self.unit.map_or(time, |unit| time.min(unit))
    }
}

impl Allowance {
    fn up_to(timeout: Duration, most: Duration) -> Self {
        if most < timeout { Self::Only(most) } else { Self::Whole }
    }

    /// Returns when the request stops waiting, or `None` if the plugin may take its whole request
    /// timeout.
    pub(crate) fn ends(self, begun: Instant) -> Option<Instant> {
        match self {
            Self::Whole => None,
            Self::Only(time) => Some(begun + time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: u64 = 500;
    const NEVER: u64 = u64::MAX;
    /// The number of plugins in the tests.
    const N: usize = 60;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Returns a budget of this size that the operator has set.
    fn set(budget: Duration) -> Patience {
        Patience::new(RequestBudget::Set(budget))
    }

    /// Returns the default budget, for an operator who sets none.
    fn unset() -> Patience {
        Patience::new(RequestBudget::Timeouts(ms(TIMEOUT)))
    }

    /// Asks plugins one after the other, each of which takes this long to answer. Returns how long
    /// the request waits for each plugin, `None` for a plugin that is not asked.
    fn waits(mut patience: Patience, takes: &[u64]) -> Vec<Option<u64>> {
        let wait = |(place, takes): (usize, &u64)| {
            let most = match patience.of_next(ms(TIMEOUT), || N - place) {
                Allowance::Whole => TIMEOUT,
                Allowance::Only(Duration::ZERO) => return None,
                Allowance::Only(time) => u64::try_from(time.as_millis()).unwrap(),
            };
            if *takes > most {
                patience.charge(ms(most), ms(TIMEOUT));
            }
            Some(*takes.min(&most))
        };
        takes.iter().enumerate().map(wait).collect()
    }

    #[test]
    fn answers_cost_nothing_however_many_there_are() {
        check(1500, 0, &[499; N], &[Some(499); N]);
    }

    #[test]
    fn silence_costs_the_budget_and_no_more() {
        let expected: Vec<_> = [Some(TIMEOUT)].into_iter().chain([Some(50); 20]).chain([None; N - 21]).collect();
        check(1500, 0, &[NEVER; N], &expected);
        for budget in [0, 1, 49, 50, 51, 499, 500, 501, 1500, 30_000, 60_000] {
            for kept in [0, TIMEOUT] {
                let mut patience = set(ms(budget));
                patience.keep_for_validators(ms(kept));
                let Allowance::Only(validators) = patience.of_validators(ms(1 << 40)) else { unreachable!() };
                let waited: u64 = waits(patience, &[NEVER; N]).iter().flatten().sum();
                assert_eq!(validators, ms(budget), "all is left for them if the others answer");
                assert!(ms(waited) <= ms(budget), "{waited} of {budget}");
            }
        }
    }

    #[test]
    fn those_behind_a_silent_plugin_share_what_is_left() {
        let mut patience = set(ms(1500));
        for (n_to_ask, share) in [(1, 500), (2, 500), (3, 333), (4, 250), (10, 100), (20, 50), (1000, 50)] {
            assert_eq!(patience.of_next(ms(TIMEOUT), || n_to_ask), Allowance::Whole, "nobody was silent yet");
            let mut patience = patience.clone();
            patience.charge(ms(TIMEOUT), ms(TIMEOUT));
            let expected = if share < TIMEOUT { Some(share) } else { None };
            let found = match patience.of_next(ms(TIMEOUT), || n_to_ask) {
                Allowance::Whole => None,
                Allowance::Only(time) => Some(u64::try_from(time.as_millis()).unwrap()),
            };
            assert_eq!(found, expected, "{n_to_ask} plugins");
        }
        patience.charge(ms(49), ms(TIMEOUT));
        assert_eq!(patience.of_next(ms(TIMEOUT), || 1000), Allowance::Whole, "a moment does not count");
    }

    #[test]
    fn a_healthy_plugin_behind_silent_ones_is_waited_for() {
        let takes: Vec<_> = [NEVER; 3].into_iter().chain([40; N - 3]).collect();
        let expected: Vec<_> = [Some(TIMEOUT), Some(50), Some(50)].into_iter().chain([Some(40); N - 3]).collect();
        check(1500, 0, &takes, &expected);
    }

    #[test]
    fn one_request_timeout_is_kept_for_validators() {
        let mut patience = set(ms(1500));
        patience.keep_for_validators(ms(TIMEOUT));
        assert_eq!(waits(patience.clone(), &[NEVER; N]).iter().flatten().sum::<u64>(), 1000);
        for _ in 0..N {
            patience.charge(ms(TIMEOUT), ms(TIMEOUT));
        }
        assert_eq!(patience.of_validators(ms(TIMEOUT)), Allowance::Whole);
        assert_eq!(patience.of_validators(ms(TIMEOUT + 1)), Allowance::Only(ms(TIMEOUT)));
        let mut little = set(ms(300));
        little.keep_for_validators(ms(TIMEOUT));
        assert_eq!(little.of_next(ms(TIMEOUT), || 1), Allowance::Only(ms(150)), "half is for those before them");
    }

    #[test]
    fn a_plugin_with_a_long_request_timeout_has_it_while_nobody_is_silent_and_does_not_lengthen_the_budget() {
        const LONG: u64 = 60_000;
        let mut patience = unset();
        assert_eq!(patience.of_next(ms(LONG), || N), Allowance::Whole);
        patience.charge(ms(LONG), ms(LONG));
        assert_eq!(patience.left, ms(1000), "it costs what one of the others costs");
        assert_eq!(waits(patience, &[NEVER; N]).iter().flatten().sum::<u64>(), 1000);

        let mut patience = unset();
        patience.charge(ms(TIMEOUT), ms(TIMEOUT));
        assert_eq!(patience.of_next(ms(LONG), || N), Allowance::Only(ms(1000)), "somebody was silent");
    }

    #[test]
    fn validators_with_a_long_request_timeout_have_all_of_it_of_a_budget_that_is_not_set() {
        let mut patience = unset();
        patience.keep_for_validators(ms(60_000));
        for _ in 0..N {
            patience.charge(ms(TIMEOUT), ms(TIMEOUT));
        }
        assert_eq!(patience.of_validators(ms(60_000)), Allowance::Whole);
    }

    #[test]
    fn what_was_waited_beyond_the_timeout_is_not_charged() {
        let mut patience = set(ms(1500));
        patience.charge(ms(9000), ms(TIMEOUT));
        assert_eq!(patience.left, ms(1000));
    }

    #[track_caller]
    fn check(budget: u64, kept: u64, takes: &[u64], expected: &[Option<u64>]) {
        let mut patience = set(ms(budget));
        patience.keep_for_validators(ms(kept));
        assert_eq!(waits(patience, takes), expected);
    }
}
