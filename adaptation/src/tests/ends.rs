//! Every plugin receives the end of an object, and nothing is delivered before the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Adaptation;
use crate::Notice;
use crate::api::health::State;

async fn run(nri: &Adaptation, id: &str) {
    let operation = nri.begin(pod(id));
    operation.notify(Notice::RunPod).await.unwrap();
    operation.commit();
}

#[tokio::test(start_paused = true)]
async fn an_end_that_comes_during_a_trial_is_told_before_anything_else() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
    let policy = "[plugins.slow]\nkeep_connected = true\nstrikes = 1";
    let nri = Arc::new(adaptation(policy, &[("10-slow", &slow)]).await);
    run(&nri, "p1").await;
    sleep(SECOND * 30).await;
    slow.behave(Manner::After(SECOND));
    let trying = Arc::clone(&nri);
    let trial = tokio::spawn(async move { run(&trying, "p2").await });
    sleep(Duration::from_millis(500)).await;
    nri.begin(pod("p1")).notify(Notice::StopPod).await.unwrap();
    trial.await.unwrap();
    nri.begin(pod("p1")).notify(Notice::RemovePod).await.unwrap();
    let events = ["RunPodSandbox p1", "RunPodSandbox p2", "StopPodSandbox p1", "RemovePodSandbox p1"];
    assert_eq!(diary.lines(), events.map(|event| format!("10-slow {event}")));
}

#[tokio::test(start_paused = true)]
async fn an_end_whose_turn_did_not_come_is_told_later() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let nri = Arc::new(adaptation("", &[("10-slow", &slow)]).await);
    let stops: Vec<_> = (0..16)
        .map(|number| {
            let nri = Arc::clone(&nri);
            tokio::spawn(async move { nri.begin(pod(&format!("p{number}"))).notify(Notice::StopPod).await })
        })
        .collect();
    for stop in stops {
        stop.await.unwrap().unwrap();
    }
    sleep(SECOND * 20).await;
    let mut told = diary.lines();
    told.sort();
    told.dedup();
    assert_eq!((told.len(), diary.lines().len()), (16, 16), "{told:?}");
    assert_eq!(slow.most_at_a_time(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_plugin_hears_of_an_end_although_the_caller_has_left() {
    for deadline in [true, false] {
        let diary = Diary::default();
        let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
        let next = FakePlugin::new("20-next", LIFE, at_once(), &diary);
        let nri = adaptation("", &[("10-slow", &slow), ("20-next", &next)]).await;
        let soon = Duration::from_millis(100);
        if deadline {
            let operation = nri.begin(pod("p")).until(Instant::now() + soon);
            let error = operation.stop_container(container("c")).await.unwrap_err();
            assert_eq!(error.to_string(), "plugin 10-slow failed to handle StopContainer request");
        } else {
            assert!(timeout(soon, nri.begin(pod("p")).stop_container(container("c"))).await.is_err());
        }
        nri.begin(pod("p")).notify(Notice::Remove(container("c"))).await.unwrap();
        let events = ["10-slow Stop", "20-next Stop", "10-slow Remove", "20-next Remove"];
        assert_eq!(diary.lines(), events.map(|event| format!("{event}Container c")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_per_pod_plugin_has_one_request_about_a_pod_although_its_caller_left() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let nri = adaptation("[plugins.slow]\nconcurrency = \"per-pod\"", &[("10-slow", &slow)]).await;
    let operation = nri.begin(pod("p"));
    assert!(timeout(Duration::from_millis(100), operation.create_container(container("c"))).await.is_err());
    operation.stop_container(container("c")).await.unwrap();
    assert_eq!(slow.most_at_a_time(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_per_pod_plugin_is_told_what_it_missed_about_a_pod_one_by_one() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(Duration::from_millis(2100)), &diary);
    let nri = Arc::new(adaptation("[plugins.slow]\nconcurrency = \"per-pod\"", &[("10-slow", &slow)]).await);
    let run = |id: &'static str| {
        let nri = Arc::clone(&nri);
        tokio::spawn(async move { run(&nri, id).await })
    };
    let a = run("a");
    sleep(Duration::from_millis(500)).await;
    slow.behave(Manner::After(Duration::from_millis(2050)));
    let b = run("b");
    a.await.unwrap();
    slow.behave(Manner::After(SECOND));
    let ending = nri.begin(pod("x"));
    ending.stop_container(container("x")).await.unwrap();
    ending.notify(Notice::Remove(container("x"))).await.unwrap();
    b.await.unwrap();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(diary.lines().last().unwrap(), "10-slow StopContainer x", "the next one waits for it");
    sleep(SECOND * 2).await;
    assert_eq!(diary.lines().last().unwrap(), "10-slow RemoveContainer x");
    assert_eq!(nri.plugins()[0].state, State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_its_trial_is_left_in_peace() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
    let policy = "[plugins.slow]\nkeep_connected = true\nstrikes = 1";
    let nri = adaptation(policy, &[("10-slow", &slow)]).await;
    run(&nri, "p").await;
    for number in 0..5 {
        nri.begin(pod(&format!("p{number}"))).notify(Notice::StopPod).await.unwrap();
    }
    slow.behave(Manner::GivesUpAfter(Duration::from_millis(1900)));
    sleep(SECOND * 30).await;
    nri.begin(pod("q")).notify(Notice::RunPod).await.unwrap();
    sleep(SECOND * 15).await;
    // One probe after the plugin's late answer, and one after the pause that followed.
    assert_eq!(diary.lines().len(), 3, "{:?}", diary.lines());
    assert_eq!(nri.plugins()[0].state, State::Suspended);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_a_plugin_has_not_taken_is_told_again_before_anything_else() {
    let diary = Diary::default();
    let full = FakePlugin::new("10-full", LIFE, Manner::DoesNotTake, &diary);
    let nri = adaptation("", &[("10-full", &full)]).await;
    nri.begin(pod("p")).notify(Notice::StopPod).await.unwrap();
    full.behave(at_once());
    nri.begin(pod("p")).notify(Notice::RemovePod).await.unwrap();
    sleep(SECOND * 3).await;
    let told = diary.lines();
    assert_eq!(told[told.len() - 2..], ["10-full StopPodSandbox p", "10-full RemovePodSandbox p"]);
    assert!(told.len() >= 3, "it was told twice: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_panics_is_closed() {
    let diary = Diary::default();
    let bad = FakePlugin::new("10-bad", LIFE, Manner::Panics, &diary);
    let nri = adaptation("", &[("10-bad", &bad)]).await;
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    tokio::task::yield_now().await;
    assert!(nri.plugins().is_empty());
}
