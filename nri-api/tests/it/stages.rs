//! Calls before the start, after the stop, and while NRI is disabled.

use futures_util::FutureExt;
use nri_api::ledger::Ledger;
use nri_api::testing::{FakeBehavior, FakeDomain};
use nri_api::{Config, Container, ContainerState, Error, Nri, PodState, RegisterError, RelayError, StartError, State};
use tokio::time::Instant;

use crate::rig::{Recorder, Rig, SECOND, config, container, exited, pod, running};

#[tokio::test(start_paused = true)]
async fn a_namespace_is_registered_once_and_before_the_start() {
    let nri = Nri::new(config());
    let _handle = nri.register("k8s.io", FakeDomain::new()).unwrap();
    let again = nri.register_podless("k8s.io", FakeDomain::new()).err();
    assert_eq!(again, Some(RegisterError::Taken("k8s.io".to_owned())));
    nri.start().await.unwrap();
    let late = nri.register("moby", FakeDomain::new()).err();
    assert_eq!(late, Some(RegisterError::Started("moby".to_owned())));
    assert!(matches!(nri.start().await, Err(StartError::Twice)));
}

#[tokio::test(start_paused = true)]
async fn requests_before_the_start_and_after_the_end_are_errors() {
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", FakeDomain::new()).unwrap();
    assert!(matches!(handle.run_pod(pod("p")).await, Err(Error::NotStarted)));
    assert!(matches!(handle.stop_pod(pod("p")).await, Err(Error::NotStarted)));
    let early = nri.admit("10-books".parse().unwrap(), Recorder::new()).await.unwrap_err();
    assert_eq!(early.to_string(), "plugin 10-books cannot be admitted: NRI is not started yet");
    nri.start().await.unwrap();
    let creation = handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    nri.stop().await;
    assert!(matches!(handle.run_pod(pod("p")).await, Err(Error::Stopped)));
    assert!(matches!(handle.remove_container(pod("p"), container("p", "c")).await, Err(Error::Stopped)));
    assert!(matches!(creation.created(container("p", "c")).await, Err(Error::Stopped)), "and nothing panics");
    assert!(matches!(nri.start().await, Err(StartError::Stopped)));
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn u23_n01_after_a_restart_plugins_hear_of_the_ends_of_all_that_was_there() {
    let domain = FakeDomain::new();
    domain.put_pod(pod("p"));
    domain.put_pod_in(pod("stopped"), PodState::Stopped);
    domain.put_pod_in(pod("unknown"), PodState::Unknown);
    let in_state = |id: &str, state| Container { state, ..container("p", id) };
    domain.put(in_state("c1", ContainerState::Running));
    domain.put(in_state("c2", ContainerState::Created));
    domain.put(in_state("c3", ContainerState::Paused));
    domain.put(in_state("c4", ContainerState::Stopped));
    domain.put(in_state("c5", ContainerState::Unknown));
    let rig = Rig::with(config(), domain).await;
    let shown = &rig.plugin.shown()[0];
    assert_eq!(shown.pods.iter().map(|pod| &*pod.id).collect::<Vec<_>>(), ["p"]);
    let seen: Vec<_> = shown.containers.iter().map(|container| (&*container.id, container.state)).collect();
    let expected = [("c1", ContainerState::Running), ("c2", ContainerState::Created), ("c3", ContainerState::Paused)];
    assert_eq!(seen, expected);

    for id in ["c1", "c2", "c3", "c4", "c5"] {
        rig.stop("p", id).await;
    }
    assert_eq!(rig.plugin.news(), ["StopContainer c1", "StopContainer c2", "StopContainer c3"]);
    rig.remove("p", "c4").await;
    rig.remove("p", "c5").await;
    assert_eq!(rig.plugin.news(), ["RemoveContainer c4", "RemoveContainer c5"]);
    for id in ["p", "stopped", "unknown"] {
        rig.handle.stop_pod(pod(id)).await.unwrap();
        rig.handle.remove_pod(pod(id)).await.unwrap();
    }
    let expected = [
        "StopPodSandbox p",
        "RemoveContainer c1",
        "RemoveContainer c2",
        "RemoveContainer c3",
        "RemovePodSandbox p",
        "RemovePodSandbox stopped",
        "RemovePodSandbox unknown",
    ];
    assert_eq!(rig.plugin.news(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_may_be_tried_again() {
    let nri = Nri::new(Config { socket: Some("/proc/no/such/place".into()), ..config() });
    let handle = nri.register("k8s.io", FakeDomain::new()).unwrap();
    assert!(matches!(nri.start().await, Err(StartError::Listen(_))));
    assert!(matches!(nri.start().await, Err(StartError::Listen(_))));
    assert!(matches!(handle.run_pod(pod("p")).await, Err(Error::NotStarted)));
}

/// Runs outside a Tokio runtime, because a disabled NRI needs none.
#[test]
fn disabled_nothing_is_made_and_plugins_want_nothing() {
    let nri = Nri::new(Config { disable: true, ..Config::default() });
    assert!(!nri.is_enabled());
    let domain = FakeDomain::new();
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    // Each call completes at its first poll.
    let life = async {
        nri.start().await.unwrap();
        handle.run_pod(pod("p")).await.unwrap().commit();
        let mut creation = handle.create_container(pod("p"), container("p", "c")).await.unwrap();
        assert_eq!(creation.take_adjustment(), nri_api::Adjustment::default());
        assert_eq!(**creation.container(), container("p", "c"));
        creation.created(container("p", "c")).await.unwrap();
        handle.start_container(pod("p"), container("p", "c")).await.unwrap().started(running("p", "c")).await.unwrap();
        let update = handle.update_container(pod("p"), running("p", "c"), Some(Default::default())).await.unwrap();
        assert_eq!(update.resources(), Some(&Default::default()), "what was asked for");
        update.updated(running("p", "c")).await.unwrap();
        handle.container_exited(pod("p"), exited("p", "c", 1));
        handle.remove_container(pod("p"), container("p", "c")).await.unwrap();
        handle.remove_pod(pod("p")).await.unwrap();
        nri.admit("10-books".parse().unwrap(), Recorder::new()).await.unwrap();
        nri.settled().await;
        nri.stop().await;
    };
    assert_eq!(life.now_or_never(), Some(()));
    assert_eq!((nri.plugins(), nri.ledger(Ledger::all).len()), (Vec::new(), 0));
    assert_eq!(handle.container_state("c"), None);
    assert_eq!((domain.n_inventories(), domain.updates().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn two_instances_know_nothing_of_each_other() {
    let (one, other) = (Rig::new().await, Rig::new().await);
    one.running("p", "c").await;
    assert_eq!(other.handle.container_state("c"), None);
    one.nri.stop().await;
    other.running("p", "c").await;
    assert!(other.plugin.shown()[0].containers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a45_at_the_end_what_is_being_told_is_told_and_then_plugins_go() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.plugin.take(SECOND);
    rig.handle.container_exited(pod("p"), exited("p", "c", 1));
    rig.nri.stop().await;
    assert_eq!(rig.plugin.heard(), ["StopContainer c"]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_callers_deadline_ends_its_waiting_and_nothing_else() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.plugin.take(SECOND);
    let soon = rig.handle.until(Instant::now() + SECOND / 2);
    let late = soon.stop_container(pod("p"), container("p", "c")).await.unwrap_err();
    assert_eq!(late.to_string(), "plugin 10-books failed to handle StopContainer request");
    assert!(soon.remove_container(pod("p"), container("p", "c")).await.is_err());
    assert!(soon.remove_pod(pod("p")).await.is_err());
    tokio::time::sleep(SECOND * 10).await;
    let expected = ["StopContainer c", "RemoveContainer c", "StopPodSandbox p", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected);
    assert_eq!((rig.handle.container_state("c"), rig.handle.pod_state("p")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_callers_deadline_holds_for_all_that_an_end_waits_for() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.domain.behave(FakeBehavior::Hangs);
    let before = Instant::now();
    let late = rig.handle.until(before + SECOND).remove_pod(pod("p")).await.unwrap_err();
    assert!(matches!(late, Error::Relay(RelayError::Deadline)), "{late}");
    assert_eq!(before.elapsed(), SECOND, "not for the domain");
    assert_eq!(rig.plugin.heard(), [""; 0]);
    tokio::time::sleep(SECOND * 100).await;
    let expected = ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected, "it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_domain_that_does_not_say_what_there_is_fails_the_start_which_may_be_tried_again() {
    for manner in [FakeBehavior::Hangs, FakeBehavior::Panics] {
        let (bad, good) = (FakeDomain::new(), FakeDomain::new());
        bad.behave(manner);
        bad.put_pod(pod("p"));
        let nri = Nri::new(config());
        let handle = nri.register("bad", bad.clone()).unwrap();
        let _good = nri.register("good", good).unwrap();
        let error = nri.start().await.unwrap_err();
        assert_eq!(error.to_string(), "could not read the inventory of namespace bad");
        bad.behave(FakeBehavior::Well);
        nri.start().await.unwrap();
        assert_eq!(handle.pod_state("p"), Some(State::Running));
        nri.stop().await;
    }
}
