//! Random schedules of a runtime on this crate, checked against a model of what plugins may see:
//! starts that are refused, dropped and repeated, exits at any moment, slow domains, and plugins
//! that join at any moment.

mod checker;
mod found;
mod keeper;
mod lives;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nri_api::Mistake;
use tokio::time::timeout;

use self::world::schedule;

/// Runs the schedule of a seed, and returns the errors that the checker found.
fn wrong(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let wrong = runtime.block_on(async { timeout(Duration::from_secs(3600), schedule(seed)).await });
        wrong.unwrap_or_else(|_| vec!["a deadlock".to_owned()])
    }));
    outcome.unwrap_or_else(|_| vec!["a panic".to_owned()])
}

/// Returns the seeds of one run: those in `NRI_SEEDS=from-to`, many with `NRI_LONG`, else a few.
fn seeds() -> std::ops::RangeInclusive<u64> {
    let said = std::env::var("NRI_SEEDS").ok();
    let said = said.as_deref().and_then(|said| said.split_once('-'));
    match said.and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?)) {
        Some(seeds) => seeds,
        None if std::env::var_os("NRI_LONG").is_some() => 1..=20_000,
        None => 1..=200,
    }
}

#[test]
fn whatever_the_runtime_does_each_plugin_is_shown_and_told_what_has_happened() {
    let mut n_wrong = 0;
    for seed in seeds() {
        let wrong = wrong(seed);
        if !wrong.is_empty() {
            println!("the schedule of seed {seed} failed: {}", wrong.join("\n  "));
            n_wrong += 1;
        }
    }
    assert_eq!(n_wrong, 0, "so many schedules failed");
}

/// Checks that the model detects an injected fault within a few seeds, and reports it with these
/// words.
fn is_noticed(mistake: Mistake, as_what: &[&str]) {
    let is_meant = |wrong: &String| as_what.iter().all(|part| wrong.contains(part));
    Mistake::inject(Some(mistake));
    let noticed = (1..=300).any(|seed| wrong(seed).iter().any(is_meant));
    Mistake::inject(None);
    assert!(noticed, "nobody noticed: {mistake:?}");
}

#[test]
fn the_model_notices_an_exit_that_ends_another_run() {
    is_noticed(Mistake::ExitEndsAnyRun, &["was shown c/", "but what happened is"]);
}

#[test]
fn the_model_notices_a_restart_that_is_undone_for_all() {
    is_noticed(Mistake::RestartUndoneForAll, &["was told StopContainer of", r#"after Some("stopped")"#]);
}

#[test]
fn the_model_notices_that_the_start_of_what_runs_stops_it() {
    is_noticed(Mistake::StartOfRunningStops, &["was shown c/", "but what happened is"]);
}

#[test]
fn the_model_notices_a_pod_that_does_not_stop_with_its_container() {
    is_noticed(Mistake::RestartLeavesPod, &["was told RemovePodSandbox of", r#"in Some("pod")"#]);
}

#[test]
fn the_model_notices_an_update_that_hides_what_runs() {
    is_noticed(Mistake::UpdateHides, &["was shown c/", r#"as Some("stopped")"#]);
}

#[test]
fn the_model_notices_an_update_that_shows_what_has_stopped() {
    is_noticed(Mistake::UpdateShows, &["was told RemoveContainer of", r#"after Some("running")"#]);
}

#[test]
fn the_model_notices_a_stop_that_says_what_was_before() {
    is_noticed(Mistake::StopTellsTheState, &["was shown c/", r#"as Some("created")"#]);
}

#[test]
fn the_model_notices_words_that_contradict_what_plugins_know() {
    is_noticed(Mistake::WordsAsTheyAre, &["was told UpdateContainer of"]);
}

#[test]
fn the_model_notices_a_restart_that_is_shown_before_it_is_told() {
    is_noticed(Mistake::RestartIsShown, &["was shown c/", r#"as Some("created")"#]);
}
