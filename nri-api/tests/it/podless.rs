//! A runtime without pods.

use std::sync::Arc;

use futures_util::FutureExt;
use nri_api::testing::FakeDomain;
use nri_api::{Config, Container, ContainerState, Event, LinuxContainer, Nri, PodlessHandle, Resources, State};

use crate::rig::{Recorder, SECOND, config, settle};

struct Podless {
    nri: Nri,
    domain: Arc<FakeDomain>,
    handle: PodlessHandle,
    plugin: Arc<Recorder>,
}

impl Podless {
    async fn with(domain: Arc<FakeDomain>) -> Self {
        let nri = Nri::new(config());
        let handle = nri.register_podless("moby", domain.clone()).unwrap();
        nri.start().await.unwrap();
        let plugin = Recorder::new();
        nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
        Self { nri, domain, handle, plugin }
    }

    async fn running(&self, id: &str) {
        let creation = self.handle.create_container(container(id)).await.unwrap();
        self.domain.put(Container { state: ContainerState::Created, ..container(id) });
        creation.created(container(id)).await.unwrap();
        self.start(id).await;
    }

    async fn start(&self, id: &str) {
        let start = self.handle.start_container(container(id)).await.unwrap();
        self.domain.put(Container { state: ContainerState::Running, ..container(id) });
        start.started(container(id)).await.unwrap();
    }
}

fn container(id: &str) -> Container {
    Container {
        id: id.to_owned(),
        name: format!("/{id}"),
        labels: [("tier".to_owned(), "web".to_owned())].into(),
        linux: Some(LinuxContainer { cgroups_path: "/docker/x".to_owned(), ..LinuxContainer::default() }),
        ..Container::default()
    }
}

