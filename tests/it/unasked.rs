//! Updates and evictions that a plugin requests on its own initiative, under various policies.

use nri_adaptation::ledger::EntryKind;
use nri_adaptation::snapshot::Snapshot;
use nri_proto::{Container, Field, Pod, api};
use protobuf::Message;
use ttrpc::Code;

use crate::node::{DONE, Node, start};
use crate::raw::Raw;

fn wanted() -> api::UpdateContainersRequest {
    let cpu = api::LinuxCPU {
        shares: Some(api::OptionalUInt64 { value: 7, ..Default::default() }).into(),
        ..Default::default()
    };
    let resources = api::LinuxResources { cpu: Some(cpu).into(), ..Default::default() };
    let linux = api::LinuxContainerUpdate { resources: Some(resources).into(), ..Default::default() };
    let update = api::ContainerUpdate { container_id: "c".to_owned(), linux: Some(linux).into(), ..Default::default() };
    let evict =
        api::ContainerEviction { container_id: "e".to_owned(), reason: "makes room".to_owned(), ..Default::default() };
    api::UpdateContainersRequest { update: vec![update], evict: vec![evict], ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_wants_by_itself_is_in_the_ledger_with_what_failed() {
    let nri = start("", Node { apply: |updates| Ok(updates), ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    plugin.call("UpdateContainers", &wanted()).await;
    plugin.answered().await;
    let of_c = nri.ledger(|ledger| ledger.of("c"));
    assert!(matches!(&of_c[0].what, EntryKind::Changed(change) if change.field == Field::CPUShares), "{of_c:?}");
    assert!(matches!(of_c[1].what, EntryKind::UpdateFailed { .. }), "{of_c:?}");
    assert!(nri.ledger(|ledger| ledger.why("c", Field::CPUShares, None)).is_empty(), "it was not made");
    let of_e = nri.ledger(|ledger| ledger.of("e"));
    assert!(matches!(&of_e[0].what, EntryKind::EvictionAsked { reason } if reason == "makes room"), "{of_e:?}");
    drop(plugin);
    nri.stop().await;
}

/// Fields that can neither be claimed nor forbidden do not reach the runtime, whatever the plugin
/// may do.
#[tokio::test(start_paused = true)]
async fn rules_for_devices_and_unknown_fields_do_not_reach_the_runtime() {
    let nri = start(
        "",
        Node {
            apply: |updates| {
                let resources = updates[0].resources().unwrap();
                assert!(resources.devices.is_empty() && updates[0].unknown.is_empty(), "{updates:?}");
                Ok(Vec::new())
            },
            ..DONE
        },
    );
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    let mut wanted = wanted();
    let update = &mut wanted.update[0];
    update.special_fields.mut_unknown_fields().add_varint(99, 7);
    let rule = api::LinuxDeviceCgroup { allow: true, access: "rwm".to_owned(), ..Default::default() };
    update.linux.mut_or_insert_default().resources.mut_or_insert_default().devices.push(rule);
    let mut eviction = api::ContainerEviction { container_id: "c".to_owned(), ..Default::default() };
    eviction.special_fields.mut_unknown_fields().add_varint(98, 7);
    wanted.evict.push(eviction);
    wanted.special_fields.mut_unknown_fields().add_varint(97, 7);
    plugin.call("UpdateContainers", &wanted).await;
    assert!(plugin.answered().await.status.is_none(), "it was refused");
    let entries = nri.ledger(|ledger| ledger.all());
    let dropped: Vec<_> = entries.iter().filter(|entry| matches!(entry.what, EntryKind::Dropped(_))).collect();
    let unknown = ["UpdateContainersRequest 97", "ContainerUpdate 99", "ContainerEviction 98"];
    for name in unknown {
        assert!(dropped.iter().any(|entry| entry.to_string().contains(name)), "{name}: {dropped:?}");
    }
    assert_eq!(dropped.len(), unknown.len() + 1, "and the rules: {dropped:?}");
    drop(plugin);
    nri.stop().await;
}

/// The plugin even requests the same update twice, which a merge would refuse.
#[tokio::test(start_paused = true)]
async fn each_update_that_a_plugin_wants_by_itself_is_recorded() {
    let nri = start("", DONE);
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    let mut wanted = wanted();
    let again = wanted.update[0].clone();
    wanted.update.push(again);
    plugin.call("UpdateContainers", &wanted).await;
    plugin.answered().await;
    assert_eq!(nri.ledger(|ledger| ledger.why("c", Field::CPUShares, None)).len(), 2);
    drop(plugin);
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_not_update_others_is_told_so() {
    let nri = start("[plugins.a]\nallow.changes = ['Env']", Node { apply: |_| panic!("applied"), ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    plugin.call("UpdateContainers", &wanted()).await;
    let status = plugin.answered().await.status.unwrap();
    assert_eq!(status.code, Code::PERMISSION_DENIED.into());
    assert_eq!(status.message, "it may not update other containers, and updates c (allow.changes)");
    drop(plugin);
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_on_trial_wants_by_itself_is_only_recorded() {
    let nri = start("[plugins.a]\nmode = 'shadow'", Node { apply: |_| panic!("applied"), ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    plugin.call("UpdateContainers", &wanted()).await;
    assert!(plugin.answered().await.status.is_none());
    let entries = nri.ledger(|ledger| ledger.all());
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.occasion.shadow));
    drop(plugin);
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_synchronized_with_pods_of_its_namespaces_alone() {
    let pod = |id: &str, namespace: &str| Pod { id: id.to_owned(), namespace: namespace.to_owned(), ..Pod::default() };
    let container =
        |id: &str, pod: &str| Container { id: id.to_owned(), pod_id: pod.to_owned(), ..Container::default() };
    let snapshot = Snapshot {
        pods: vec![pod("seen", "shop"), pod("hidden", "bank")],
        containers: vec![container("c1", "seen"), container("c2", "hidden")],
    };
    let nri = start("[plugins.a]\nnamespaces = ['shop']", Node { snapshot, ..DONE });
    let mut plugin = Raw::connect(&nri);
    plugin.register("10-a").await;
    let (id, _) = plugin.asked().await;
    plugin.answer(id, &api::ConfigureResponse::new()).await;
    let (_, request) = plugin.asked().await;
    let told = api::SynchronizeRequest::parse_from_bytes(&request.payload).unwrap();
    assert!(told.pods.iter().map(|pod| &*pod.id).eq(["seen"]));
    assert!(told.containers.iter().map(|container| &*container.id).eq(["c1"]));
    drop(plugin);
    nri.stop().await;
}
