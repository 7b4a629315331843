//! Plugins that the operator requires, and the requests that wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fake::{Manner, SECOND, at_once, chain, container, pod};
use super::setting::setting;
use crate::Notice;
use crate::api::health::State;

#[tokio::test(start_paused = true)]
async fn u34_a_required_plugin_that_joins_is_waited_for_up_to_its_limit() {
    let setting = setting("[plugins.guard]\nrequired = true\njoin_timeout = '10s'\nsync_timeout = '60s'");
    let absent = setting.nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap_err();
    assert_eq!(
        chain(&absent),
        "plugin guard failed to handle RunPodSandbox request: the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)"
    );
    let (_, joining) = setting.joining("10-guard", SECOND * 30).await;
    let begun = Instant::now();
    setting.nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap_err();
    assert_eq!(begun.elapsed(), SECOND * 10);
    assert_eq!(setting.tell("p", Notice::StopPod).await, Duration::ZERO, "an end waits for nobody");
    joining.abort();
    let _ = joining.await;

    let (_, joining) = setting.joining("10-guard", SECOND * 3).await;
    assert!(setting.tell("p", Notice::RunPod).await <= SECOND * 3);
    joining.await.unwrap().unwrap();
    assert_eq!(setting.diary.lines(), ["10-guard RunPodSandbox p"], "it was asked");
}

#[tokio::test(start_paused = true)]
async fn u34_nothing_is_asked_of_others_while_a_required_plugin_is_waited_for() {
    let setting = setting("[plugins.guard]\nrequired = true");
    let first = setting.plugin("10-first");
    setting.admit("10-first", &first).await.unwrap().unwrap();
    let (guard, joining) = setting.joining("20-guard", SECOND * 3).await;
    let nri = Arc::clone(&setting.nri);
    let running = tokio::spawn(async move { nri.begin(pod("p")).notify(Notice::RunPod).await });
    sleep(SECOND).await;
    assert!(setting.diary.lines().is_empty());
    guard.leave().await;
    joining.abort();
    let _ = joining.await;
    running.await.unwrap().unwrap_err();
    assert!(setting.diary.lines().is_empty(), "it did not join, and nobody had been asked");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_is_waited_for_until_it_has_heard_what_was_before() {
    let setting = setting("[plugins.guard]\nrequired = true");
    let guard = setting.plugin("10-guard");
    let stopping = setting.nri.begin(pod("p"));
    stopping.stop_container(container("c")).await.unwrap();
    setting.admit("10-guard", &guard).await.unwrap().unwrap();
    let begun = Instant::now();
    let failed = setting.nri.begin(pod("p")).create_container(container("d")).await.unwrap_err();
    assert_eq!(
        chain(&failed),
        "plugin 10-guard failed to handle CreateContainer request: the plugin has not received earlier events about the pod"
    );
    assert_eq!(begun.elapsed(), SECOND * 10);
    let nri = Arc::clone(&setting.nri);
    let creating = tokio::spawn(async move {
        let operation = nri.begin(pod("p"));
        operation.create_container(container("e")).await.unwrap();
        operation.commit();
    });
    sleep(SECOND).await;
    stopping.commit();
    creating.await.unwrap();
    assert_eq!(setting.diary.lines(), ["10-guard StopContainer c", "10-guard CreateContainer e"]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_waited_for_can_go_on_about_the_same_pod() {
    let setting = setting("[plugins.guard]\nrequired = true");
    let other = setting.plugin("20-other");
    setting.admit("20-other", &other).await.unwrap().unwrap();
    let creating = setting.nri.begin(pod("p"));
    creating.create_container(container("c")).await.unwrap_err();
    drop(creating);
    assert!(setting.diary.lines().is_empty(), "the guard is not there");

    let stopping = setting.nri.begin(pod("p"));
    stopping.stop_container(container("b")).await.unwrap();
    let guard = setting.plugin("10-guard");
    setting.admit("10-guard", &guard).await.unwrap().unwrap();
    let nri = Arc::clone(&setting.nri);
    let next = tokio::spawn(async move {
        let operation = nri.begin(pod("p"));
        operation.create_container(container("d")).await.unwrap();
        operation.commit();
    });
    sleep(SECOND).await;
    let begun = Instant::now();
    stopping.notify(Notice::Remove(container("b"))).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for nobody who waits for it");
    stopping.commit();
    next.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let told = [
        "20-other StopContainer b",
        "20-other RemoveContainer b",
        "10-guard StopContainer b",
        "10-guard RemoveContainer b",
        "10-guard CreateContainer d",
        "20-other CreateContainer d",
    ];
    assert_eq!(setting.diary.lines(), told);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_required_plugin_keep_their_order() {
    let setting = setting("[plugins.guard]\nrequired = true");
    let stopping = setting.nri.begin(pod("p"));
    stopping.stop_container(container("b")).await.unwrap();
    setting.admit("10-guard", &setting.plugin("10-guard")).await.unwrap().unwrap();
    let mut waiting = Vec::new();
    for number in 0..5 {
        let nri = Arc::clone(&setting.nri);
        waiting.push(tokio::spawn(async move {
            let operation = nri.begin(pod("p"));
            operation.create_container(container(&number.to_string())).await.unwrap();
            operation.commit();
        }));
        tokio::task::yield_now().await;
    }
    stopping.commit();
    // A request that is made before the waiting requests were woken still comes after them.
    setting.create("p", "last").await;
    for one in waiting {
        one.await.unwrap();
    }
    let created: Vec<_> = ["0", "1", "2", "3", "4", "last"].map(|id| format!("10-guard CreateContainer {id}")).into();
    assert_eq!(setting.diary.lines()[1..], created);
}

#[tokio::test(start_paused = true)]
async fn an_operation_does_not_wait_for_its_own_end() {
    let setting = setting("[plugins.guard]\nrequired = true");
    let guard = setting.plugin("10-guard");
    setting.admit("10-guard", &guard).await.unwrap().unwrap();
    guard.behave(Manner::After(SECOND * 3));
    setting.nri.begin(pod("q")).notify(Notice::RunPod).await.unwrap_err();
    guard.behave(at_once());
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap_err();
    sleep(SECOND * 3).await;
    assert_eq!(setting.nri.plugins()[0].state, State::Active);
    let begun = Instant::now();
    let failed = operation.notify(Notice::Start(container("c"))).await.unwrap_err();
    assert_eq!(
        chain(&failed),
        "plugin 10-guard failed to handle StartContainer request: the plugin has not received earlier events about the pod"
    );
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_before_a_required_plugin_has_heard_what_was_before() {
    let setting = setting("[plugins.guard]\nrequired = true");
    setting.admit("10-first", &setting.plugin("10-first")).await.unwrap().unwrap();
    let stopping = setting.nri.begin(pod("p"));
    stopping.stop_container(container("b")).await.unwrap();
    setting.admit("20-guard", &setting.plugin("20-guard")).await.unwrap().unwrap();
    let late = setting.nri.begin(pod("p")).until(Instant::now() + SECOND);
    let failed = late.create_container(container("c")).await.unwrap_err();
    let reason = "the caller's deadline expired while the plugin was asked";
    assert_eq!(chain(&failed), format!("plugin 20-guard failed to handle CreateContainer request: {reason}"));
    setting.nri.begin(pod("p")).create_container(container("d")).await.unwrap_err();
    assert_eq!(setting.diary.lines(), ["10-first StopContainer b"]);
}