#[tokio::test(start_paused = true)]
async fn each_container_has_a_pod_of_its_own_that_begins_before_it_and_ends_after_it() {
    let rig = Podless::with(FakeDomain::new()).await;
    rig.running("c").await;
    rig.handle.stop_container(container("c")).await.unwrap();
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
    rig.handle.remove_container(container("c")).await.unwrap();
    rig.handle.remove_container(container("c")).await.unwrap();
    let expected = [
        "RunPodSandbox c",
        "CreateContainer c",
        "PostCreateContainer c",
        "StartContainer c",
        "PostStartContainer c",
        "StopContainer c",
        "StopPodSandbox c",
        "RemoveContainer c",
        "RemovePodSandbox c",
    ];
    assert_eq!(rig.plugin.heard(), expected);
    for event in [Event::CreateContainer, Event::PostCreateContainer, Event::PostStartContainer, Event::StopContainer] {
        assert_eq!(rig.plugin.container(event).pod_id, "c", "{event}");
    }
    let (pod, told) = (rig.plugin.pod(), rig.plugin.container(Event::RemoveContainer));
    assert_eq!((&*pod.id, &*pod.name, &*pod.namespace, pod.label("tier")), ("c", "/c", "moby", Some("web")));
    assert_eq!(pod.linux.unwrap().cgroups_path, "/docker/x");
    assert_eq!((&*told.pod_id, &*told.name), ("c", "/c"));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_comes_to_nothing_takes_its_pod_with_it() {
    let rig = Podless::with(FakeDomain::new()).await;
    drop(rig.handle.create_container(container("c")).await.unwrap());
    settle().await;
    let expected = [
        "RunPodSandbox c",
        "CreateContainer c",
        "StopContainer c",
        "RemoveContainer c",
        "StopPodSandbox c",
        "RemovePodSandbox c",
    ];
    assert_eq!(rig.plugin.news(), expected);
    rig.running("c").await;
    let taken = rig.handle.create_container(container("c")).await.err().unwrap();
    assert_eq!(taken.to_string(), "container c exists already");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_exits_or_is_restarted_ends_with_its_pod_each_time() {
    let rig = Podless::with(FakeDomain::new()).await;
    rig.running("c").await;
    rig.plugin.news();
    rig.handle.container_exited(Container { exit_code: 2, ..container("c") });
    settle().await;
    assert_eq!(rig.plugin.news(), ["StopContainer c", "StopPodSandbox c"]);
    assert_eq!(rig.plugin.container(Event::StopContainer).exit_code, 2);
    rig.start("c").await;
    rig.handle.remove_container(container("c")).await.unwrap();
    let expected = [
        "StartContainer c",
        "PostStartContainer c",
        "StopContainer c",
        "StopPodSandbox c",
        "RemoveContainer c",
        "RemovePodSandbox c",
    ];
    assert_eq!(rig.plugin.news(), expected);
}

#[tokio::test(start_paused = true)]
async fn plugins_that_join_are_shown_the_pods_that_were_made() {
    let domain = FakeDomain::new();
    domain.put(Container { state: ContainerState::Running, ..container("old") });
    domain.put(Container { state: ContainerState::Stopped, ..container("over") });
    let rig = Podless::with(domain).await;
    let shown = &rig.plugin.shown()[0];
    assert_eq!(shown.pods.iter().map(|pod| &*pod.id).collect::<Vec<_>>(), ["old"]);
    assert_eq!(shown.containers.iter().map(|c| (&*c.id, &*c.pod_id)).collect::<Vec<_>>(), [("old", "old")]);
    rig.handle.remove_container(container("over")).await.unwrap();
    assert_eq!(rig.plugin.news(), ["RemoveContainer over", "RemovePodSandbox over"]);
    rig.nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn limits_are_updated_as_with_pods() {
    let rig = Podless::with(FakeDomain::new()).await;
    rig.running("c").await;
    rig.plugin.news();
    rig.handle.update_container(container("c"), None).await.unwrap().updated(container("c")).await.unwrap();
    assert_eq!(rig.plugin.news(), ["UpdateContainer c", "PostUpdateContainer c"]);
    rig.plugin.refuse(Event::StopContainer);
    assert!(rig.handle.stop_container(container("c")).await.is_err(), "what was asked for has failed");
    assert_eq!(rig.plugin.news(), ["StopContainer c", "StopPodSandbox c"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_ends_the_container_and_its_pod() {
    let rig = Podless::with(FakeDomain::new()).await;
    rig.running("c").await;
    rig.handle.stop_container(container("c")).await.unwrap();
    for _ in 0..2 {
        rig.plugin.news();
        drop(rig.handle.start_container(container("c")).await.unwrap());
        settle().await;
        assert_eq!(rig.plugin.news(), ["StartContainer c", "StopContainer c", "StopPodSandbox c"]);
    }
    rig.plugin.refuse(Event::StartContainer);
    rig.handle.start_container(container("c")).await.err().unwrap();
    rig.handle.remove_container(container("c")).await.unwrap();
    let expected =
        ["StartContainer c", "StopContainer c", "StopPodSandbox c", "RemoveContainer c", "RemovePodSandbox c"];
    assert_eq!(rig.plugin.news(), expected, "its end is told before that of the next");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_being_removed_is_not_started_and_its_pod_does_not_run_again() {
    let rig = Podless::with(FakeDomain::new()).await;
    rig.running("c").await;
    rig.handle.stop_container(container("c")).await.unwrap();
    rig.plugin.news();
    rig.plugin.take(SECOND);
    let removing = {
        let handle = rig.handle.clone();
        tokio::spawn(async move { handle.remove_container(container("c")).await })
    };
    settle().await;
    let refused = rig.handle.start_container(container("c")).await.err().unwrap();
    assert_eq!(refused.to_string(), "container c is being removed");
    removing.await.unwrap().unwrap();
    assert_eq!(rig.plugin.news(), ["RemoveContainer c", "RemovePodSandbox c"]);
    let removed = rig.handle.start_container(container("c")).await.err().unwrap();
    assert_eq!(removed.to_string(), "container c was removed");
}

/// Runs outside a Tokio runtime, because a disabled NRI needs none.
#[test]
fn disabled_a_runtime_without_pods_is_answered_at_once() {
    let nri = Nri::new(Config { disable: true, ..config() });
    let handle = nri.register_podless("moby", FakeDomain::new()).unwrap();
    let life = async {
        handle.create_container(container("c")).await.unwrap().created(container("c")).await.unwrap();
        handle.start_container(container("c")).await.unwrap().started(container("c")).await.unwrap();
        let update = handle.update_container(container("c"), Some(Resources::default())).await.unwrap();
        assert_eq!(update.resources(), Some(&Resources::default()));
        handle.container_exited(container("c"));
        handle.remove_container(container("c")).await.unwrap();
    };
    assert_eq!(life.now_or_never(), Some(()));
}
