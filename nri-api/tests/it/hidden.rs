//! A plugin cannot change containers that it may not see. This crate looks up where the containers
//! are.

use std::sync::Arc;

use async_trait::async_trait;
use nri_api::ledger::{EntryKind, Ledger};
use nri_api::plugin::Reply;
use nri_api::policy::NotAllowed;
use nri_api::proto::StopReply;
use nri_api::testing::FakeDomain;
use nri_api::{Config, Container, Event, Eviction, Handle, Nri, Pod, State, Update};
use nri_plugin::{Connection, Options, Runner, UpdateError};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::rig::{Recorder, SECOND, config, create_reply, running, settle};

fn pod_in(namespace: &str) -> Pod {
    Pod { id: format!("{namespace}-pod"), namespace: namespace.to_owned(), ..Pod::default() }
}

fn container_in(namespace: &str, id: &str) -> Container {
    running(&pod_in(namespace).id, id)
}

fn shares(id: &str) -> Update {
    let mut update = Update::of(id);
    update.resources_mut().cpu_mut().shares = Some(7);
    update
}

/// Returns settings under which the plugins `guest` and `20-guest` see only the namespace `shop`.
fn shop_alone() -> Config {
    let read = Config::from_toml("[plugins.guest]\nnamespaces = ['shop']").unwrap();
    Config { policies: read.policies, ..config() }
}

/// Runs a container in the pod of a Kubernetes namespace.
async fn run(handle: &Handle, domain: &FakeDomain, namespace: &str, id: &str) {
    let (pod, container) = (pod_in(namespace), container_in(namespace, id));
    if handle.pod_state(&pod.id) != Some(State::Running) {
        domain.put_pod(pod.clone());
        handle.run_pod(pod.clone()).await.unwrap().commit();
    }
    let creation = handle.create_container(pod.clone(), container.clone()).await.unwrap();
    domain.put(container.clone());
    creation.created(container.clone()).await.unwrap();
    handle.start_container(pod, container.clone()).await.unwrap().started(container).await.unwrap();
}

/// Returns the containers whose changes were refused because they are hidden, and the reasons of
/// failed changes.
fn refused_and_failed(nri: &Nri) -> (Vec<String>, Vec<String>) {
    let (mut refused, mut failed) = (Vec::new(), Vec::new());
    for entry in nri.ledger(Ledger::all) {
        if let EntryKind::NotAllowed(NotAllowed::Hidden { container }) = &entry.what {
            refused.push(container.clone());
        } else if let EntryKind::UpdateFailed { reason } | EntryKind::EvictionFailed { reason } = &entry.what {
            failed.push(reason.clone());
        }
    }
    (refused, failed)
}

fn updated(domain: &FakeDomain) -> Vec<String> {
    domain.updates().into_iter().map(|update| update.container_id).collect()
}

struct Guest;

#[async_trait]
impl nri_plugin::Plugin for Guest {
    fn events(&self) -> nri_plugin::EventMask {
        Event::RemovePodSandbox.into()
    }
}

