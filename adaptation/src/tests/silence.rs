//! Plugins that do not answer in time.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::Event;
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Adaptation;
use crate::Notice;
use crate::api::health::State;

async fn run(nri: &Adaptation, id: &str) -> Duration {
    let before = Instant::now();
    let operation = nri.begin(pod(id));
    operation.notify(Notice::RunPod).await.unwrap();
    operation.commit();
    before.elapsed()
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_silent_plugin_twice() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::After(SECOND * 60), &diary);
    let nri = adaptation("plugin_defaults.strikes = 100", &[("10-stuck", &stuck)]).await;
    assert_eq!(run(&nri, "first").await, SECOND * 2);
    assert_eq!(run(&nri, "second").await, Duration::ZERO, "the silent plugin was waited for again");
    assert_eq!(nri.plugins()[0].state, State::Silent);
}

#[tokio::test(start_paused = true)]
async fn those_who_queue_for_a_plugin_that_becomes_silent_go_on_at_once() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &diary);
    let nri = Arc::new(adaptation("", &[("10-stuck", &stuck)]).await);
    let before = Instant::now();
    let queue: Vec<_> = (0..10)
        .map(|number| {
            let nri = Arc::clone(&nri);
            tokio::spawn(async move { run(&nri, &format!("p{number}")).await })
        })
        .collect();
    for request in queue {
        request.await.unwrap();
    }
    assert_eq!(before.elapsed(), SECOND * 2, "one timeout for all, not one each");
    assert_eq!(diary.lines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn u36_a_silent_plugin_never_has_two_requests_and_hears_of_the_end_after_its_beginning() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
    let nri = adaptation("", &[("10-slow", &slow)]).await;
    let create = nri.begin(pod("p"));
    create.create_container(container("c1")).await.unwrap();
    slow.behave(at_once());
    create.stop_container(container("c1")).await.unwrap();
    create.notify(Notice::Remove(container("c1"))).await.unwrap();
    assert_eq!(diary.lines(), ["10-slow CreateContainer c1"], "it still thinks about the create");
    sleep(SECOND * 2).await;
    run(&nri, "next").await;
    assert_eq!(
        diary.lines(),
        [
            "10-slow CreateContainer c1",
            "10-slow StopContainer c1",
            "10-slow RemoveContainer c1",
            "10-slow RunPodSandbox next"
        ]
    );
    assert_eq!(slow.most_at_a_time(), 1);
    assert_eq!(nri.plugins()[0].state, State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_stays_silent_is_closed_at_its_strikes() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &diary);
    let nri = adaptation("", &[("10-stuck", &stuck)]).await;
    let mut happenings = nri.watch();
    run(&nri, "p").await;
    sleep(SECOND * 5).await;
    assert!(nri.plugins().is_empty());
    let mut told = Vec::new();
    while let Ok(happening) = happenings.try_recv() {
        told.push(format!("{happening:?}"));
    }
    assert!(told.last().unwrap().contains("silent for too long"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn u39_a_plugin_that_is_kept_is_suspended_and_tried_again_later() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 5), &diary);
    let policy = "[plugins.slow]\nkeep_connected = true\nstrikes = 2";
    let nri = adaptation(policy, &[("10-slow", &slow)]).await;
    assert_eq!(run(&nri, "p1").await, SECOND * 2);
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(nri.plugins()[0].state, State::Suspended);
    assert_eq!(run(&nri, "p2").await, Duration::ZERO);
    slow.behave(at_once());
    sleep(SECOND * 20).await;
    run(&nri, "p3").await;
    sleep(SECOND).await;
    assert_eq!(nri.plugins()[0].state, State::Active);
    let told = ["p1", "p2", "p3"].map(|id| format!("10-slow RunPodSandbox {id}"));
    assert_eq!(diary.lines(), told, "it heard of all that it was passed over for");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_hears_first_what_it_missed() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
    let policy = "[plugins.slow]\nkeep_connected = true\nstrikes = 1";
    let nri = adaptation(policy, &[("10-slow", &slow)]).await;
    run(&nri, "p1").await;
    nri.begin(pod("p1")).notify(Notice::StopPod).await.unwrap();
    slow.behave(at_once());
    sleep(SECOND * 30).await;
    run(&nri, "p2").await;
    sleep(SECOND).await;
    run(&nri, "p3").await;
    assert_eq!(
        diary.lines(),
        ["RunPodSandbox p1", "StopPodSandbox p1", "RunPodSandbox p2", "RunPodSandbox p3"]
            .map(|line| format!("10-slow {line}")),
        "the request that found it suspended was its trial's occasion, and it heard of that later"
    );
}

#[tokio::test(start_paused = true)]
async fn u41_a_deadline_that_the_plugin_reports_is_judged_as_one_that_we_see() {
    let diary = Diary::default();
    let polite = FakePlugin::new("10-polite", LIFE, Manner::GivesUpAfter(Duration::from_millis(1999)), &diary);
    let policy = "[plugins.polite]\non_timeout = \"fail\"";
    let nri = adaptation(policy, &[("10-polite", &polite)]).await;
    for _ in 0..2 {
        let failed = nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap_err();
        assert_eq!(failed.to_string(), "plugin 10-polite failed to handle RunPodSandbox request");
        assert_eq!(nri.plugins()[0].state, State::Active, "it has answered, it owes nothing");
        sleep(SECOND).await;
    }
    let _ = nri.begin(pod("p")).notify(Notice::RunPod).await;
    tokio::task::yield_now().await;
    assert!(nri.plugins().is_empty(), "three strikes");
}

#[tokio::test(start_paused = true)]
async fn several_pods_of_a_per_pod_plugin_are_one_strike() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", Event::RunPodSandbox.into(), Manner::After(SECOND * 3), &diary);
    let nri = Arc::new(adaptation("[plugins.stuck]\nconcurrency = \"per-pod\"", &[("10-stuck", &stuck)]).await);
    let pods: Vec<_> = (0..5)
        .map(|number| {
            let nri = Arc::clone(&nri);
            tokio::spawn(async move { run(&nri, &format!("p{number}")).await })
        })
        .collect();
    for pod in pods {
        assert_eq!(pod.await.unwrap(), SECOND * 2);
    }
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(nri.plugins()[0].state, State::Active);
}
