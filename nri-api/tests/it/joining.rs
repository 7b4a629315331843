//! The snapshot of a plugin that joins, and the events that the plugin gets afterwards.

use std::time::Duration;

use nri_api::{Container, ContainerState, Event};
use tokio::time::{Instant, sleep, timeout};

use crate::rig::{Rig, SECOND, container, exited, pod, running, settle};

/// Returns the last snapshot of a plugin, as `p c:Running`.
fn shown(plugin: &crate::rig::Recorder) -> String {
    let snapshot = plugin.shown().pop().unwrap();
    let containers = snapshot.containers.iter().map(|container| format!("{}:{:?}", container.id, container.state));
    snapshot.pods.into_iter().map(|pod| pod.id).chain(containers).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn what_plugins_know_is_shown_in_the_state_in_which_they_know_it() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.create("p", "d").await;
    rig.domain.put(Container { state: ContainerState::Paused, ..running("p", "c") });
    assert_eq!(shown(&*rig.join("20-a").await), "p c:Paused d:Created");
    // The runtime knows that the container has ended, and has not reported it yet.
    rig.domain.put(exited("p", "c", 3));
    let plugin = rig.join("20-b").await;
    assert_eq!(shown(&plugin), "p c:Running d:Created");
    assert_eq!(plugin.shown()[0].containers[0].exit_code, 0);
    rig.handle.container_exited(pod("p"), exited("p", "c", 3));
    settle().await;
    assert_eq!(plugin.heard(), ["StopContainer c"]);
    assert_eq!(plugin.container(Event::StopContainer).exit_code, 3);
}

#[tokio::test(start_paused = true)]
async fn what_has_stopped_or_was_never_told_of_is_not_shown() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.running("q", "d").await;
    rig.stop("p", "c").await;
    rig.handle.stop_pod(pod("q")).await.unwrap();
    rig.domain.put_pod(pod("secret"));
    rig.domain.put(running("secret", "agent"));
    let plugin = rig.join("20-a").await;
    assert_eq!(shown(&plugin), "p");
    rig.handle.remove_pod(pod("q")).await.unwrap();
    rig.remove("p", "c").await;
    assert_eq!(plugin.heard(), ["RemoveContainer d", "RemovePodSandbox q", "RemoveContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_being_created_is_told_when_it_is() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    let failing = rig.handle.create_container(pod("p"), container("p", "d")).await.unwrap();
    rig.domain.put(container("p", "c"));
    let plugin = rig.join("20-a").await;
    assert_eq!(shown(&plugin), "p");
    creation.created(container("p", "c")).await.unwrap();
    drop(failing);
    settle().await;
    assert_eq!(plugin.heard(), ["CreateContainer c", "PostCreateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_during_a_long_stop_hears_of_it_and_nobody_waits() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.running("q", "d").await;
    rig.plugin.take(SECOND);
    let stopping = {
        let handle = rig.handle.clone();
        tokio::spawn(async move { handle.stop_container(pod("p"), running("p", "c")).await })
    };
    sleep(SECOND / 2).await;
    let before = Instant::now();
    let plugin = rig.join("20-a").await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(shown(&plugin), "p q c:Running d:Running");
    stopping.await.unwrap().unwrap();
    sleep(SECOND).await;
    assert_eq!(plugin.heard(), ["StopContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_in_the_middle_of_the_end_of_a_pod_hears_the_rest_of_it() {
    for quarter in 0..17 {
        let rig = Rig::new().await;
        rig.running("p", "c").await;
        rig.plugin.take(SECOND);
        let removing = {
            let handle = rig.handle.clone();
            tokio::spawn(async move { handle.remove_pod(pod("p")).await })
        };
        sleep(SECOND / 4 * quarter).await;
        let plugin = timeout(SECOND * 10, rig.join("20-a")).await.expect("it joins");
        let was_shown = shown(&plugin);
        removing.await.unwrap().unwrap();
        sleep(SECOND * 10).await;
        let all = ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"];
        let heard = plugin.heard();
        assert!(all.ends_with(&heard.iter().map(String::as_str).collect::<Vec<_>>()), "{quarter}: {heard:?}");
        assert_eq!(was_shown.contains("c:Running"), heard.contains(&all[0].to_owned()), "{quarter}: {was_shown}");
        if was_shown.contains('p') {
            assert!(heard.contains(&all[3].to_owned()), "{quarter}: {was_shown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_after_a_stop_hears_nothing_of_what_the_runtime_was_still_at() {
    let rig = Rig::new().await;
    rig.running("p", "u").await;
    rig.create("p", "s").await;
    let update = rig.handle.update_container(pod("p"), running("p", "u"), None).await.unwrap();
    let start = rig.handle.start_container(pod("p"), container("p", "s")).await.unwrap();
    let of_pod = rig.handle.update_pod(pod("p"), None, None).await.unwrap();
    rig.handle.container_exited(pod("p"), exited("p", "u", 1));
    rig.handle.container_exited(pod("p"), exited("p", "s", 1));
    rig.handle.stop_pod(pod("p")).await.unwrap();
    let plugin = rig.join("20-a").await;
    assert_eq!(shown(&plugin), "");
    start.started(running("p", "s")).await.unwrap();
    drop(update);
    of_pod.updated(pod("p")).await.unwrap();
    settle().await;
    assert_eq!(plugin.news(), ["PostUpdatePodSandbox p"], "that is told to all that know of the pod");
    rig.handle.remove_pod(pod("p")).await.unwrap();
    assert_eq!(plugin.news(), ["RemoveContainer u", "RemoveContainer s", "RemovePodSandbox p"]);
}
