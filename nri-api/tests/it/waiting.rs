//! Requests that wait for a required plugin, and ends that are reported meanwhile.

use std::sync::Arc;

use nri_api::{Event, State};

use crate::rig::{Recorder, Rig, SECOND, container, exited, pod, requiring, running, settle};

/// Returns a rig with a running and a created container, and with a required plugin that takes
/// three seconds to join.
async fn with_a_guard_that_joins() -> Rig {
    let rig = Rig::new().await;
    rig.running("p", "r").await;
    rig.create("p", "c").await;
    rig.plugin.news();
    assert!(rig.nri.reload(&requiring("guard")).is_empty());
    let guard = Recorder::new();
    guard.join_in(SECOND * 3);
    let nri = rig.nri.clone();
    tokio::spawn(async move { nri.admit("20-guard".parse().unwrap(), Arc::clone(&guard) as Arc<_>).await.unwrap() });
    settle().await;
    rig
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_a_plugin_is_told_before_the_stop_of_its_container() {
    let rig = with_a_guard_that_joins().await;
    let start = {
        let handle = rig.handle.clone();
        tokio::spawn(async move { handle.start_container(pod("p"), container("p", "c")).await })
    };
    settle().await;
    assert_eq!(rig.plugin.news(), [""; 0], "it waits");
    rig.handle.container_exited(pod("p"), exited("p", "c", 3));
    settle().await;
    assert_eq!(rig.plugin.news(), [""; 0], "so does the end");
    start.await.unwrap().unwrap().started(running("p", "c")).await.unwrap();
    settle().await;
    let heard = rig.plugin.news();
    let is_post = |line: &&String| line.starts_with("Post");
    let without: Vec<_> = heard.iter().filter(|line| !is_post(line)).collect();
    assert_eq!(without, ["StartContainer c", "StopContainer c"]);
    assert_eq!(heard.last().unwrap(), "StopContainer c");
    assert_eq!(rig.plugin.container(Event::StopContainer).exit_code, 3);
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_a_plugin_and_is_given_up_ends_in_one_stop() {
    let rig = with_a_guard_that_joins().await;
    let start = {
        let handle = rig.handle.clone();
        tokio::spawn(async move { handle.start_container(pod("p"), container("p", "c")).await })
    };
    settle().await;
    rig.handle.container_exited(pod("p"), exited("p", "c", 3));
    start.abort();
    settle().await;
    assert_eq!(rig.plugin.news(), ["StopContainer c"], "its end waits no more");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_waits_for_a_plugin_is_told_before_the_end_of_what_it_is_about() {
    let rig = with_a_guard_that_joins().await;
    let (of_pod, of_container, removing) = (rig.handle.clone(), rig.handle.clone(), rig.handle.clone());
    let updates = tokio::spawn(async move {
        let of_pod = of_pod.update_pod(pod("p"), None, None);
        let of_container = of_container.update_container(pod("p"), running("p", "r"), None);
        let (of_pod, of_container) = tokio::join!(of_pod, of_container);
        of_pod.unwrap().commit();
        of_container.unwrap().commit();
    });
    settle().await;
    let removing = tokio::spawn(async move { removing.remove_pod(pod("p")).await });
    updates.await.unwrap();
    removing.await.unwrap().unwrap();
    let mut heard = rig.plugin.news();
    heard[..2].sort();
    assert_eq!(heard[..2], ["UpdateContainer r", "UpdatePodSandbox p"], "{heard:?}");
    assert_eq!(heard.last().unwrap(), "RemovePodSandbox p");
}
