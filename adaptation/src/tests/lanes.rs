//! The order of requests, the lanes of plugins and the turns of pods.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::Event;
use tokio::time::Instant;

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Adaptation;
use crate::Notice;

#[tokio::test(start_paused = true)]
async fn plugins_are_asked_by_index_then_by_name() {
    let diary = Diary::default();
    let plugin = |name| FakePlugin::new(name, LIFE, at_once(), &diary);
    let (a, b, c) = (plugin("20-a"), plugin("10-b"), plugin("10-a"));
    let nri = adaptation("", &[("20-a", &a), ("10-b", &b), ("10-a", &c)]).await;
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    assert_eq!(diary.lines(), ["10-a RunPodSandbox p", "10-b RunPodSandbox p", "20-a RunPodSandbox p"]);
}

/// Starts a container in each of `count` pods at once. Returns the total time.
async fn start_in_pods(nri: Adaptation, count: usize) -> Duration {
    let nri = Arc::new(nri);
    let before = Instant::now();
    let pods = (0..count).map(|number| {
        let nri = Arc::clone(&nri);
        tokio::spawn(async move {
            nri.begin(pod(&format!("p{number}"))).notify(Notice::Start(container("c"))).await.unwrap();
        })
    });
    for pod in pods.collect::<Vec<_>>() {
        pod.await.unwrap();
    }
    before.elapsed()
}

#[tokio::test(start_paused = true)]
async fn u22_the_chain_is_a_pipeline_for_different_pods() {
    let diary = Diary::default();
    let plugins =
        ["10-a", "20-b", "30-c"].map(|name| (name, FakePlugin::new(name, LIFE, Manner::After(SECOND), &diary)));
    let named: Vec<_> = plugins.iter().map(|(name, plugin)| (*name, plugin)).collect();
    let nri = adaptation("", &named).await;
    assert_eq!(start_in_pods(nri, 16).await, SECOND * 18, "sixteen pods and two plugins ahead");
    for (_, plugin) in &plugins {
        assert_eq!(plugin.most_at_a_time(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_allows_it_is_asked_for_different_pods_at_once() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let nri = adaptation("[plugins.slow]\nconcurrency = \"per-pod\"", &[("10-slow", &slow)]).await;
    assert_eq!(start_in_pods(nri, 16).await, SECOND);
}

#[tokio::test(start_paused = true)]
async fn requests_about_one_pod_go_in_the_order_in_which_they_were_made() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let nri = Arc::new(adaptation("[plugins.slow]\nconcurrency = \"per-pod\"", &[("10-slow", &slow)]).await);
    let mut requests = Vec::new();
    for number in 0..5 {
        let nri = Arc::clone(&nri);
        requests.push(tokio::spawn(async move {
            nri.begin(pod("p")).notify(Notice::Start(container(&format!("c{number}")))).await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    for request in requests {
        request.await.unwrap();
    }
    let expected: Vec<_> = (0..5).map(|number| format!("10-slow StartContainer c{number}")).collect();
    assert_eq!(diary.lines(), expected);
    assert_eq!(slow.most_at_a_time(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_of_one_event_does_not_slow_the_others() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", Event::CreateContainer.into(), Manner::After(SECOND), &diary);
    let nri = Arc::new(adaptation("", &[("10-slow", &slow)]).await);
    let creating = Arc::clone(&nri);
    let create = tokio::spawn(async move { creating.begin(pod("p")).create_container(container("c")).await.map(drop) });
    tokio::task::yield_now().await;
    let before = Instant::now();
    nri.begin(pod("q")).notify(Notice::Start(container("d"))).await.unwrap();
    nri.begin(pod("p")).notify(Notice::Start(container("c"))).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    create.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_lane_has_its_own_limit_and_costs_no_strike() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let policy = "[plugins.slow]\nlane_timeout = \"2500ms\"\non_timeout = \"fail\"";
    let nri = Arc::new(adaptation(policy, &[("10-slow", &slow)]).await);
    let mut waiting = Vec::new();
    for number in 0..4 {
        let nri = Arc::clone(&nri);
        waiting.push(tokio::spawn(async move { nri.begin(pod(&format!("p{number}"))).notify(Notice::RunPod).await }));
        tokio::task::yield_now().await;
    }
    let mut outcomes = Vec::new();
    for request in waiting {
        outcomes.push(request.await.unwrap());
    }
    let failed = outcomes.pop().unwrap().unwrap_err();
    assert_eq!(failed.to_string(), "plugin 10-slow failed to handle RunPodSandbox request");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(nri.plugins()[0].state, crate::api::health::State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_second_plugin_of_the_same_name_takes_over() {
    let diary = Diary::default();
    let old = FakePlugin::new("old", LIFE, at_once(), &diary);
    let new = FakePlugin::new("new", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-a", &old), ("10-a", &new)]).await;
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    assert_eq!(diary.lines(), ["new RunPodSandbox p"]);
    assert_eq!(nri.plugins().len(), 1);
}

/// Replaces a plugin while the plugin leaves a request unanswered.
async fn replace_a_stuck_one(nri: &Arc<Adaptation>, pod_id: String) {
    let progress = Arc::clone(nri);
    tokio::spawn(async move { progress.begin(pod(&pod_id)).notify(Notice::RunPod).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let next = FakePlugin::new("next", LIFE, Manner::Never, &Diary::default());
    nri.admit("10-a".parse().unwrap(), next as _).await.unwrap();
}

async fn with_a_stuck_one() -> Arc<Adaptation> {
    let stuck = FakePlugin::new("stuck", LIFE, Manner::Never, &Diary::default());
    Arc::new(adaptation("[plugins.a]\nrequest_timeout = \"60s\"", &[("10-a", &stuck)]).await)
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_a_plugin_that_was_replaced() {
    let nri = with_a_stuck_one().await;
    replace_a_stuck_one(&nri, "p".to_owned()).await;
    let begun = Instant::now();
    nri.stop().await;
    assert!(begun.elapsed() < SECOND * 10, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn of_plugins_that_are_replaced_again_and_again_few_may_finish_what_they_do() {
    let nri = with_a_stuck_one().await;
    let mut replaced = Vec::new();
    for number in 0..20 {
        replaced.push(Arc::clone(&nri.shared.roster().entries()[0]));
        replace_a_stuck_one(&nri, number.to_string()).await;
    }
    assert_eq!(replaced.iter().filter(|entry| !entry.closed.is_cancelled()).count(), 8);
}

#[tokio::test(start_paused = true)]
async fn stopping_tells_plugins_to_go_and_leaves_no_task() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let diary = Diary::default();
    let good = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let stuck = FakePlugin::new("20-b", LIFE, Manner::Never, &diary);
    let nri = adaptation("", &[("10-a", &good), ("20-b", &stuck)]).await;
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    nri.stop().await;
    assert_eq!(good.told_to_go.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert!(nri.begin(pod("p")).notify(Notice::RunPod).await.is_err());
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
}
