//! The events of pods and containers that plugins get, and their order.

use std::sync::Arc;

use async_trait::async_trait;
use nri_api::plugin::Reply;
use nri_api::proto::UpdateReply;
use nri_api::testing::FakeDomain;
use nri_api::{
    Container, ContainerState, Domain, DomainError, Error, Event, Eviction, Inventory, Nri, ObjectKind, Resources,
    State, Update,
};
use tokio::time::timeout;

use crate::rig::{Recorder, Rig, SECOND, config, container, exited, pod, running, settle};

#[tokio::test(start_paused = true)]
async fn a_life_is_told_in_order() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    assert_eq!(rig.handle.pod_state("p"), Some(State::Running));
    rig.create("p", "c").await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Created));
    rig.start("p", "c").await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
    rig.stop("p", "c").await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
    rig.remove("p", "c").await;
    assert_eq!(rig.handle.container_state("c"), None);
    rig.handle.stop_pod(pod("p")).await.unwrap();
    assert_eq!(rig.handle.pod_state("p"), Some(State::Stopped));
    rig.handle.remove_pod(pod("p")).await.unwrap();
    assert_eq!(rig.handle.pod_state("p"), None);
    let expected = [
        "RunPodSandbox p",
        "CreateContainer c",
        "PostCreateContainer c",
        "StartContainer c",
        "PostStartContainer c",
        "StopContainer c",
        "RemoveContainer c",
        "StopPodSandbox p",
        "RemovePodSandbox p",
    ];
    assert_eq!(rig.plugin.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn n07_ends_are_told_once_however_often_they_are_said() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    for _ in 0..3 {
        rig.stop("p", "c").await;
    }
    for _ in 0..3 {
        rig.remove("p", "c").await;
    }
    for _ in 0..3 {
        rig.handle.stop_pod(pod("p")).await.unwrap();
    }
    for _ in 0..3 {
        rig.handle.remove_pod(pod("p")).await.unwrap();
    }
    rig.stop("p", "c").await;
    let expected = ["StopContainer c", "RemoveContainer c", "StopPodSandbox p", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn n04_to_remove_a_container_that_runs_is_to_stop_it_first() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.remove("p", "c").await;
    assert_eq!(rig.plugin.heard(), ["StopContainer c", "RemoveContainer c"]);
    assert_eq!(rig.plugin.container(Event::StopContainer).state, ContainerState::Stopped);
    assert_eq!(rig.plugin.container(Event::RemoveContainer).state, ContainerState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_fails_does_not_keep_a_container_from_being_removed() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.plugin.refuse(Event::StopContainer);
    rig.remove("p", "c").await;
    assert_eq!(rig.plugin.heard(), ["StopContainer c", "RemoveContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn containers_stop_before_their_pod_and_are_removed_before_it() {
    let rig = Rig::new().await;
    rig.running("p", "a").await;
    for id in ["b", "c"] {
        rig.create("p", id).await;
    }
    rig.stop("p", "b").await;
    rig.plugin.news();
    rig.handle.stop_pod(pod("p")).await.unwrap();
    assert_eq!(rig.plugin.news(), ["StopContainer a", "StopContainer c", "StopPodSandbox p"]);
    assert_eq!(rig.plugin.container(Event::StopContainer).name, "c", "the words are those of the domain");
    rig.handle.remove_pod(pod("p")).await.unwrap();
    assert_eq!(
        rig.plugin.news(),
        ["RemoveContainer a", "RemoveContainer b", "RemoveContainer c", "RemovePodSandbox p"]
    );
}

#[tokio::test(start_paused = true)]
async fn to_remove_a_pod_that_runs_is_to_stop_and_remove_all_of_it() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.handle.remove_pod(pod("p")).await.unwrap();
    let expected = ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_the_domain_has_forgotten_stops_with_its_id_alone() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.domain.forget("c");
    rig.handle.stop_pod(pod("p")).await.unwrap();
    let told = rig.plugin.container(Event::StopContainer);
    assert_eq!((&*told.id, &*told.pod_id, &*told.name, told.state), ("c", "p", "", ContainerState::Stopped));
}

#[tokio::test(start_paused = true)]
async fn n10_of_what_nobody_knows_no_end_is_told() {
    let rig = Rig::new().await;
    rig.stop("p", "c").await;
    rig.remove("p", "c").await;
    rig.handle.stop_pod(pod("p")).await.unwrap();
    rig.handle.remove_pod(pod("p")).await.unwrap();
    rig.handle.container_exited(pod("p"), exited("p", "c", 1));
    settle().await;
    assert_eq!(rig.plugin.heard(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_started_or_updated_is_known_from_then_on() {
    let rig = Rig::new().await;
    rig.start("p", "started").await;
    let update = rig.handle.update_container(pod("p"), running("p", "updated"), None).await.unwrap();
    update.updated(running("p", "updated")).await.unwrap();
    rig.handle.update_pod(pod("q"), None, None).await.unwrap().updated(pod("q")).await.unwrap();
    assert_eq!(rig.handle.container_state("started"), Some(State::Running));
    assert_eq!(rig.handle.container_state("updated"), Some(State::Running));
    rig.plugin.news();
    rig.handle.remove_pod(pod("q")).await.unwrap();
    assert_eq!(rig.plugin.news(), ["StopPodSandbox q", "RemovePodSandbox q"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_knew_is_known_by_its_first_container() {
    let rig = Rig::new().await;
    rig.create("p", "c").await;
    rig.plugin.news();
    rig.handle.remove_pod(pod("p")).await.unwrap();
    let expected = ["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.news(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_taken_cannot_be_created_and_the_error_says_why() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    let is_taken = rig.handle.run_pod(pod("p")).await.err().unwrap();
    assert_eq!(is_taken.to_string(), "pod p exists already");
    let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    let in_flight = rig.handle.create_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!(in_flight.to_string(), "container c is still being created");
    assert!(matches!(in_flight, Error::BeingCreated { kind: ObjectKind::Container, .. }));
    let early = rig.handle.start_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!(early.to_string(), "container c is still being created");
    creation.created(container("p", "c")).await.unwrap();
    let taken = rig.handle.create_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!(taken.to_string(), "container c exists already");
    assert_eq!(rig.plugin.heard().iter().filter(|line| *line == "CreateContainer c").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn n05_a_create_that_fails_is_undone_and_may_be_tried_again() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.plugin.news();
    rig.plugin.refuse(Event::CreateContainer);
    let error = rig.handle.create_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!(error.to_string(), "plugin 10-books failed to handle CreateContainer request");
    settle().await;
    assert_eq!(rig.plugin.news(), ["CreateContainer c", "StopContainer c", "RemoveContainer c"]);
    assert_eq!(rig.handle.container_state("c"), None);

    let other = Rig::new().await;
    drop(other.handle.create_container(pod("p"), container("p", "c")).await.unwrap());
    other.create("p", "c").await;
    let expected =
        ["CreateContainer c", "StopContainer c", "RemoveContainer c", "CreateContainer c", "PostCreateContainer c"];
    assert_eq!(other.plugin.news(), expected, "what is undone comes before the next try");
}

#[tokio::test(start_paused = true)]
async fn n06_a_run_that_fails_is_undone_and_may_be_tried_again() {
    let rig = Rig::new().await;
    drop(rig.handle.run_pod(pod("p")).await.unwrap());
    assert_eq!(rig.handle.pod_state("p"), None);
    rig.run_pod("p").await;
    let expected = ["RunPodSandbox p", "StopPodSandbox p", "RemovePodSandbox p", "RunPodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_ends_in_a_stop_whoever_fails_it() {
    let rig = Rig::new().await;
    rig.create("p", "c").await;
    rig.plugin.news();
    drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
    settle().await;
    assert_eq!(rig.plugin.news(), ["StartContainer c", "StopContainer c"]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));

    rig.plugin.refuse(Event::StartContainer);
    assert!(rig.handle.start_container(pod("p"), container("p", "c")).await.is_err());
    settle().await;
    assert_eq!(rig.plugin.news(), ["StartContainer c", "StopContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_started_again_stops_again() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.stop("p", "c").await;
    rig.start("p", "c").await;
    rig.stop("p", "c").await;
    rig.remove("p", "c").await;
    let expected =
        ["StopContainer c", "StartContainer c", "PostStartContainer c", "StopContainer c", "RemoveContainer c"];
    assert_eq!(rig.plugin.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn that_a_container_was_started_is_not_told_after_its_stop() {
    let rig = Rig::new().await;
    rig.create("p", "c").await;
    rig.plugin.news();
    let start = rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap();
    rig.handle.container_exited(pod("p"), exited("p", "c", 0));
    settle().await;
    start.started(running("p", "c")).await.unwrap();
    assert_eq!(rig.plugin.heard(), ["StartContainer c", "StopContainer c"]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
}

#[tokio::test(start_paused = true)]
async fn an_update_gives_what_plugins_make_of_it() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    let shares = |shares| {
        let mut resources = Resources::default();
        resources.cpu_mut().shares = Some(shares);
        resources
    };
    let seen = |update: &nri_api::ContainerUpdate| update.resources().and_then(|r| r.cpu.clone()?.shares);
    let own = rig.handle.update_container(pod("p"), running("p", "c"), Some(shares(100))).await.unwrap();
    assert_eq!(seen(&own), Some(100), "no plugin has a say");
    own.updated(running("p", "c")).await.unwrap();

    let reply = UpdateReply { updates: vec![Update::new("c", shares(7))], ..UpdateReply::default() };
    rig.plugin.reply(Event::UpdateContainer, Reply::Update(reply));
    let merged = rig.handle.update_container(pod("p"), running("p", "c"), Some(shares(100))).await.unwrap();
    assert_eq!(seen(&merged), Some(7));
    drop(merged);
    assert_eq!(rig.plugin.heard(), ["UpdateContainer c", "PostUpdateContainer c", "UpdateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn u29_n02_every_plugin_hears_of_a_stop_although_one_fails_and_the_error_is_returned() {
    let rig = Rig::new().await;
    let last = rig.join("90-last").await;
    rig.running("p", "c").await;
    last.news();
    rig.plugin.refuse(Event::StopContainer);
    let error = rig.handle.stop_container(pod("p"), container("p", "c")).await.unwrap_err();
    assert_eq!(error.to_string(), "plugin 10-books failed to handle StopContainer request");
    assert_eq!(last.heard(), ["StopContainer c"]);
    rig.remove("p", "c").await;
    assert_eq!(last.heard(), ["StopContainer c", "RemoveContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_created_in_a_pod_that_ends_comes_to_nothing_before_the_pod_does() {
    let rig = Rig::new().await;
    rig.handle.run_pod(pod("p")).await.unwrap().commit();
    let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    rig.plugin.news();
    rig.handle.remove_pod(pod("p")).await.unwrap();
    let expected = ["StopContainer c", "RemoveContainer c", "StopPodSandbox p", "RemovePodSandbox p"];
    assert_eq!(rig.plugin.news(), expected);
    let late = creation.created(container("p", "c")).await.unwrap_err();
    assert_eq!(late.to_string(), "container c cannot be created or started: pod p has ended");
    assert_eq!(rig.plugin.news(), [""; 0]);
    assert_eq!((rig.handle.pod_state("p"), rig.handle.container_state("c")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn while_plugins_are_asked_about_a_container_its_pod_does_not_end() {
    let rig = Rig::new().await;
    rig.handle.run_pod(pod("p")).await.unwrap().commit();
    rig.plugin.news();
    rig.plugin.take(SECOND);
    let create = rig.handle.create_container(pod("p"), container("p", "c"));
    let stop = async {
        tokio::task::yield_now().await;
        rig.handle.stop_pod(pod("p")).await
    };
    let (created, stopped) = tokio::join!(create, stop);
    stopped.unwrap();
    let late = created.unwrap().created(container("p", "c")).await;
    assert!(matches!(late, Err(Error::PodEnded { .. })));
    let expected = ["CreateContainer c", "StopContainer c", "RemoveContainer c", "StopPodSandbox p"];
    assert_eq!(rig.plugin.news(), expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_pod_that_has_stopped() {
    let rig = Rig::new().await;
    rig.handle.run_pod(pod("p")).await.unwrap().commit();
    rig.handle.stop_pod(pod("p")).await.unwrap();
    let refused = rig.handle.create_container(pod("p"), container("p", "c")).await.err();
    assert!(matches!(refused, Some(Error::PodEnded { .. })));
    rig.plugin.news();
    rig.handle.remove_pod(pod("p")).await.unwrap();
    assert_eq!(rig.plugin.news(), ["RemovePodSandbox p"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_is_not_updated_and_does_not_come_back() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.remove("p", "c").await;
    rig.plugin.news();
    let update = rig.handle.update_container(pod("p"), container("p", "c"), None).await.err();
    assert_eq!(update.unwrap().to_string(), "container c was removed");
    assert_eq!(rig.plugin.news(), [""; 0]);
    assert_eq!(rig.handle.container_state("c"), None);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_failed_and_is_tried_again_at_once_stops_in_between() {
    let rig = Rig::new().await;
    rig.create("p", "c").await;
    rig.plugin.news();
    drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
    rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap().commit();
    assert_eq!(rig.plugin.news(), ["StartContainer c", "StopContainer c", "StartContainer c"]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
}

#[tokio::test(start_paused = true)]
async fn a_second_start_that_is_given_up_while_the_first_is_asked_stops_nothing() {
    let rig = Rig::new().await;
    rig.create("p", "c").await;
    rig.plugin.news();
    rig.plugin.take(SECOND);
    let first = rig.handle.start_container(pod("p"), container("p", "c"));
    let second = timeout(SECOND / 2, rig.handle.start_container(pod("p"), container("p", "c")));
    let (first, second) = tokio::join!(first, second);
    assert!(second.is_err(), "it waits for the first");
    first.unwrap().commit();
    settle().await;
    assert_eq!(rig.plugin.news(), ["StartContainer c"]);
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
    rig.stop("p", "c").await;
    assert_eq!(rig.plugin.news(), ["StopContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_about_to_start_is_created_whatever_it_was_before() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    for words in [container("p", "c"), running("p", "c"), exited("p", "c", 3)] {
        drop(rig.handle.start_container(pod("p"), words).await.unwrap());
        assert_eq!(rig.plugin.container(Event::StartContainer).state, ContainerState::Created);
    }
}

/// A domain that looks up single containers instead of filtering its inventory.
struct Quick(Arc<FakeDomain>);

#[async_trait]
impl Domain for Quick {
    async fn inventory(&self) -> Inventory {
        self.0.inventory().await
    }
    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        ids.iter().filter_map(|id| self.0.container(id)).collect()
    }
    async fn update(&self, update: Update) -> Result<(), DomainError> {
        self.0.update(update).await
    }
    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.0.evict(eviction).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_asks_for_its_own_containers_alone() {
    let memory = FakeDomain::new();
    for n in 0..100 {
        memory.put_pod(pod(&format!("p{n}")));
        memory.put(running(&format!("p{n}"), &format!("c{n}")));
    }
    let nri = Nri::new(config());
    let handle = nri.register("k8s.io", Arc::new(Quick(memory.clone()))).unwrap();
    nri.start().await.unwrap();
    let plugin = Recorder::new();
    nri.admit("10-books".parse().unwrap(), plugin.clone()).await.unwrap();
    let before = memory.n_inventories();
    for n in 0..100 {
        handle.remove_pod(pod(&format!("p{n}"))).await.unwrap();
        assert_eq!(plugin.container(Event::StopContainer).name, format!("c{n}"));
    }
    assert_eq!(memory.n_inventories(), before);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_in_a_pod_that_has_ended() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.create("p", "c").await;
    rig.handle.stop_pod(pod("p")).await.unwrap();
    rig.plugin.news();
    let late = rig.handle.start_container(pod("p"), container("p", "c")).await;
    assert!(matches!(late, Err(Error::PodEnded { .. })));
    assert_eq!(rig.plugin.news(), Vec::<String>::new());
    rig.remove("p", "c").await;
    assert_eq!(rig.plugin.news(), ["RemoveContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn what_plugins_could_not_find_again_is_not_created() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.plugin.news();
    let elsewhere = rig.handle.create_container(pod("p"), container("q", "c")).await;
    let said = elsewhere.map(drop).unwrap_err().to_string();
    assert_eq!(said, "container c cannot be created in pod p: its pod_id is q");
    let nameless = rig.handle.create_container(pod("p"), container("p", "")).await;
    assert!(matches!(nameless, Err(Error::NoId { kind: ObjectKind::Container })));
    assert!(matches!(rig.handle.run_pod(pod("")).await, Err(Error::NoId { kind: ObjectKind::Pod })));
    assert_eq!(rig.plugin.news(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_does_not_say_where_it_is_is_told_with_its_pod() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    let creation = rig.handle.create_container(pod("p"), container("", "c")).await.unwrap();
    assert_eq!(rig.plugin.container(Event::CreateContainer).pod_id, "p");
    drop(creation);
}
