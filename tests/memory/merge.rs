//! The memory that a merge costs.

use nri_adaptation::merge::{StopMerge, UpdateMerge};
use nri_proto::{HugepageLimit, Resources, StopReply, Update, UpdateReply};

use crate::{Count, alone};

const OWN: &str = "own";

#[test]
fn limits_of_huge_pages_cost_the_same_each_however_many_updates_they_come_in() {
    alone(async {
        for merge in [merge_own, merge_other] {
            let (few, many) = (merge(1000), merge(4000));
            assert!(many < 6 * few, "{few} bytes are allocated for 1000 updates, {many} for 4000");
        }
    });
}

/// Returns the bytes allocated for this many updates of the container that the request is about.
fn merge_own(n_updates: usize) -> usize {
    let reply = UpdateReply { updates: updates(OWN, n_updates), ..UpdateReply::default() };
    let mut merge = UpdateMerge::new(OWN, Resources { hugepage_limits: vec![limit(0)], ..Resources::default() });
    let count = Count::begin();
    merge.apply(&"10-a".parse().unwrap(), reply).unwrap();
    count.allocated()
}

/// Returns the bytes allocated for this many updates of another container.
fn merge_other(n_updates: usize) -> usize {
    let reply = StopReply { updates: updates("other", n_updates), ..StopReply::default() };
    let mut merge = StopMerge::new();
    let count = Count::begin();
    merge.apply(&"10-a".parse().unwrap(), reply).unwrap();
    count.allocated()
}

fn updates(container: &str, n_updates: usize) -> Vec<Update> {
    let each = |n| Resources { hugepage_limits: vec![limit(n)], ..Resources::default() };
    (0..n_updates).map(|n| Update::new(container, each(n))).collect()
}

fn limit(n: usize) -> HugepageLimit {
    HugepageLimit { page_size: format!("{n}kB"), limit: n as u64, ..HugepageLimit::default() }
}
