//! Random schedules, compared with a model of the runtime. Whenever a plugin joins, each operation
//! of the runtime is either in the plugin's snapshot or delivered to the plugin, exactly once and
//! in order. Of a failed operation, the plugin receives nothing or also the rollback.

mod bookkeeper;
mod budgets;
mod catching_up;
mod checker;
mod crowd;
mod idle;
mod known;
mod lives;
mod load;
mod scene;
mod steady;
mod stumbling;
mod tardy;
mod waits;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::time::timeout;

use super::fake::SECOND;
use crate::mistake::Mistake;

/// Runs the schedule of a seed. Returns an error text if the schedule violates the model.
fn wrong<S>(schedule: impl FnOnce(u64) -> S, seed: u64) -> Option<String>
where
    S: Future<Output = Option<String>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let wrong = runtime.block_on(async { timeout(SECOND * 3600, schedule(seed)).await });
        let left = runtime.metrics().num_alive_tasks();
        match wrong {
            Err(_) => Some("a deadlock".to_owned()),
            Ok(None) if left > 0 => Some(format!("{left} tasks are left")),
            Ok(wrong) => wrong,
        }
    }));
    outcome.unwrap_or_else(|_| Some("a panic".to_owned()))
}

/// Runs this many schedules, or ten times as many in a long run. If `NRI_SEED` is set, runs only
/// the schedule of that seed.
fn check_all<S>(schedule: impl Fn(u64) -> S, schedules: u64)
where
    S: Future<Output = Option<String>>,
{
    let times = if std::env::var_os("NRI_LONG").is_some() { 10 } else { 1 };
    let seed: Option<u64> = std::env::var("NRI_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seed.map_or(1..=schedules * times, |seed| seed..=seed) {
        if let Some(wrong) = wrong(&schedule, seed) {
            panic!("the schedule of seed {seed} failed: {wrong}");
        }
    }
}

#[test]
fn a25_every_act_is_in_the_snapshot_or_told_once_and_in_order_whenever_a_plugin_joins() {
    check_all(world::schedule, 2000);
}

#[test]
fn no_request_waits_for_a_backlog_and_a_plugin_that_is_behind_is_soon_even() {
    check_all(catching_up::schedule, 25);
}

#[test]
fn no_request_waits_for_the_backlogs_of_several_plugins_and_each_is_told_everything_once() {
    check_all(crowd::schedule, 25);
}

#[test]
fn a_suspended_plugin_hears_what_it_missed_although_nothing_more_happens() {
    check_all(idle::schedule, 100);
}

#[test]
fn a_plugin_that_is_late_now_and_then_stays_only_if_its_backlog_becomes_shorter() {
    check_all(stumbling::schedule, 100);
}

#[test]
fn what_a_late_answer_wants_is_applied_once_if_what_it_is_about_has_happened() {
    check_all(tardy::schedule, 300);
}

#[test]
fn silence_costs_a_request_at_most_its_budget_whoever_is_silent() {
    check_all(budgets::schedule, 200);
}

/// Checks that the model notices a mistake that is injected into the code, with one of these texts.
fn is_noticed<S>(schedule: impl Fn(u64) -> S, mistake: Mistake, says: &[&str])
where
    S: Future<Output = Option<String>>,
{
    let is_checked = |wrong: &String| says.iter().any(|says| wrong.contains(says));
    Mistake::inject(Some(mistake));
    let noticed = (1..=500).find_map(|seed| Some((seed, wrong(&schedule, seed).filter(is_checked)?)));
    Mistake::inject(None);
    let (seed, wrong) = noticed.unwrap_or_else(|| panic!("nobody noticed: {mistake:?}"));
    println!("{mistake:?} is noticed with seed {seed}: {wrong}");
}

const NOT_WHAT_HAPPENED: &[&str] = &["but what happened is"];

#[test]
fn the_model_notices_a_journal_that_is_not_kept() {
    is_noticed(world::schedule, Mistake::JournalNotKept, NOT_WHAT_HAPPENED);
}

#[test]
fn the_model_notices_a_snapshot_after_the_fact() {
    is_noticed(world::schedule, Mistake::SnapshotAfterTheFact, NOT_WHAT_HAPPENED);
}

#[test]
fn the_model_notices_an_undo_that_is_lost() {
    is_noticed(world::schedule, Mistake::UndoLost, NOT_WHAT_HAPPENED);
}

#[test]
fn the_model_notices_a_stop_that_is_told_twice() {
    is_noticed(world::schedule, Mistake::StopDoubled, NOT_WHAT_HAPPENED);
}

#[test]
fn the_model_notices_a_remove_that_is_forgotten() {
    is_noticed(world::schedule, Mistake::RemoveForgotten, NOT_WHAT_HAPPENED);
}

#[test]
fn the_model_notices_a_backlog_that_is_out_of_order() {
    is_noticed(world::schedule, Mistake::BacklogOutOfOrder, NOT_WHAT_HAPPENED);
    is_noticed(catching_up::schedule, Mistake::BacklogOutOfOrder, &["was told after what came later"]);
}

#[test]
fn the_model_notices_a_failed_operation_that_is_delivered() {
    is_noticed(world::schedule, Mistake::FailureDelivered, NOT_WHAT_HAPPENED);
    is_noticed(catching_up::schedule, Mistake::FailureDelivered, &["was told although it did not happen"]);
}

#[test]
fn the_model_notices_an_undo_for_plugins_that_saw_nothing() {
    is_noticed(world::schedule, Mistake::UndoneForAll, NOT_WHAT_HAPPENED);
}

#[test]
fn the_model_notices_a_backlog_that_requests_wait_for() {
    is_noticed(catching_up::schedule, Mistake::BacklogWaitedFor, &["nobody was asked about anything"]);
}

#[test]
fn the_model_notices_a_request_that_loses_its_place_in_the_lane() {
    is_noticed(catching_up::schedule, Mistake::PlaceLost, &["nobody was asked about anything"]);
}

#[test]
fn the_model_notices_a_probe_that_makes_a_plugin_active_while_it_is_behind() {
    is_noticed(catching_up::schedule, Mistake::ProbeMakesActive, &["nobody was asked about anything"]);
}

#[test]
fn the_model_notices_a_suspended_plugin_that_only_requests_probe() {
    is_noticed(idle::schedule, Mistake::OnlyRequestsProbe, &["requests were not told"]);
}

#[test]
fn the_model_notices_a_late_answer_that_does_not_end_a_suspension() {
    is_noticed(idle::schedule, Mistake::LateAnswerKeepsSuspended, &["requests were not told"]);
}

#[test]
fn the_model_notices_an_overdue_answer_that_ends_a_catching_up() {
    is_noticed(stumbling::schedule, Mistake::LateAnswerEndsCatchUp, &["although its backlog does not become shorter"]);
}

#[test]
fn the_model_notices_a_late_answer_that_is_lost() {
    is_noticed(tardy::schedule, Mistake::LateAnswerLost, &["what it wants was lost"]);
}
