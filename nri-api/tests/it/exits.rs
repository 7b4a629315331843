//! Containers that exit by themselves, at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nri_api::testing::FakeDomain;
use nri_api::{ContainerState, Error, Event, LostExits, Nri, State};
use tokio::time::Instant;

use crate::rig::{Recorder, Rig, SECOND, config, container, exited, pod, running, settle};

#[tokio::test(start_paused = true)]
async fn an_exit_is_told_as_a_stop_that_says_how() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.handle.container_exited(pod("p"), exited("p", "c", 137));
    settle().await;
    assert_eq!(rig.plugin.heard(), ["StopContainer c"]);
    assert_eq!(rig.plugin.container(Event::StopContainer), exited("p", "c", 137));
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
    rig.stop("p", "c").await;
    rig.handle.container_exited(pod("p"), exited("p", "c", 137));
    settle().await;
    rig.remove("p", "c").await;
    assert_eq!(rig.plugin.heard(), ["StopContainer c", "RemoveContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_tells_the_stop_first_says_how_it_exited() {
    // The task that notifies plugins of the exit has not run yet.
    let stopped = Rig::new().await;
    stopped.running("p", "c").await;
    stopped.handle.container_exited(pod("p"), exited("p", "c", 3));
    stopped.stop("p", "c").await;
    settle().await;
    assert_eq!(stopped.plugin.heard(), ["StopContainer c"]);
    assert_eq!(stopped.plugin.container(Event::StopContainer), exited("p", "c", 3));

    let with_pod = Rig::new().await;
    with_pod.running("p", "c").await;
    with_pod.handle.container_exited(pod("p"), exited("p", "c", 4));
    let asked = with_pod.domain.n_inventories();
    with_pod.handle.remove_pod(pod("p")).await.unwrap();
    settle().await;
    let expected = ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"];
    assert_eq!(with_pod.plugin.heard(), expected);
    assert_eq!(with_pod.plugin.container(Event::StopContainer).exit_code, 4);
    assert_eq!(with_pod.domain.n_inventories(), asked + 1, "asked for the words of the Remove alone");
}

#[tokio::test(start_paused = true)]
async fn an_exit_never_waits_for_a_plugin() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.running("q", "d").await;
    rig.plugin.take(SECOND * 60);
    let before = Instant::now();
    rig.handle.container_exited(pod("p"), exited("p", "c", 1));
    rig.handle.container_exited(pod("q"), exited("q", "d", 1));
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(rig.handle.container_state("c"), Some(State::Running), "nobody was told yet");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_exits_while_it_is_created_stops_when_it_is() {
    let rig = Rig::new().await;
    let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    rig.handle.container_exited(pod("p"), exited("p", "c", 5));
    settle().await;
    assert_eq!(rig.plugin.news(), ["CreateContainer c"]);
    creation.created(container("p", "c")).await.unwrap();
    settle().await;
    assert_eq!(rig.plugin.news(), ["PostCreateContainer c", "StopContainer c"]);
    assert_eq!(rig.plugin.container(Event::StopContainer).exit_code, 5);
}

/// In containerd, a reference that exits need was once nil: exits come as soon as existing
/// containers are watched, before NRI is started.
#[tokio::test(start_paused = true)]
async fn exits_before_the_start_are_told_after_it() {
    let domain = FakeDomain::new();
    domain.put_pod(pod("p"));
    domain.put(running("p", "c"));
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", domain).unwrap();
    handle.container_exited(pod("p"), exited("p", "c", 7));
    handle.container_exited(pod("p"), exited("p", "never", 7));
    nri.start().await.unwrap();
    assert_eq!(handle.container_state("c"), Some(State::Running), "it is told in a task");
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    settle().await;
    assert_eq!(handle.container_state("c"), Some(State::Stopped));
    assert_eq!(plugin.shown()[0].containers.len(), 1);
    assert_eq!(plugin.heard(), ["StopContainer c"]);
    assert_eq!(plugin.container(Event::StopContainer).exit_code, 7);
    let LostExits { before_start, after_stop, unknown, .. } = nri.lost_exits();
    assert_eq!((before_start, after_stop, unknown), (0, 0, 1), "of one of them nobody knows");
}

/// Requests are allowed a moment before `Nri::start` returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exit_before_the_start_does_not_end_a_run_that_begins_at_once() {
    let domain = FakeDomain::new();
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    domain.put_pod(pod("p"));
    for number in 0..3000 {
        let id = format!("c{number:04}");
        domain.put(running("p", &id));
        handle.container_exited(pod("p"), exited("p", &id, 1));
    }
    let restarting = {
        let handle = handle.clone();
        tokio::spawn(async move {
            loop {
                match handle.start_container(pod("p"), container("p", "c2999")).await {
                    Err(Error::NotStarted) => tokio::task::yield_now().await,
                    started => return started,
                }
            }
        })
    };
    nri.start().await.unwrap();
    restarting.await.unwrap().unwrap().commit();
    nri.stop().await;
    assert_eq!(handle.container_state("c2998"), Some(State::Stopped));
    assert_eq!(handle.container_state("c2999"), Some(State::Running), "its exit was that of the run before");
}

