//! Updates and evictions of containers that exist.

use std::time::Duration;

use async_trait::async_trait;
use cri_domain::generator::{Host, host};
use cri_domain::model::{ContainerRecord, PodRef, PodState, ServerSettings};
use cri_domain::store::Store as _;
use nri_api::testing::contract::{self, Fixture};
use nri_api::{Domain, DomainError, PodState as Known};
use nri_proto::{Cpu, Eviction, Field, Memory, Pids, Resources, Update};
use serde_json::json;

use crate::server::{Server, container, pod};

fn memory(limit: i64) -> Resources {
    Resources { memory: Some(Memory { limit: Some(limit), ..Memory::default() }), ..Resources::default() }
}

fn short_quota() -> Resources {
    Resources { cpu: Some(Cpu { quota: Some(999), ..Cpu::default() }), ..Resources::default() }
}

fn shares(shares: u64) -> Resources {
    Resources { cpu: Some(Cpu { shares: Some(shares), ..Cpu::default() }), ..Resources::default() }
}

/// Formats an error with its causes.
fn chain(error: &DomainError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Runs and removes pods as the server does without plugins.
#[async_trait]
impl Fixture for Server {
    fn domain(&self) -> &dyn Domain {
        &**self.handle.domain()
    }

    async fn run(&self, name: &str) -> (String, String) {
        self.store.put_pod(pod(name));
        let id = format!("{name}-app");
        self.store.put_container(ContainerRecord { pod_id: name.to_owned(), ..container(&id, json!({})) });
        (name.to_owned(), id)
    }

    async fn remove(&self, pod: &str, container: &str) {
        self.store.remove_container(container);
        self.store.remove_pod(pod);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_what_every_domain_is() {
    assert_eq!(contract::check(&Server::new()).await, []);
}

#[tokio::test]
async fn the_inventory_has_everything_with_its_state() {
    let server = Server::new();
    for (id, state) in [("a", PodState::Ready), ("b", PodState::NotReady), ("c", PodState::Unknown)] {
        let mut record = pod(id);
        record.status.state = state;
        server.store.put_pod(record);
    }
    server.store.put_container(container("c", json!({})));
    let inventory = server.handle.domain().inventory().await;
    let states: Vec<_> = inventory.pods.iter().map(|known| known.state).collect();
    assert_eq!(states, [Known::Running, Known::Stopped, Known::Unknown]);
    assert_eq!(inventory.pods[0].pod.ips, ["10.0.0.1"]);
    assert_eq!(inventory.containers[0].pod_id, "p");
}

#[tokio::test]
async fn an_update_leaves_what_it_does_not_say() {
    let server = Server::new();
    let kubelet = json!({
        "memory": {"limit": 100, "swap": 300, "reservation": 50}, "pids": {"limit": 9},
        "blockIO": {"weight": 500}, "cpu": {"shares": 2, "cpus": "0"}, "future": true,
    });
    let mut record = container("c", json!({"linux": {"resources": kubelet, "intelRdt": {"closID": "gold"}}}));
    record.config.rdt_class = Some("gold".to_owned());
    server.store.put_container(record);

    server.handle.domain().update(Update::new("c", memory(200))).await.unwrap();
    let mut expected = kubelet;
    expected["memory"]["limit"] = 200.into();
    assert_eq!(server.runtime.last(), expected);
    assert_eq!(server.runtime.updates.lock().unwrap()[0].1.rdt, Some(json!({"closID": "gold"})));
    assert_eq!(server.spec("c")["linux"]["resources"], expected);
    let seen = server.handle.container("c").linux.unwrap().resources.unwrap();
    assert_eq!((seen.memory.unwrap().swap, seen.rdt_class.as_deref()), (Some(300), Some("gold")));
}

#[tokio::test]
async fn a_container_whose_spec_was_not_kept_gets_new_limits_too() {
    let server = Server::new();
    let mut record = container("c", json!({}));
    record.spec = None;
    record.config.args = vec!["app".to_owned()];
    record.config.resources = Some(memory(100));
    server.store.put_container(record);
    server.handle.domain().update(Update::new("c", shares(7))).await.unwrap();
    assert_eq!(server.runtime.last(), json!({"memory": {"limit": 100, "swap": 100}, "cpu": {"shares": 7}}));
    let seen = server.handle.container("c");
    assert_eq!(seen.args, ["app"]);
    let resources = seen.linux.unwrap().resources.unwrap();
    assert_eq!((resources.memory.unwrap().limit, resources.cpu.unwrap().shares), (Some(100), Some(7)));
}

#[tokio::test]
async fn a_container_whose_limits_nobody_knows_gets_no_others() {
    let server = Server::new();
    let mut record = container("c", json!({}));
    record.spec = None;
    record.config.resources = Some(short_quota());
    server.store.put_container(record);
    let error = server.handle.domain().update(Update::new("c", memory(100))).await.unwrap_err();
    let expected = "cannot update container c: its current limits are unknown: cannot adjust CPUQuota: the value is shorter than a millisecond";
    assert!(chain(&error).ends_with(expected), "{}", chain(&error));
    assert_eq!(server.runtime.n_updates(), 0);
}

#[tokio::test]
async fn what_the_runtime_cannot_change_is_refused_by_name_and_nothing_is_done() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    let mut asked = memory(200);
    asked.memory_mut().swappiness = Some(1);
    asked.rdt_class = Some("gold".to_owned());
    let error = server.handle.domain().update(Update::new("c", asked)).await.unwrap_err();
    let expected = "the runtime failed: cannot update container c: the runtime cannot change MemSwappiness, RdtClass";
    assert_eq!(chain(&error), expected);
    assert_eq!((server.runtime.n_updates(), server.spec("c")), (0, json!({})));
}

#[tokio::test]
async fn a_class_is_applied_where_it_can_be_and_remembered() {
    let host = Host { rdt: Some(Box::new(|class| Ok(host::clos(class)))), ..Host::default() };
    let server = Server::with(host, ServerSettings::default());
    server.runtime.can_update.lock().unwrap().extend([Field::RdtClass, Field::BlockioClass]);
    server.store.put_container(container("c", json!({})));
    let rdt = |class: &str| Resources { rdt_class: Some(class.to_owned()), ..Resources::default() };
    server.handle.domain().update(Update::new("c", rdt("gold"))).await.unwrap();
    assert_eq!(server.runtime.updates.lock().unwrap()[0].1.rdt, Some(json!({"closID": "gold"})));
    assert_eq!(server.handle.container("c").linux.unwrap().resources.unwrap().rdt_class.as_deref(), Some("gold"));
    server.handle.domain().update(Update::new("c", rdt(""))).await.unwrap();
    assert_eq!(server.store.container("c").unwrap().config.rdt_class, None);

    // This host has no function for classes of block I/O.
    let blockio = Resources { blockio_class: Some("slow".to_owned()), ..Resources::default() };
    let error = server.handle.domain().update(Update::new("c", blockio)).await.unwrap_err();
    assert!(chain(&error).ends_with("the runtime cannot change BlockioClass"), "{}", chain(&error));
}

#[tokio::test]
async fn limits_that_cannot_be_meant_are_refused() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    let error = server.handle.domain().update(Update::new("c", short_quota())).await.unwrap_err();
    assert!(
        chain(&error).ends_with("cannot adjust CPUQuota: the value is shorter than a millisecond"),
        "{}",
        chain(&error)
    );
    assert_eq!(server.runtime.n_updates(), 0);
}

#[tokio::test]
async fn a_plugin_kills_no_process_by_an_update() {
    let server = Server::new();
    let before = json!({"linux": {"resources": {"unified": {"memory.min": "7"}}}});
    server.store.put_container(container("c", before.clone()));
    for file in ["cgroup.kill", "cgroup.procs", "cgroup.freeze", "../cgroup.procs", "cpu.max/../cgroup.procs"] {
        let mut asked = shares(7);
        asked.unified.insert(file.to_owned(), "1".to_owned());
        let error = server.handle.domain().update(Update::new("c", asked)).await.unwrap_err();
        let expected = format!(
            "cannot update container c: cannot adjust CgroupsUnified {file:?}: this is not a file of the controllers \
             cpu, cpuset, hugetlb, io, memory, misc, pids and rdma, and no setting allows another"
        );
        assert!(chain(&error).ends_with(&expected), "{}", chain(&error));
    }
    assert_eq!((server.runtime.n_updates(), server.spec("c")), (0, before));
}

#[tokio::test(start_paused = true)]
async fn d15_an_update_that_fails_half_way_is_taken_back() {
    let server = Server::new();
    let before = json!({"linux": {"resources": {"cpu": {"shares": 2}}}});
    server.store.put_container(container("c", before.clone()));
    *server.runtime.failures.lock().unwrap() = 1;
    let error = server.handle.domain().update(Update::new("c", shares(7))).await.unwrap_err();
    assert!(chain(&error).ends_with("could not update container c: device or resource busy"), "{}", chain(&error));
    let told: Vec<_> = server.runtime.updates.lock().unwrap().iter().map(|(_, it)| it.resources.clone()).collect();
    assert_eq!(told, [json!({"cpu": {"shares": 7}}), json!({"cpu": {"shares": 2}})]);
    assert_eq!(server.spec("c"), before);
}

#[tokio::test(start_paused = true)]
async fn d15_a_limit_that_there_was_none_of_is_lifted_again() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    *server.runtime.failures.lock().unwrap() = 1;
    let mut asked = shares(7);
    asked.limit_pids(9);
    server.handle.domain().update(Update::new("c", asked)).await.unwrap_err();
    assert_eq!(server.runtime.last(), json!({"cpu": {"shares": 1024}, "pids": {"limit": -1}}));
    assert_eq!(server.spec("c"), json!({}));
}

