//! The stop of NRI: what it waits for, and for how long.

use std::time::Duration;

use futures_util::poll;
use nri_api::ledger::{EntryKind, Ledger};
use nri_api::testing::FakeBehavior;
use nri_api::{Config, Error, Event, Eviction, State};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, SECOND, container, create_reply, exited, pod, settle};

/// Returns a rig with a running container, whose plugin takes a second for each answer.
async fn slow() -> Rig {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.plugin.take(SECOND);
    rig
}

#[tokio::test(start_paused = true)]
async fn an_end_that_its_caller_waits_for_is_waited_for_at_the_end() {
    let rig = slow().await;
    let handle = rig.handle.clone();
    let removing = tokio::spawn(async move { handle.remove_pod(pod("p")).await });
    settle().await;
    rig.nri.stop().await;
    let expected = ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected);
    removing.await.unwrap().unwrap();
    assert_eq!(rig.nri.unfinished(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_dropped_while_nri_stops_is_told() {
    let rig = slow().await;
    let mut removing = Box::pin(rig.handle.remove_container(pod("p"), container("p", "c")));
    assert!(poll!(&mut removing).is_pending());
    let nri = rig.nri.clone();
    let stopping = tokio::spawn(async move { nri.stop().await });
    settle().await;
    drop(removing);
    stopping.await.unwrap();
    assert_eq!(rig.plugin.heard(), ["StopContainer c", "RemoveContainer c"]);
    assert_eq!((rig.handle.container_state("c"), rig.nri.unfinished()), (None, 0));
}

/// The end of a pod whose domain hangs, an end whose caller stops polling, and three evictions.
#[tokio::test(start_paused = true)]
async fn all_that_hangs_has_one_deadline_and_what_is_not_done_by_then_is_counted() {
    let rig = Rig::new().await;
    for id in ["a", "b", "c"] {
        rig.running(&format!("pod-{id}"), id).await;
    }
    let evictions = ["a", "b", "c"].map(|id| Eviction::new(id, "to make room")).into();
    rig.plugin.reply(Event::CreateContainer, create_reply(Vec::new(), evictions));
    rig.domain.behave(FakeBehavior::Hangs);
    drop(rig.handle.create_container(pod("pod-a"), container("pod-a", "d")).await.unwrap());
    let handle = rig.handle.clone();
    let ending = tokio::spawn(async move { handle.stop_pod(pod("pod-b")).await });
    settle().await;
    rig.plugin.take(SECOND);
    let mut kept = Box::pin(rig.handle.remove_container(pod("pod-c"), container("pod-c", "c")));
    assert!(poll!(&mut kept).is_pending());
    sleep(SECOND * 10).await;
    let limit = Config::default().source_timeout;
    let before = Instant::now();
    rig.nri.stop().await;
    let took = before.elapsed();
    assert!(took >= limit && took < limit + SECOND * 3, "{took:?}");
    assert!(rig.nri.unfinished() >= 1, "what its caller does not go on with");
    let is_eviction = |what: &EntryKind| matches!(what, EntryKind::EvictionFailed { .. });
    let failed = rig.nri.ledger(Ledger::all).iter().filter(|entry| is_eviction(&entry.what)).count();
    assert_eq!(failed, 3, "each is in the ledger");
    ending.await.unwrap().unwrap();
    assert_eq!(rig.handle.pod_state("pod-b"), Some(State::Stopped), "it did without the words of the domain");
    let late = tokio::time::timeout(SECOND * 60, kept).await.expect("it does not hang");
    assert!(matches!(late, Err(Error::Stopped)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn without_anything_to_do_it_stops_at_once() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    let before = Instant::now();
    rig.nri.stop().await;
    rig.nri.stop().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    rig.handle.container_exited(pod("p"), exited("p", "c", 1));
    assert_eq!(rig.nri.lost_exits().after_stop, 1);
}
