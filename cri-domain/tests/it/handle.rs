//! The calls of a CRI server over the life of a pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cri_domain::domain::LimitError;
use cri_domain::generator::Host;
use cri_domain::generator::host::Allowlist;
use cri_domain::handle::{AdjustError, UpdateError};
use cri_domain::model::{Exit, PodState, ServerSettings};
use cri_domain::store::Store as _;
use nri_api::plugin::PluginError;
use nri_proto::{
    CdiDevice, Container, ContainerState, Cpu, CreateReply, EnvVar, Event, Eviction, Pod, Resources, Update,
    UpdateReply,
};
use serde_json::json;

use crate::server::{FakePlugin, Server, container, pod};

fn env(name: &'static str, value: &'static str) -> FakePlugin {
    FakePlugin::adjusting(move |it| it.env.set(EnvVar::new(name, value)).unwrap())
}

fn shares(shares: u64) -> Resources {
    Resources { cpu: Some(Cpu { shares: Some(shares), ..Cpu::default() }), ..Resources::default() }
}

/// Waits until a plugin has been notified of an event.
async fn heard(plugin: &FakePlugin, what: &str) {
    let hears = async {
        while !plugin.heard().iter().any(|heard| heard == what) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), hears).await.unwrap_or_else(|_| panic!("{:?}", plugin.heard()));
}

#[tokio::test(start_paused = true)]
async fn a_pods_life_is_told_in_order() {
    let server = Server::new();
    server.nri.start().await.unwrap();
    let plugin = server.admit("10-a", env("A", "1")).await;
    let handle = &server.handle;

    let run = handle.run_pod(&pod("p")).await.unwrap();
    server.store.put_pod(pod("p"));
    run.commit();
    assert_eq!(plugin.last(Event::RunPodSandbox).pod().ips, ["10.0.0.1"]);

    let mut record = container("c", json!({"process": {"env": ["PATH=/bin"]}}));
    record.status.state = ContainerState::Created;
    let adjusted = handle.create_container(&mut record).await.unwrap();
    assert_eq!(record.spec.as_deref().unwrap()["process"]["env"], json!(["PATH=/bin", "A=1"]));
    server.store.put_container(record);
    adjusted.creation.created(handle.container("c")).await.unwrap();

    let start = handle.start_container("c").await.unwrap();
    server.store.change_container("c", &mut |record| record.status.state = ContainerState::Running);
    start.started(handle.container("c")).await.unwrap();

    let exit = Exit { code: 137, at: 5, reason: "OOMKilled".to_owned(), message: "no memory".to_owned() };
    handle.container_exited("c", &exit);
    heard(&plugin, "StopContainer c").await;
    handle.stop_container("c").await.unwrap();
    handle.remove_container("c").await.unwrap();
    server.store.remove_container("c");
    handle.stop_pod("p").await.unwrap();
    handle.remove_pod("p").await.unwrap();
    server.nri.stop().await;

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
    assert_eq!(plugin.heard(), expected);
    let stop = plugin.last(Event::StopContainer);
    let Container { state, exit_code, finished_at, status_reason, status_message, .. } = stop.container().unwrap();
    assert_eq!((*state, *exit_code, *finished_at), (ContainerState::Stopped, 137, 5));
    assert_eq!((&**status_reason, &**status_message), ("OOMKilled", "no memory"));
}

#[tokio::test(start_paused = true)]
async fn a_container_in_a_pod_that_is_not_known_is_not_created_and_nobody_is_asked() {
    let server = Server::new();
    let mut stopped = pod("stopped");
    stopped.status.state = PodState::NotReady;
    server.store.put_pod(stopped);
    server.nri.start().await.unwrap();
    let plugin = server.admit("10-a", env("A", "1")).await;
    let mut record = container("c", json!({}));
    let Err(error) = server.handle.create_container(&mut record).await else { panic!("it is created") };
    assert_eq!(error.to_string(), "cannot create a container in unknown pod p");
    record.pod_id = "stopped".to_owned();
    let Err(error) = server.handle.create_container(&mut record).await else { panic!("it is created") };
    assert_eq!(error.to_string(), "cannot create a container in pod stopped: the pod is not ready");
    assert_eq!(plugin.heard(), Vec::<String>::new());
}

