//! Callers with deadlines, and callers that drop their requests.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Cause;
use crate::Notice;
use crate::RelayError;
use crate::api::health::State;
use crate::ledger::EntryKind;

#[tokio::test(start_paused = true)]
async fn u33_a_callers_deadline_names_the_plugin_and_is_no_strike_by_itself() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(Duration::from_millis(1500)), &diary);
    let nri = adaptation("plugin_defaults.strikes = 1", &[("10-slow", &slow)]).await;
    let operation = nri.begin(pod("p")).until(Instant::now() + SECOND);
    let Err(RelayError::Failed(failed)) = operation.notify(Notice::RunPod).await else { panic!("it was in time") };
    assert_eq!(failed.plugin, "10-slow");
    assert!(matches!(failed.cause, Cause::CallerDeadline));
    sleep(SECOND).await;
    assert_eq!(nri.plugins()[0].state, State::Active, "it answered in its own time");
}

/// U33: in Go, a hung plugin is never dropped if callers are impatient.
#[tokio::test(start_paused = true)]
async fn u33_a_plugin_whose_own_time_is_over_too_is_judged_although_the_caller_has_left() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &diary);
    let last = FakePlugin::new("90-last", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-stuck", &stuck), ("90-last", &last)]).await;
    assert!(nri.begin(pod("p")).until(Instant::now() + SECOND).notify(Notice::RunPod).await.is_err());
    sleep(SECOND * 2).await;
    assert_eq!(nri.plugins()[0].state, State::Silent);
    nri.begin(pod("p")).until(Instant::now() + SECOND).notify(Notice::RunPod).await.unwrap();
    assert_eq!(diary.lines().last().unwrap(), "90-last RunPodSandbox p");
}

/// U33: only the ledger reports the outcome.
#[tokio::test(start_paused = true)]
async fn u33_what_a_plugin_does_that_outlasts_its_caller_is_in_the_ledger() {
    let soon = Duration::from_millis(1500);
    let refused = EntryKind::Refused { reason: "no".to_owned() };
    for (manner, expected) in [
        (Manner::After(soon), EntryKind::Late { fields: vec![] }),
        (Manner::RefusesAfter(soon), refused.clone()),
        (Manner::Never, EntryKind::TimedOut),
    ] {
        let slow = FakePlugin::new("10-slow", LIFE, manner, &Diary::default());
        let nri = adaptation("", &[("10-slow", &slow)]).await;
        let operation = nri.begin(pod("p")).until(Instant::now() + SECOND);
        assert!(operation.create_container(container("c")).await.is_err());
        sleep(SECOND * 2).await;
        let whats: Vec<_> = nri.ledger(|ledger| ledger.of("c")).iter().map(|entry| entry.what.clone()).collect();
        assert_eq!(whats, [expected], "{manner:?}");
    }

    let late = FakePlugin::new("10-slow", LIFE, Manner::RefusesAfter(SECOND * 3), &Diary::default());
    let nri = adaptation("", &[("10-slow", &late)]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    sleep(SECOND * 2).await;
    let whats: Vec<_> = nri.ledger(|ledger| ledger.of("c")).iter().map(|entry| entry.what.clone()).collect();
    assert_eq!(whats, [EntryKind::TimedOut, refused], "a refusal that is late");
}

/// A48: a caller drops its request.
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_frees_the_pods_turn_and_not_the_plugins_lane() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let nri = adaptation("", &[("10-slow", &slow)]).await;
    let operation = nri.begin(pod("p"));
    assert!(timeout(Duration::from_millis(500), operation.notify(Notice::RunPod)).await.is_err());
    let before = Instant::now();
    operation.notify(Notice::StopPod).await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_millis(1500), "the rest of the first, then its own");
    assert_eq!(slow.most_at_a_time(), 1);
}
