//! Containers that are started again, starts that fail, and waiting for an end.

use std::sync::Arc;

use async_trait::async_trait;
use nri_api::testing::FakeDomain;
use nri_api::{
    Container, ContainerState, Domain, DomainError, Event, Eviction, Inventory, KnownPod, Nri, PodState, State, Update,
};
use tokio::time::{Instant, sleep, timeout};

use crate::rig::{Recorder, Rig, SECOND, config, container, exited, pod, requiring, running, settle};

/// A domain whose inventory takes half a second.
struct Slow(Arc<FakeDomain>);

#[async_trait]
impl Domain for Slow {
    async fn inventory(&self) -> Inventory {
        sleep(SECOND / 2).await;
        self.0.inventory().await
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.0.update(update).await
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.0.evict(eviction).await
    }
}

async fn slow_rig() -> Rig {
    let domain = FakeDomain::new();
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", Arc::new(Slow(Arc::clone(&domain)))).unwrap();
    nri.start().await.unwrap();
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    Rig { nri, domain, handle, plugin }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_failed_does_not_end_the_next_run() {
    for stops in [true, false] {
        let rig = slow_rig().await;
        rig.run_pod("p").await;
        rig.create("p", "c").await;
        drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
        if stops {
            rig.stop("p", "c").await;
        }
        rig.start("p", "c").await;
        rig.plugin.news();
        sleep(SECOND * 5).await;
        assert_eq!(rig.plugin.news(), [""; 0], "it runs");
        assert_eq!(rig.handle.container_state("c"), Some(State::Running));
        rig.handle.container_exited(pod("p"), exited("p", "c", 7));
        settle().await;
        assert_eq!(rig.plugin.news(), ["StopContainer c"]);
        assert_eq!(rig.plugin.container(Event::StopContainer).exit_code, 7);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_fails_is_told_as_stopped_to_those_who_saw_it_alone() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.stop("p", "c").await;
    let refuses = rig.join("20-refuses").await;
    let last = rig.join("30-last").await;
    refuses.refuse(Event::StartContainer);
    rig.plugin.news();
    rig.handle.start_container(pod("p"), container("p", "c")).await.err().unwrap();
    rig.remove("p", "c").await;
    assert_eq!(rig.plugin.news(), ["StartContainer c", "StopContainer c", "RemoveContainer c"]);
    assert_eq!(refuses.news(), ["StartContainer c", "StopContainer c", "RemoveContainer c"]);
    assert_eq!(last.news(), ["RemoveContainer c"], "it was not asked");
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_nobody_was_asked_about_is_told_to_nobody() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.stop("p", "c").await;
    rig.nri.reload(&requiring("20-absent"));
    let absent = rig.handle.start_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert!(absent.is_plugin_absent() && !absent.is_refusal(), "{absent}");
    settle().await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
    rig.plugin.news();
    rig.remove("p", "c").await;
    assert_eq!(rig.plugin.news(), ["RemoveContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_of_what_runs_that_fails_changes_nothing() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
    settle().await;
    assert_eq!(rig.plugin.news(), ["StartContainer c"]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
    rig.stop("p", "c").await;
    assert_eq!(rig.plugin.news(), ["StopContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_start_that_fails_takes_no_post_event_from_the_first() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.create("p", "c").await;
    rig.plugin.news();
    let first = rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap();
    drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
    settle().await;
    first.started(running("p", "c")).await.unwrap();
    assert_eq!(rig.plugin.news(), ["StartContainer c", "StartContainer c", "PostStartContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn words_of_an_update_say_what_plugins_know() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    let update = rig.handle.update_container(pod("p"), exited("p", "c", 3), None).await.unwrap();
    let words = rig.plugin.container(Event::UpdateContainer);
    assert_eq!((words.state, words.exit_code), (ContainerState::Running, 0));
    let paused = Container { state: ContainerState::Paused, ..running("p", "c") };
    update.updated(paused.clone()).await.unwrap();
    assert_eq!(rig.plugin.container(Event::PostUpdateContainer), paused);
    rig.stop("p", "c").await;
    rig.handle.update_container(pod("p"), running("p", "c"), None).await.unwrap().commit();
    assert_eq!(rig.plugin.container(Event::UpdateContainer).state, ContainerState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_an_end_hears_of_it_when_plugins_were_told() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.handle.container_ended("unknown").await;
    assert!(timeout(SECOND, rig.handle.container_ended("c")).await.is_err(), "it runs");
    rig.plugin.take(SECOND);
    rig.handle.container_exited(pod("p"), exited("p", "c", 3));
    let before = Instant::now();
    rig.handle.container_ended("c").await;
    assert_eq!(before.elapsed(), SECOND);
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
    let ending = rig.handle.clone();
    let ending = tokio::spawn(async move { ending.remove_pod(pod("p")).await });
    settle().await;
    rig.handle.pod_ended("p").await;
    assert_eq!((rig.handle.container_state("c"), rig.handle.pod_state("p")), (None, None));
    ending.await.unwrap().unwrap();
    rig.running("q", "d").await;
    let (handle, nri) = (rig.handle.clone(), rig.nri.clone());
    let waiting = tokio::spawn(async move { handle.container_ended("d").await });
    settle().await;
    nri.stop().await;
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_alive_in_a_pod_that_is_not_counts_as_stopped() {
    let domain = FakeDomain::new();
    domain.put_pod_in(pod("stopped"), PodState::Stopped);
    domain.put(running("stopped", "a"));
    domain.put(running("absent", "b"));
    let rig = Rig::with(config(), domain).await;
    assert_eq!(rig.nri.stray_containers(), 2);
    assert_eq!(rig.plugin.shown()[0], nri_api::snapshot::Snapshot::default());
    rig.remove("stopped", "a").await;
    rig.remove("absent", "b").await;
    assert_eq!(rig.plugin.news(), ["RemoveContainer a", "RemoveContainer b"]);
    // A pod that is about to run is not absent.
    let run = rig.handle.run_pod(pod("p")).await.unwrap();
    let known = KnownPod { pod: pod("q"), state: PodState::Running };
    rig.handle.adopt(Inventory { pods: vec![known], containers: vec![running("p", "c"), running("q", "d")] });
    assert_eq!((rig.handle.container_state("c"), rig.nri.stray_containers()), (Some(State::Running), 2));
    run.commit();
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_an_end_waits_for_the_undo_of_a_restart_that_failed() {
    for is_dropped in [true, false] {
        let rig = Rig::new().await;
        rig.running("p", "c").await;
        rig.stop("p", "c").await;
        rig.plugin.news();
        rig.plugin.take(SECOND);
        if is_dropped {
            drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
        } else {
            rig.plugin.refuse(Event::StartContainer);
            rig.handle.start_container(pod("p"), container("p", "c")).await.err().unwrap();
        }
        let before = Instant::now();
        rig.handle.container_ended("c").await;
        assert_eq!(
            (before.elapsed(), rig.plugin.news()),
            (SECOND, vec!["StartContainer c".into(), "StopContainer c".into()])
        );
        rig.handle.pod_ended("unknown").await;
        rig.remove("p", "c").await;
        assert_eq!(rig.plugin.news(), ["RemoveContainer c"]);
    }
}

/// Covers a Stop that was delivered before, and a Remove that was not.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_an_end_waits_for_a_remove_that_was_asked_for() {
    for is_of_pod in [false, true] {
        let rig = slow_rig().await;
        rig.running("p", "c").await;
        rig.plugin.take(SECOND);
        let handle = rig.handle.clone();
        let removing = tokio::spawn(async move {
            let removing = async {
                match is_of_pod {
                    true => handle.remove_pod(pod("p")).await,
                    false => handle.remove_container(pod("p"), container("p", "c")).await,
                }
            };
            timeout(SECOND / 2, removing).await.err().unwrap();
        });
        removing.await.unwrap();
        rig.handle.container_ended("c").await;
        assert_eq!(rig.handle.container_state("c"), None);
        assert!(rig.plugin.heard().contains(&"RemoveContainer c".to_owned()), "{:?}", rig.plugin.heard());
        if is_of_pod {
            rig.handle.pod_ended("p").await;
            assert_eq!(rig.plugin.heard().last().unwrap(), "RemovePodSandbox p");
            assert_eq!(rig.handle.pod_state("p"), None);
        }
    }
}