#[tokio::test(start_paused = true)]
async fn what_an_update_set_that_was_given_up_is_lifted_by_the_next() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    let domain = server.handle.domain();
    let given_up = tokio::time::timeout(Duration::from_millis(1), domain.update(Update::new("c", shares(7)))).await;
    assert!(given_up.is_err());
    domain.update(Update::new("c", memory(100))).await.unwrap();
    let told = server.runtime.last();
    assert_eq!(told, json!({"memory": {"limit": 100, "swap": 100}, "cpu": {"shares": 1024}}));
    domain.update(Update::new("c", memory(200))).await.unwrap();
    assert_eq!(server.runtime.last(), json!({"memory": {"limit": 200, "swap": 200}}), "once is enough");
}

#[tokio::test(start_paused = true)]
async fn updates_of_one_container_are_made_one_after_the_other() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    let domain = server.handle.domain();
    let pids = Resources { pids: Some(Pids { limit: 9, ..Pids::default() }), ..Resources::default() };
    let (one, two, three) = tokio::join!(
        domain.update(Update::new("c", shares(7))),
        domain.update(Update::new("c", pids)),
        domain.update(Update::new("c", memory(100))),
    );
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    let all = json!({"cpu": {"shares": 7}, "pids": {"limit": 9}, "memory": {"limit": 100, "swap": 100}});
    assert_eq!((server.runtime.last(), server.spec("c")["linux"]["resources"].clone()), (all.clone(), all));
}

