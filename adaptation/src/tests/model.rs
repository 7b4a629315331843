//! Random schedules against a model of the runtime: whenever a plugin joins, each act of the runtime is in what it is shown or is told to
//! it, once, in order; of an act that failed it hears nothing, or that it is undone.

mod bookkeeper;
mod checker;
mod known;
mod lives;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::time::timeout;

use self::world::schedule;
use super::fake::SECOND;
use crate::shared::Mistake;

/// What is wrong with the schedule of this seed, if anything is.
fn wrong(seed: u64, mistake: Option<Mistake>) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let wrong = runtime.block_on(async { timeout(SECOND * 3600, schedule(seed, mistake)).await });
        let left = runtime.metrics().num_alive_tasks();
        match wrong {
            Err(_) => Some("a deadlock".to_owned()),
            Ok(None) if left > 0 => Some(format!("{left} tasks are left")),
            Ok(wrong) => wrong,
        }
    }));
    outcome.unwrap_or_else(|_| Some("a panic".to_owned()))
}

#[test]
fn a25_every_act_is_in_the_snapshot_or_told_once_and_in_order_whenever_a_plugin_joins() {
    let schedules = if std::env::var_os("NRI_LONG").is_some() { 20_000 } else { 2_000 };
    for seed in 1..=schedules {
        if let Some(wrong) = wrong(seed, None) {
            panic!("the schedule of seed {seed} failed: {wrong}");
        }
    }
}

/// A test that notices nothing is worth nothing. It is the checker that has to notice.
fn is_noticed(mistake: Mistake) {
    let is_checked = |wrong: &String| wrong.contains("but what happened is");
    let noticed = (1..=500).find_map(|seed| wrong(seed, Some(mistake)).filter(is_checked));
    assert!(noticed.is_some(), "nobody noticed: {mistake:?}");
}

#[test]
fn the_model_notices_a_journal_that_is_not_kept() {
    is_noticed(Mistake::JournalNotKept);
}

#[test]
fn the_model_notices_a_snapshot_after_the_fact() {
    is_noticed(Mistake::SnapshotAfterTheFact);
}

#[test]
fn the_model_notices_an_undo_that_is_lost() {
    is_noticed(Mistake::UndoLost);
}

#[test]
fn the_model_notices_a_stop_that_is_told_twice() {
    is_noticed(Mistake::StopDoubled);
}

#[test]
fn the_model_notices_a_remove_that_is_forgotten() {
    is_noticed(Mistake::RemoveForgotten);
}