#[tokio::test]
async fn a_plugin_that_connects_changes_only_what_it_sees() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let (nri, domain) = (Nri::new(Config { socket: Some(socket.clone()), ..shop_alone() }), FakeDomain::new());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    nri.start().await.unwrap();
    run(&handle, &domain, "shop", "mine").await;
    run(&handle, &domain, "bank", "theirs").await;
    let options = Options {
        name: Some("guest".to_owned()),
        index: Some("20".to_owned()),
        connection: Connection::Path(socket),
        ..Options::default()
    };
    let runner = Runner::new(Arc::new(Guest), options).unwrap();
    let (runtime, shutdown) = (runner.runtime(), CancellationToken::new());
    let running = tokio::spawn(runner.run(shutdown.clone()));
    runtime.connected().await;
    let evictions = vec![Eviction::new("theirs", "enough"), Eviction::new("nowhere", "enough")];
    let asked = runtime.update(vec![shares("mine"), shares("theirs")], evictions).await;
    let Err(UpdateError::Failed { reason, failed }) = asked else { panic!("the plugin is not told") };
    let expected = r#"it may not change containers in pods that it may not see: "theirs", "theirs", "nowhere""#;
    assert_eq!(reason, expected);
    assert_eq!(failed.iter().map(|update| &*update.container_id).collect::<Vec<_>>(), ["theirs"]);
    assert_eq!(updated(&domain), ["mine"]);
    assert_eq!(refused_and_failed(&nri).0, ["theirs", "theirs", "nowhere"]);
    shutdown.cancel();
    running.await.unwrap().unwrap();
    nri.stop().await;
    assert!(domain.evictions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_two_namespaces_have_does_not_lead_into_a_hidden_pod() {
    let (one, other) = (FakeDomain::new(), FakeDomain::new());
    let nri = Nri::new(shop_alone());
    let handle = nri.register("one", one.clone()).unwrap();
    let handle_of_other = nri.register("other", other.clone()).unwrap();
    nri.start().await.unwrap();
    run(&handle, &one, "shop", "twice").await;
    run(&handle_of_other, &other, "bank", "twice").await;
    let guest = Recorder::new();
    guest.want(vec![shares("twice")]);
    nri.admit("20-guest".parse().unwrap(), guest.clone()).await.unwrap();
    let reply = || create_reply(vec![shares("twice")], vec![Eviction::new("twice", "enough")]);
    guest.reply(Event::CreateContainer, reply());
    drop(handle.create_container(pod_in("shop"), container_in("shop", "c1")).await.unwrap());
    // After the container has stopped in this namespace, the id would refer to the container in the
    // other one.
    let updates = vec![shares("twice")];
    guest.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
    handle.stop_container(pod_in("shop"), container_in("shop", "twice")).await.unwrap();
    drop(handle.create_container(pod_in("shop"), container_in("shop", "c2")).await.unwrap());
    handle.remove_container(pod_in("shop"), container_in("shop", "twice")).await.unwrap();
    drop(handle.create_container(pod_in("shop"), container_in("shop", "c3")).await.unwrap());
    settle().await;
    assert_eq!((updated(&one).len(), updated(&other).len()), (0, 0));
    assert!(one.evictions().is_empty() && other.evictions().is_empty());
    let refused = refused_and_failed(&nri).0;
    assert!(refused.len() >= 8 && refused.iter().all(|id| id == "twice"), "each is in the ledger: {refused:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_just_being_created_in_a_hidden_pod_is_hidden_and_what_has_just_gone_is_no_failure() {
    let (nri, domain) = (Nri::new(shop_alone()), FakeDomain::new());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    nri.start().await.unwrap();
    run(&handle, &domain, "shop", "gone").await;
    run(&handle, &domain, "bank", "gone-too").await;
    for (namespace, id) in [("shop", "gone"), ("bank", "gone-too")] {
        handle.remove_container(pod_in(namespace), container_in(namespace, id)).await.unwrap();
    }
    let guest = Recorder::new();
    nri.admit("20-guest".parse().unwrap(), guest.clone()).await.unwrap();
    let _in_shop = handle.create_container(pod_in("shop"), container_in("shop", "new")).await.unwrap();
    let _in_bank = handle.create_container(pod_in("bank"), container_in("bank", "new-too")).await.unwrap();
    let updates = ["gone", "gone-too", "new", "new-too"].map(shares).to_vec();
    guest.reply(Event::CreateContainer, create_reply(updates, Vec::new()));
    drop(handle.create_container(pod_in("shop"), container_in("shop", "c")).await.unwrap());
    let (refused, failed) = refused_and_failed(&nri);
    assert_eq!(refused, ["gone-too", "new-too"]);
    assert_eq!(failed, ["the container is still being created"]);
    assert_eq!(updated(&domain), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_container_took_meanwhile_does_not_lead_into_a_hidden_pod() {
    let policy = "[plugins.guest]\nnamespaces = ['shop']\n[plugins.slow]\nnamespaces = ['shop']\nallow.events = ['CreateContainer']";
    let config = Config { policies: Config::from_toml(policy).unwrap().policies, ..config() };
    let (nri, domain) = (Nri::new(config), FakeDomain::new());
    let handle = nri.register("k8s.io", domain.clone()).unwrap();
    nri.start().await.unwrap();
    run(&handle, &domain, "shop", "reused").await;
    let (guest, slow) = (Recorder::new(), Recorder::new());
    nri.admit("20-guest".parse().unwrap(), guest.clone()).await.unwrap();
    nri.admit("30-slow".parse().unwrap(), slow.clone()).await.unwrap();
    let reply = create_reply(vec![shares("reused")], vec![Eviction::new("reused", "enough")]);
    guest.reply(Event::CreateContainer, reply);
    slow.take(SECOND);
    let pod = Pod { id: "shop-pod-2".to_owned(), ..pod_in("shop") };
    let (container, other) = (running(&pod.id, "c"), handle.clone());
    let creating = tokio::spawn(async move { drop(other.create_container(pod, container).await.unwrap()) });
    sleep(SECOND / 2).await;
    handle.remove_container(pod_in("shop"), container_in("shop", "reused")).await.unwrap();
    run(&handle, &domain, "bank", "reused").await;
    creating.await.unwrap();
    settle().await;
    assert_eq!((updated(&domain).len(), domain.evictions().len()), (0, 0));
    let (refused, failed) = refused_and_failed(&nri);
    assert_eq!(refused, [""; 0], "it was seen when the plugin answered");
    assert_eq!(failed, ["the plugin may not see the container's pod"; 2]);
}