#[tokio::test(start_paused = true)]
async fn of_too_many_exits_before_the_start_the_oldest_are_forgotten_and_counted() {
    let domain = FakeDomain::new();
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    domain.put_pod(pod("p"));
    for number in 0..4100 {
        let id = format!("c{number:04}");
        domain.put(running("p", &id));
        handle.container_exited(pod("p"), exited("p", &id, 1));
    }
    nri.start().await.unwrap();
    settle().await;
    assert_eq!(nri.lost_exits().before_start, 4);
    let running = (0..4100).filter(|n| handle.container_state(&format!("c{n:04}")) == Some(State::Running)).count();
    assert_eq!(running, 4);
    assert_eq!(handle.container_state("c0003"), Some(State::Running));
}

#[tokio::test(start_paused = true)]
async fn u29_exits_after_the_stop_are_counted_and_do_no_harm() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.nri.stop().await;
    rig.handle.container_exited(pod("p"), exited("p", "c", 1));
    rig.handle.container_exited(pod("p"), exited("p", "c", 1));
    settle().await;
    assert_eq!(rig.plugin.heard(), [""; 0]);
    assert_eq!(rig.nri.lost_exits().after_stop, 2);
}

#[tokio::test(start_paused = true)]
async fn u29_n08_ten_thousand_exits_at_once_are_told_each_once() {
    let domain = FakeDomain::new();
    domain.put_pod(pod("p"));
    for number in 0..10_000 {
        domain.put(running("p", &format!("c{number}")));
    }
    let rig = Rig::with(config(), domain).await;
    for number in 0..10_000 {
        let id = format!("c{number}");
        rig.handle.container_exited(pod("p"), exited("p", &id, 1));
        rig.handle.container_exited(pod("p"), exited("p", &id, 1));
    }
    rig.handle.stop_pod(pod("p")).await.unwrap();
    let heard = rig.plugin.heard();
    assert_eq!(heard.len(), 10_001);
    assert_eq!(heard.last().unwrap(), "StopPodSandbox p");
}

/// Returns the events by object, in order.
fn by_object(heard: Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut objects = BTreeMap::<String, Vec<String>>::new();
    for line in heard {
        let (event, id) = line.split_once(' ').unwrap();
        objects.entry(id.to_owned()).or_default().push(event.to_owned());
    }
    objects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn n03_an_exit_a_stop_and_a_remove_at_once_are_one_stop_and_one_remove() {
    let rig = Arc::new(Rig::new().await);
    rig.run_pod("p").await;
    let mut racing = Vec::new();
    for number in 0..300 {
        let id = format!("c{number}");
        rig.create("p", &id).await;
        rig.start("p", &id).await;
        for act in 0..4 {
            let (rig, id) = (Arc::clone(&rig), id.clone());
            racing.push(tokio::spawn(async move {
                match act {
                    0 => rig.handle.container_exited(pod("p"), exited("p", &id, 9)),
                    1 | 2 => rig.stop("p", &id).await,
                    _ => rig.remove("p", &id).await,
                }
            }));
        }
    }
    for racing in racing {
        racing.await.unwrap();
    }
    rig.handle.remove_pod(pod("p")).await.unwrap();
    rig.nri.stop().await;
    let mut objects = by_object(rig.plugin.heard());
    assert_eq!(objects.remove("p").unwrap(), ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
    assert_eq!(objects.len(), 300);
    for (id, events) in objects {
        assert_eq!(events[events.len() - 2..], ["StopContainer", "RemoveContainer"], "{id}: {events:?}");
        assert_eq!(events.iter().filter(|event| *event == "StopContainer").count(), 1, "{id}: {events:?}");
        assert_eq!(events.iter().filter(|event| *event == "RemoveContainer").count(), 1, "{id}: {events:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_container_that_ends_at_once_was_started_before_or_that_is_not_told() {
    let rig = Arc::new(Rig::new().await);
    rig.run_pod("p").await;
    for number in 0..300 {
        let id = format!("c{number}");
        rig.create("p", &id).await;
        let start = rig.handle.start_container(pod("p"), container("p", &id)).await.unwrap();
        let exiting = {
            let (handle, id) = (rig.handle.clone(), id.clone());
            tokio::spawn(async move { handle.container_exited(pod("p"), exited("p", &id, 0)) })
        };
        start.started(running("p", &id)).await.unwrap();
        exiting.await.unwrap();
        rig.remove("p", &id).await;
    }
    rig.nri.stop().await;
    let all = [
        "CreateContainer",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "StopContainer",
        "RemoveContainer",
    ];
    for (id, events) in by_object(rig.plugin.heard()).into_iter().filter(|(id, _)| id != "p") {
        let expected: Vec<_> = all.into_iter().filter(|event| events.iter().any(|heard| heard == event)).collect();
        assert_eq!(events, expected, "{id}");
        assert!(events.len() >= 5, "{id}: {events:?}");
    }
    assert_eq!(rig.plugin.container(Event::StopContainer).state, ContainerState::Stopped);
}

/// A runtime that restarts containers reports the exit right before the start.
#[tokio::test(start_paused = true)]
async fn an_exit_is_told_before_the_container_is_started_again() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.plugin.news();
    rig.handle.container_exited(pod("p"), exited("p", "c", 7));
    rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap().commit();
    assert_eq!(rig.plugin.news(), ["StopContainer c", "StartContainer c"]);
    assert_eq!(rig.plugin.container(Event::StopContainer).exit_code, 7);
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
}