/// In Go each of these calls ends the daemon.
#[tokio::test(start_paused = true)]
async fn a_container_whose_pod_is_not_known_ends_and_is_removed_like_others() {
    let server = Server::new();
    server.store.put_pod(pod("p"));
    for id in ["a", "b", "c"] {
        server.store.put_container(container(id, json!({})));
    }
    server.nri.start().await.unwrap();
    let plugin = server.admit("10-a", FakePlugin::default()).await;
    // The store loses the pod only now. If it had never had the pod, nri-api would take its
    // containers for stopped.
    server.store.remove_pod("p");
    server.handle.stop_container("a").await.unwrap();
    server.handle.container_exited("b", &Exit::default());
    server.handle.remove_container("c").await.unwrap();
    heard(&plugin, "StopContainer b").await;
    for what in ["StopContainer a", "StopContainer c", "RemoveContainer c"] {
        heard(&plugin, what).await;
    }
    assert_eq!(plugin.last(Event::RemoveContainer).pod().id, "p");
}

/// In Go this was once a panic, because the container was not in the store yet.
#[tokio::test(start_paused = true)]
async fn an_exit_before_the_start_is_told_after_it() {
    let server = Server::new();
    server.store.put_pod(pod("p"));
    server.store.put_container(container("c", json!({})));
    assert!(server.handle.container_exited("c", &Exit { code: 3, ..Exit::default() }));
    assert_eq!(server.handle.container("c").state, ContainerState::Stopped);
    server.nri.start().await.unwrap();
    server.nri.settled().await;
    assert_eq!(server.handle.handle().container_state("c"), Some(nri_api::State::Stopped));
    // An unknown container is reported to the caller, and no plugin is notified.
    assert!(!server.handle.container_exited("nobody", &Exit::default()));
    assert_eq!(server.handle.handle().container_state("nobody"), None);
    server.nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_removed_or_classed_stays_so_for_others() {
    let server = Server::running().await;
    let removes = FakePlugin::adjusting(|it| {
        it.annotations.remove("debug");
        it.resources_mut().rdt_class = Some("gold".to_owned());
    });
    server.admit("10-a", removes).await;
    let mut record = container("new", json!({}));
    for key in ["debug", "team"] {
        record.config.annotations.insert(key.to_owned(), "1".to_owned());
    }
    let adjusted = server.handle.create_container(&mut record).await.unwrap();
    assert_eq!(adjusted.ignored, [nri_proto::Field::RdtClass]);
    assert_eq!(record.config.rdt_class, None, "nobody here knows classes");
    server.store.put_container(record);
    adjusted.creation.created(server.handle.container("new")).await.unwrap();
    let seen = server.handle.container("new");
    assert_eq!((seen.annotation("debug"), seen.annotation("team")), (None, Some("1")));

    let mut without = container("without", json!({}));
    without.spec = None;
    let Err(error) = server.handle.create_container(&mut without).await else { panic!("it is created") };
    assert_eq!(error.to_string(), "cannot create container without without a spec");
}

#[tokio::test(start_paused = true)]
async fn a_device_that_a_plugin_gave_to_a_container_is_shown_if_it_got_it() {
    let inject = |spec: &mut serde_json::Value, _: &[&str]| {
        spec["process"]["env"] = json!(["GPU=0"]);
        Ok(())
    };
    for (host, expected) in
        [(Host { cdi: Some(Box::new(inject)), ..Host::default() }, &["vendor.com/gpu=0"][..]), (Host::default(), &[])]
    {
        let server = Server::with(host, ServerSettings::default());
        server.store.put_pod(pod("p"));
        server.nri.start().await.unwrap();
        let gives = FakePlugin::adjusting(|it| it.cdi_devices.push(CdiDevice::new("vendor.com/gpu=0")));
        server.admit("10-a", gives).await;
        let mut record = container("new", json!({}));
        let adjusted = server.handle.create_container(&mut record).await.unwrap();
        server.store.put_container(record);
        adjusted.creation.created(server.handle.container("new")).await.unwrap();
        let shown = server.handle.container("new").cdi_devices;
        assert_eq!(shown.iter().map(|device| &*device.name).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn d14_a_container_that_cannot_be_created_is_undone_for_plugins() {
    let server = Server::running().await;
    let plugin = server.admit("10-a", env("A", "1")).await;
    let adjusted = server.handle.create_container(&mut container("new", json!({}))).await.unwrap();
    drop(adjusted);
    heard(&plugin, "RemoveContainer new").await;
    assert_eq!(plugin.heard(), ["CreateContainer new", "StopContainer new", "RemoveContainer new"]);
}

#[tokio::test(start_paused = true)]
async fn d01_what_cannot_be_applied_names_the_plugin_leaves_the_spec_and_is_undone() {
    let server = Server::running().await;
    let first = server.admit("10-a", env("A", "1")).await;
    let wrong = server.admit("20-b", env("B=C", "1")).await;
    let mut record = container("new", json!({"process": {"env": []}}));
    let before = record.clone();
    let Err(error) = server.handle.create_container(&mut record).await else { panic!("it is created") };
    let AdjustError::Spec { plugins, source } = error else { panic!("{error:?}") };
    assert_eq!((&*plugins, &*source.to_string()), ("20-b", r#"cannot adjust Env "B=C": the name has an equals sign"#));
    assert_eq!(record, before);
    for plugin in [&first, &wrong] {
        heard(plugin, "RemoveContainer new").await;
    }
}

#[tokio::test(start_paused = true)]
async fn d08_a_plugin_that_would_join_another_pods_shim_is_named() {
    let server = Server::running().await;
    let joins = |it: &mut nri_proto::Adjustment| {
        it.annotations.set("io.kubernetes.cri.sandbox-id", "another").unwrap();
    };
    server.admit("10-a", env("A", "1")).await;
    server.admit("20-b", FakePlugin::adjusting(joins)).await;
    let mut record = container("new", json!({"annotations": {"io.kubernetes.cri.sandbox-name": "p"}}));
    let before = record.clone();
    let Err(error) = server.handle.create_container(&mut record).await else { panic!("it is created") };
    let AdjustError::Spec { plugins, source } = error else { panic!("{error:?}") };
    assert_eq!(plugins, "20-b");
    assert_eq!(source.to_string(), r#"could not adjust Annotations "io.kubernetes.cri.sandbox-id""#);
    assert_eq!(record, before);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_allows_an_annotation_by_its_name_lets_plugins_change_it() {
    let allow = Allowlist { annotations: vec!["io.katacontainers.*".to_owned()], ..Allowlist::default() };
    let server = Server::with(Host { allow, ..Host::default() }, ServerSettings::default());
    server.store.put_pod(pod("p"));
    server.nri.start().await.unwrap();
    let key = "io.katacontainers.config.hypervisor.default_vcpus";
    server.admit("10-a", FakePlugin::adjusting(move |it| it.annotations.set(key, "2").unwrap())).await;
    let mut record = container("new", json!({}));
    let _adjusted = server.handle.create_container(&mut record).await.unwrap();
    assert_eq!(record.spec.as_deref().unwrap()["annotations"][key], "2");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_says_no_leaves_the_spec_and_those_before_it_hear_of_the_end() {
    let server = Server::running().await;
    let first = server.admit("10-a", env("A", "1")).await;
    let refuses =
        FakePlugin { create: Some(Box::new(|_| Err(PluginError::refused("not today")))), ..FakePlugin::default() };
    server.admit("20-b", refuses).await;
    let mut record = container("new", json!({}));
    let before = record.clone();
    let Err(error) = server.handle.create_container(&mut record).await else { panic!("it is created") };
    assert!(matches!(error, AdjustError::Nri(_)), "{error:?}");
    assert_eq!(record, before);
    heard(&first, "RemoveContainer new").await;
}

#[tokio::test(start_paused = true)]
async fn d10_a_plugin_cannot_put_a_container_into_another_pods_cgroup() {
    let server = Server::running().await;
    let elsewhere = FakePlugin::adjusting(|it| it.linux_mut().cgroups_path = "/kubepods/other/c".to_owned());
    server.admit("10-a", elsewhere).await;
    let Err(error) = server.handle.create_container(&mut container("new", json!({}))).await else {
        panic!("it is created")
    };
    let AdjustError::Spec { plugins, source } = error else { panic!("{error:?}") };
    assert_eq!((&*plugins, &*source.to_string()), ("10-a", "could not adjust CgroupsPath"));
}

#[tokio::test(start_paused = true)]
async fn d10_a_plugin_cannot_choose_the_cgroup_where_the_pods_is_not_known() {
    for any_cgroup in [false, true] {
        let server = Server::with(Host::default(), ServerSettings { any_cgroup, ..ServerSettings::default() });
        let mut nowhere = pod("p");
        nowhere.config.cgroup_parent.clear();
        server.store.put_pod(nowhere);
        server.nri.start().await.unwrap();
        let elsewhere = FakePlugin::adjusting(|it| it.linux_mut().cgroups_path = "/kubepods/other/c".to_owned());
        server.admit("10-a", elsewhere).await;
        let created = server.handle.create_container(&mut container("new", json!({}))).await;
        assert_eq!(created.is_ok(), any_cgroup);
    }
}

#[tokio::test(start_paused = true)]
async fn the_kubelets_update_is_what_plugins_make_of_it() {
    let server = Server::running().await;
    let plugin = FakePlugin {
        update: Some(Box::new(|_| UpdateReply {
            updates: vec![Update::new("c", shares(700))],
            ..UpdateReply::default()
        })),
        ..FakePlugin::default()
    };
    let plugin = server.admit("10-a", plugin).await;
    let mut asked = shares(500);
    asked.limit_pids(9);
    server.handle.update_container("c", asked).await.unwrap();
    assert_eq!(server.runtime.last(), json!({"cpu": {"shares": 700}, "pids": {"limit": 9}}));
    let post = plugin.last(Event::PostUpdateContainer);
    let resources = post.container().unwrap().linux.clone().unwrap().resources.unwrap();
    assert_eq!((resources.cpu.unwrap().shares, resources.pids.unwrap().limit), (Some(700), 9));

    let error = server.handle.update_container("nobody", shares(2)).await.unwrap_err();
    assert!(matches!(error, UpdateError::Unknown { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_new_limits_of_what_has_ended() {
    let server = Server::running().await;
    let plugin = server.admit("10-a", FakePlugin::default()).await;
    server.handle.container_exited("c", &Exit::default());
    let error = server.handle.update_container("c", shares(2)).await.unwrap_err();
    assert!(matches!(error, UpdateError::Limit(LimitError::Gone)), "{error:?}");
    heard(&plugin, "StopContainer c").await;
    assert!(!plugin.heard().iter().any(|heard| heard.starts_with("UpdateContainer")), "{:?}", plugin.heard());
}

#[tokio::test(start_paused = true)]
async fn a_file_of_the_kubelet_does_not_hide_the_field_that_a_plugin_changed() {
    let server = Server::running().await;
    let lowers = |_: &_| {
        let mut resources = Resources::default();
        resources.memory_mut().limit = Some(50);
        UpdateReply { updates: vec![Update::new("c", resources)], ..UpdateReply::default() }
    };
    server.admit("10-a", FakePlugin { update: Some(Box::new(lowers)), ..FakePlugin::default() }).await;
    let mut asked = Resources::default();
    asked.memory_mut().limit = Some(100);
    for (file, value) in [("memory.max", "100"), ("memory.swap.max", "0")] {
        asked.unified.insert(file.to_owned(), value.to_owned());
    }
    server.handle.update_container("c", asked).await.unwrap();
    let set = server.runtime.last();
    assert_eq!((&set["memory"]["limit"], &set["unified"]), (&json!(50), &json!({"memory.swap.max": "0"})));
}

#[tokio::test(start_paused = true)]
async fn an_update_of_the_kubelet_is_checked_like_that_of_a_plugin() {
    let server = Server::running().await;
    server.admit("10-a", FakePlugin::default()).await;
    let unified =
        |file: &str| Resources { unified: [(file.to_owned(), "1".to_owned())].into(), ..Resources::default() };
    let error = server.handle.update_container("c", unified("cgroup.freeze")).await.unwrap_err();
    assert!(matches!(error, UpdateError::Limit(LimitError::Spec { .. })), "{error:?}");
    assert_eq!(server.runtime.n_updates(), 0);
    server.handle.update_container("c", unified("memory.oom.group")).await.unwrap();
    assert_eq!(server.runtime.last()["unified"], json!({"memory.oom.group": "1"}));
}

#[tokio::test(start_paused = true)]
async fn two_updates_of_the_kubelet_are_made_in_the_order_in_which_plugins_see_them() {
    let server = Server::new();
    server.store.put_pod(pod("p"));
    for id in ["c", "other"] {
        server.store.put_container(container(id, json!({})));
    }
    server.nri.start().await.unwrap();
    // The first update also updates another container, which delays it. The second update is not
    // delayed.
    let n_asked = AtomicU32::new(0);
    let reply = move |_: &_| {
        let others = (n_asked.fetch_add(1, Ordering::Relaxed) == 0).then(|| Update::new("other", shares(9)));
        UpdateReply { updates: others.into_iter().collect(), ..UpdateReply::default() }
    };
    let plugin = server.admit("10-a", FakePlugin { update: Some(Box::new(reply)), ..FakePlugin::default() }).await;
    let handle = &server.handle;
    let (first, second) =
        tokio::join!(handle.update_container("c", shares(300)), handle.update_container("c", shares(400)));
    first.unwrap();
    second.unwrap();
    let told = server.runtime.updates.lock().unwrap().clone();
    let told: Vec<_> =
        told.iter().filter(|(id, _)| id == "c").map(|(_, it)| it.resources["cpu"]["shares"].clone()).collect();
    assert_eq!(told, [300, 400]);
    let expected = ["UpdateContainer c", "PostUpdateContainer c", "UpdateContainer c", "PostUpdateContainer c"];
    assert_eq!(plugin.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_waits_for_another_has_an_end() {
    let server = Server::running().await;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(2);
    let hurried = server.handle.until(deadline);
    let (first, second) =
        tokio::join!(server.handle.update_container("c", shares(300)), hurried.update_container("c", shares(400)));
    first.unwrap();
    assert_eq!(second.unwrap_err().to_string(), "cannot update container c: another update is still running");
    assert_eq!(server.spec("c")["linux"]["resources"]["cpu"]["shares"], 300);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_leaves_the_container_and_plugins_do_not_hear_that_it_was_made() {
    let server = Server::running().await;
    let plugin = server.admit("10-a", FakePlugin::default()).await;
    *server.runtime.failures.lock().unwrap() = 1;
    let error = server.handle.update_container("c", shares(500)).await.unwrap_err();
    assert!(matches!(error, UpdateError::Limit(_)), "{error:?}");
    assert_eq!(server.spec("c")["linux"]["resources"]["cpu"]["shares"], 2);
    assert_eq!(plugin.heard(), ["UpdateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn others_are_updated_and_evicted_in_the_answer_to_a_create() {
    let server = Server::running().await;
    server.store.put_container(container("other", json!({})));
    let reply = |_: &_| {
        Ok(CreateReply {
            updates: vec![Update::new("c", shares(300))],
            evictions: vec![Eviction::new("c", "room")],
            ..CreateReply::default()
        })
    };
    server.admit("10-a", FakePlugin { create: Some(Box::new(reply)), ..FakePlugin::default() }).await;
    let adjusted = server.handle.create_container(&mut container("new", json!({}))).await.unwrap();
    assert_eq!(server.spec("c")["linux"]["resources"]["cpu"]["shares"], 300);
    drop(adjusted);
    server.nri.stop().await;
    assert_eq!(server.runtime.stopped.lock().unwrap()[0].0, "c");
}

#[tokio::test(start_paused = true)]
async fn new_limits_of_a_pod_are_shown_when_it_has_them() {
    let server = Server::running().await;
    let plugin = server.admit("10-a", FakePlugin::default()).await;
    let update = server.handle.update_pod("p", None, Some(shares(9))).await.unwrap();
    server.store.change_pod("p", |record| record.config.resources = Some(shares(9)));
    update.updated(server.handle.domain().pod("p")).await.unwrap();
    let post = plugin.last(Event::PostUpdatePodSandbox);
    assert_eq!(post.pod().linux.clone().unwrap().pod_resources, Some(shares(9)));
}

#[tokio::test(start_paused = true)]
async fn plugins_are_not_asked_about_what_the_store_does_not_have() {
    let server = Server::running().await;
    let plugin = server.admit("10-a", FakePlugin::default()).await;
    let Err(error) = server.handle.start_container("nobody").await else { panic!("it starts") };
    assert_eq!(error.to_string(), "unknown container nobody");
    let Err(error) = server.handle.update_pod("nobody", None, Some(shares(9))).await else { panic!("it is updated") };
    assert_eq!(error.to_string(), "unknown pod nobody");
    assert_eq!(plugin.heard(), Vec::<String>::new());
    assert_eq!(server.handle.handle().container_state("nobody"), None);
}

#[tokio::test(start_paused = true)]
async fn without_nri_everything_is_done_and_nobody_is_asked() {
    let server = Server::disabled();
    let handle = &server.handle;
    server.store.put_pod(pod("p"));
    let mut record = container("c", json!({"process": {}}));
    let spec = record.spec.clone().unwrap();
    let adjusted = handle.create_container(&mut record).await.unwrap();
    assert!(Arc::ptr_eq(&spec, record.spec.as_ref().unwrap()), "the spec is copied for nobody");
    server.store.put_container(record);
    adjusted.creation.created(handle.container("c")).await.unwrap();
    assert_eq!(server.spec("c"), json!({"process": {}}));
    handle.update_container("c", shares(9)).await.unwrap();
    assert_eq!(server.spec("c")["linux"]["resources"]["cpu"]["shares"], 9);
    handle.container_exited("c", &Exit { code: 3, ..Exit::default() });
    assert_eq!(server.store.container("c").unwrap().status.exit_code, 3);
    // With NRI disabled, records are not converted.
    assert_eq!((handle.container("c"), handle.pod("p")), (Container::default(), Pod::default()));
    assert_eq!(handle.domain().container("c").unwrap().exit_code, 3);
    assert!(handle.start_container("nobody").await.is_err());
}