#[tokio::test]
async fn a_turn_is_kept_no_longer_than_someone_has_it() {
    let queue = nri_api::queue::KeyedQueue::default();
    let held = queue.enqueue("a").turn().await;
    assert!(queue.is_busy("a"));
    assert!(!queue.is_busy("b"));
    drop(held);
    let last = queue.enqueue("c").turn().await;
    assert!(!queue.is_busy("a"), "turns that nobody has are forgotten");
    drop(last);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_nobody_waits_for_any_more_holds_up_no_other() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    let domain = server.handle.domain();
    let given_up = tokio::time::timeout(Duration::from_millis(1), domain.update(Update::new("c", shares(7)))).await;
    assert!(given_up.is_err());
    domain.update(Update::new("c", memory(100))).await.unwrap();
    assert_eq!(server.spec("c")["linux"]["resources"], json!({"memory": {"limit": 100, "swap": 100}}));
}

#[tokio::test]
async fn what_has_ended_or_is_not_known_has_gone() {
    let server = Server::new();
    let mut ended = container("c", json!({}));
    ended.status.state = nri_proto::ContainerState::Stopped;
    server.store.put_container(ended);
    let domain = server.handle.domain();
    for id in ["c", "nobody"] {
        let updated = domain.update(Update::new(id, shares(7))).await;
        assert!(matches!(updated, Err(DomainError::Gone)), "{updated:?}");
        let evicted = domain.evict(Eviction::new(id, "room")).await;
        assert!(matches!(evicted, Err(DomainError::Gone)), "{evicted:?}");
    }
    assert_eq!(server.runtime.n_updates(), 0);
}

#[tokio::test]
async fn an_eviction_stops_a_container_without_grace() {
    let server = Server::new();
    server.store.put_container(container("c", json!({})));
    server.handle.domain().evict(Eviction::new("c", "room")).await.unwrap();
    assert_eq!(*server.runtime.stopped.lock().unwrap(), [("c".to_owned(), Duration::ZERO)]);
}

#[test]
fn a_store_forgets_what_is_removed() {
    let store = cri_domain::store::MemoryStore::default();
    store.put_pod(pod("p"));
    store.put_container(container("c", json!({})));
    store.change_container("c", &mut |record| record.status.pid = 7);
    assert_eq!((store.pods().len(), store.container("c").unwrap().status.pid), (1, 7));
    store.remove_pod("p");
    store.remove_container("c");
    assert!(store.pod("p").is_none() && store.containers().is_empty());
    assert_eq!(PodRef::Unknown { id: "p".to_owned() }.id(), "p");
}
