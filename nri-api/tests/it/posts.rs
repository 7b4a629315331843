//! Completed actions that the runtime reports separately, and objects that were not created through
//! NRI.

use nri_api::testing::FakeDomain;
use nri_api::{Container, ContainerState, Inventory, KnownPod, Nri, PodState, State};

use crate::rig::{Recorder, Rig, config, container, pod};

#[tokio::test(start_paused = true)]
async fn what_was_committed_is_told_when_the_runtime_says_so() {
    let rig = Rig::new().await;
    let (handle, c) = (&rig.handle, container("p", "c"));
    handle.run_pod(pod("p")).await.unwrap().commit();
    handle.update_pod(pod("p"), None, None).await.unwrap().commit();
    handle.post_update_pod(pod("p")).await.unwrap();
    handle.create_container(pod("p"), c.clone()).await.unwrap().commit().unwrap();
    handle.post_create_container(pod("p"), c.clone()).await.unwrap();
    handle.start_container(pod("p"), c.clone()).await.unwrap().commit();
    handle.post_start_container(pod("p"), c.clone()).await.unwrap();
    handle.update_container(pod("p"), c.clone(), None).await.unwrap().commit();
    handle.post_update_container(pod("p"), c.clone()).await.unwrap();
    let expected = [
        "RunPodSandbox p",
        "UpdatePodSandbox p",
        "PostUpdatePodSandbox p",
        "CreateContainer c",
        "PostCreateContainer c",
        "StartContainer c",
        "PostStartContainer c",
        "UpdateContainer c",
        "PostUpdateContainer c",
    ];
    assert_eq!(rig.plugin.news(), expected);
    handle.stop_container(pod("p"), c.clone()).await.unwrap();
    handle.post_start_container(pod("p"), c).await.unwrap();
    assert_eq!(rig.plugin.news(), ["StopContainer c"], "it has stopped");
}

#[tokio::test(start_paused = true)]
async fn what_was_found_late_is_adopted_and_its_end_is_told() {
    let rig = Rig::new().await;
    let found = || Inventory {
        pods: vec![KnownPod { pod: pod("found"), state: PodState::Running }],
        containers: vec![Container { state: ContainerState::Running, ..container("found", "c") }],
    };
    rig.handle.adopt(found());
    assert_eq!(rig.plugin.news(), [""; 0]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
    rig.stop("found", "c").await;
    rig.handle.adopt(found());
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped), "it is known, and stays as it is");
    rig.handle.remove_pod(pod("found")).await.unwrap();
    let expected = ["StopContainer c", "StopPodSandbox found", "RemoveContainer c", "RemovePodSandbox found"];
    assert_eq!(rig.plugin.news(), expected);
}

#[tokio::test(start_paused = true)]
async fn that_something_was_created_or_started_is_told_once_however_often_it_is_said() {
    let rig = Rig::new().await;
    let (handle, c) = (&rig.handle, container("p", "c"));
    rig.create("p", "c").await;
    handle.post_create_container(pod("p"), c.clone()).await.unwrap();
    rig.start("p", "c").await;
    handle.post_start_container(pod("p"), c.clone()).await.unwrap();
    handle.post_create_container(pod("p"), c.clone()).await.unwrap();
    let expected = ["CreateContainer c", "PostCreateContainer c", "StartContainer c", "PostStartContainer c"];
    assert_eq!(rig.plugin.news(), expected);
    rig.stop("p", "c").await;
    rig.start("p", "c").await;
    handle.post_start_container(pod("p"), c).await.unwrap();
    assert_eq!(rig.plugin.news(), ["StopContainer c", "StartContainer c", "PostStartContainer c"], "once for each run");
}

#[tokio::test(start_paused = true)]
async fn what_is_adopted_before_the_start_is_known_after_it() {
    let domain = FakeDomain::new();
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    let found = Container { state: ContainerState::Running, ..container("p", "c") };
    let known = KnownPod { pod: pod("p"), state: PodState::Running };
    handle.adopt(Inventory { pods: vec![known], containers: vec![found.clone()] });
    nri.start().await.unwrap();
    assert_eq!((handle.pod_state("p"), handle.container_state("c")), (Some(State::Running), Some(State::Running)));
    domain.put(found);
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    assert_eq!(plugin.shown()[0].containers.len(), 1);
    handle.remove_pod(pod("p")).await.unwrap();
    assert_eq!(plugin.heard(), ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"]);
}
