//! Changes that plugins on Go's own stub make: in a container that is created, and in others.

use nri_adaptation::merge::{AskedEviction, MergedCreate};
use nri_proto::{Args, Change, Container, Cpu, Field, Mount, Owners, Resources, Update};
use serde_json::{Value, json};

use crate::node::{Node, Plugin, container, pod};
use crate::stubs::{Stub, on_every_stub};

on_every_stub! {
    what_plugins_change_is_merged_and_owned,
    a_plugin_sees_what_the_ones_before_it_changed,
    a_removal_reaches_the_next_plugin_and_the_runtime,
    what_an_earlier_plugin_set_may_be_replaced_if_it_is_removed_first,
    two_plugins_that_set_the_same_fail_the_request_by_both_names,
    arguments_can_be_set_once_and_replaced,
    another_container_is_updated_in_the_answer_to_each_question,
    a_container_that_is_created_cannot_be_updated,
    new_limits_are_changed_and_shown_to_the_next_plugin,
    two_plugins_cannot_set_the_same_limit_of_another_container,
    evictions_come_back_with_who_asked,
}

async fn what_plugins_change_is_merged_and_owned(stub: Stub) {
    let mut node = Node::start(0, 0);
    let mut first = vec!["-adjust", "env=A=1", "-adjust", "annotation=color=red", "-adjust", "mount=/a=/from"];
    if stub.can_set_rlimits() {
        first.extend(["-adjust", "rlimit=RLIMIT_NOFILE=1024"]);
    } else {
        stub.cannot(&["-adjust", "rlimit=RLIMIT_NOFILE=1024"], "cannot adjust \"rlimit\"").await;
    }
    let _first = stub.join(&mut node, &first).await;
    let second = ["-index", "20", "-adjust", "env=B=2", "-adjust", "resources=cpu-shares=77"];
    let _second = stub.join(&mut node, &second).await;
    let _third = stub.join(&mut node, &["-index", "30", "-adjust", "resources=memory-limit=4096"]).await;

    let MergedCreate { adjustment, updates, evictions, owners, container: _ } = create(&node).await;
    let env: Vec<_> =
        adjustment.env.iter().map(|(name, change)| (name, &*change.into_value().unwrap().value)).collect();
    assert_eq!(env, [("A", "1"), ("B", "2")]);
    assert_eq!(adjustment.annotations.get("color"), Some(Change::Set(&"red".to_owned())));
    assert_eq!(adjustment.mounts.get("/a").unwrap().into_value().unwrap().source, "/from");
    let resources = adjustment.linux.unwrap().resources.unwrap();
    assert_eq!((resources.cpu.unwrap().shares, resources.memory.unwrap().limit), (Some(77), Some(4096)));
    assert_eq!(adjustment.rlimits.len(), usize::from(stub.can_set_rlimits()));
    assert!(updates.is_empty() && evictions.is_empty());

    for (field, key) in [(Field::Env, "A"), (Field::Annotations, "color"), (Field::Mounts, "/a")] {
        assert_eq!(owner(&owners, field, key), Some("10-stub"));
    }
    assert_eq!(owner(&owners, Field::Env, "B"), Some("20-stub"));
    assert_eq!(owner(&owners, Field::CPUShares, ""), Some("20-stub"));
    assert_eq!(owner(&owners, Field::MemLimit, ""), Some("30-stub"));
    assert_eq!(owner(&owners, Field::CPUQuota, ""), None);
    let limited = stub.can_set_rlimits().then_some("10-stub");
    assert_eq!(owner(&owners, Field::Rlimits, "RLIMIT_NOFILE"), limited);
    node.nri.stop().await;
}

async fn a_plugin_sees_what_the_ones_before_it_changed(stub: Stub) {
    let mut node = Node::start(0, 0);
    let adjust = ["env=A=2", "env=B=3", "annotation=color=red", "mount=/a=/from", "resources=cpu-shares=77"];
    let first: Vec<_> = ["-show"].into_iter().chain(adjust.iter().flat_map(|change| ["-adjust", change])).collect();
    let mut first = stub.join(&mut node, &first).await;
    let mut second = stub.join(&mut node, &["-index", "20", "-show"]).await;
    let container = Container { env: vec!["A=1".to_owned(), "C=4".to_owned()], ..container("c0") };
    node.nri.begin(pod()).create_container(container).await.unwrap();

    let shown = shown(&mut first).await;
    assert_eq!(shown["env"], json!(["A=1", "C=4"]));
    assert_eq!((&shown["annotations"], &shown["mounts"], &shown["cpu_shares"]), (&Value::Null, &json!([]), &json!(0)));
    let shown = self::shown(&mut second).await;
    assert_eq!(shown["env"], json!(["C=4", "A=2", "B=3"]));
    assert_eq!(shown["annotations"], json!({"color": "red"}));
    assert_eq!(shown["mounts"], json!(["/a"]));
    assert_eq!(shown["cpu_shares"], 77);
    node.nri.stop().await;
}

/// U14. In Go a variable that is only removed reaches neither the result nor the container.
async fn a_removal_reaches_the_next_plugin_and_the_runtime(stub: Stub) {
    let mut node = Node::start(0, 0);
    let removals = ["-adjust", "env=-A", "-adjust", "mount=-/a", "-adjust", "annotation=-color"];
    let _first = stub.join(&mut node, &removals).await;
    let mut second = stub.join(&mut node, &["-index", "20", "-show"]).await;
    let mount = |destination: &str| Mount { destination: destination.to_owned(), ..Mount::default() };
    let container = Container {
        env: vec!["A=1".to_owned(), "B=2".to_owned()],
        mounts: vec![mount("/a"), mount("/b")],
        annotations: [("color", "red"), ("size", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..container("c0")
    };
    let merged = node.nri.begin(pod()).create_container(container).await.unwrap();
    assert_eq!(merged.adjustment.env.get("A"), Some(Change::Remove));
    assert_eq!(merged.adjustment.mounts.get("/a"), Some(Change::Remove));
    assert_eq!(merged.adjustment.annotations.get("color"), Some(Change::Remove));
    let shown = shown(&mut second).await;
    assert_eq!((&shown["env"], &shown["mounts"]), (&json!(["B=2"]), &json!(["/b"])));
    assert_eq!(shown["annotations"], json!({"size": "1"}));
    node.nri.stop().await;
}

async fn what_an_earlier_plugin_set_may_be_replaced_if_it_is_removed_first(stub: Stub) {
    let mut node = Node::start(0, 0);
    let first = ["-adjust", "env=A=1", "-adjust", "annotation=color=red", "-adjust", "mount=/a=/from"];
    let _first = stub.join(&mut node, &first).await;
    let replacements =
        ["env=-A", "env=A=2", "annotation=-color", "annotation=color=blue", "mount=-/a", "mount=/a=/else"];
    let second: Vec<_> =
        ["-index", "20"].into_iter().chain(replacements.iter().flat_map(|change| ["-adjust", change])).collect();
    let _second = stub.join(&mut node, &second).await;
    let MergedCreate { adjustment, owners, .. } = create(&node).await;
    assert_eq!(adjustment.env.get("A").unwrap().into_value().unwrap().value, "2");
    assert_eq!(adjustment.annotations.get("color"), Some(Change::Replace(&"blue".to_owned())));
    assert_eq!(adjustment.mounts.get("/a").unwrap().into_value().unwrap().source, "/else");
    for (field, key) in [(Field::Env, "A"), (Field::Annotations, "color"), (Field::Mounts, "/a")] {
        assert_eq!(owner(&owners, field, key), Some("20-stub"));
    }
    node.nri.stop().await;
}

async fn two_plugins_that_set_the_same_fail_the_request_by_both_names(stub: Stub) {
    let conflicts = [
        ("env=A=1", "env=A=2", "Env A"),
        ("annotation=color=red", "annotation=color=red", "Annotations color"),
        ("mount=/a=/from", "mount=/a=/else", "Mounts /a"),
        ("resources=cpu-shares=1", "resources=cpu-shares=2", "CPUShares "),
    ];
    for (first, second, what) in conflicts {
        let mut node = Node::start(0, 0);
        let _first = stub.join(&mut node, &["-adjust", first]).await;
        let _second = stub.join(&mut node, &["-index", "20", "-adjust", second]).await;
        let error = node.nri.begin(pod()).create_container(container("c0")).await.unwrap_err();
        assert_eq!(error.to_string(), format!(r#"plugins "20-stub" and "10-stub" both tried to set {what}"#));
        assert_eq!(node.nri.plugins().len(), 2, "both are still there");
        node.nri.stop().await;
    }
}

async fn arguments_can_be_set_once_and_replaced(stub: Stub) {
    if !stub.can_set_args() {
        return stub.cannot(&["-adjust", "args=sh"], "cannot adjust \"args\"").await;
    }
    let mut node = Node::start(0, 0);
    let _first = stub.join(&mut node, &["-adjust", "args=sh -c true"]).await;
    let _second = stub.join(&mut node, &["-index", "20", "-adjust", "args=-sleep 1"]).await;
    let mut third = stub.join(&mut node, &["-index", "30", "-show"]).await;
    let merged = create(&node).await;
    assert_eq!(merged.adjustment.args, Args::set(["sleep", "1"]).unwrap());
    assert_eq!(owner(&merged.owners, Field::Args, ""), Some("20-stub"));
    assert_eq!(shown(&mut third).await["args"], json!(["sleep", "1"]));

    let _fourth = stub.join(&mut node, &["-index", "40", "-adjust", "args=sh"]).await;
    let error = node.nri.begin(pod()).create_container(container("c0")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"plugins "40-stub" and "20-stub" both tried to set Args "#);
    node.nri.stop().await;
}

async fn another_container_is_updated_in_the_answer_to_each_question(stub: Stub) {
    let mut node = Node::start(3, 0);
    let updates = ["CreateContainer:c1=11", "UpdateContainer:c1=12", "StopContainer:c1=13", "StopContainer:c2=14"];
    let args: Vec<_> = updates.iter().flat_map(|update| ["-update", update]).collect();
    let _plugin = stub.join(&mut node, &args).await;

    let created = create(&node).await;
    assert_eq!(shares(&created.updates), [("c1", Some(11))]);
    assert_eq!(created.owners.owner("c1", Field::CPUShares, "").unwrap().plugins().collect::<Vec<_>>(), ["10-stub"]);
    let updated = node.nri.begin(pod()).update_container(container("c0"), None).await.unwrap();
    assert_eq!(updated.own, None, "it was not touched");
    assert_eq!(shares(&updated.others), [("c1", Some(12))]);
    let stopped = node.nri.begin(pod()).stop_container(container("c0")).await.unwrap();
    assert_eq!(shares(&stopped.updates), [("c1", Some(13)), ("c2", Some(14))]);
    node.nri.stop().await;
}

async fn a_container_that_is_created_cannot_be_updated(stub: Stub) {
    let mut node = Node::start(0, 0);
    let _plugin = stub.join(&mut node, &["-update", "CreateContainer:c0=11"]).await;
    let error = node.nri.begin(pod()).create_container(container("c0")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"plugin "10-stub" asked update of "c0" during creation"#);
    node.nri.stop().await;
}

async fn new_limits_are_changed_and_shown_to_the_next_plugin(stub: Stub) {
    let mut node = Node::start(1, 0);
    let _first = stub.join(&mut node, &["-update", "UpdateContainer:c0=77"]).await;
    let mut second = stub.join(&mut node, &["-index", "20", "-show"]).await;
    let cpu = Cpu { shares: Some(100), cpus: "0-3".to_owned(), ..Cpu::default() };
    let asked = Resources { cpu: Some(cpu), ..Resources::default() };
    let updated = node.nri.begin(pod()).update_container(container("c0"), Some(asked)).await.unwrap();
    let own = updated.own.unwrap();
    assert_eq!(shares(std::slice::from_ref(&own)), [("c0", Some(77))]);
    assert_eq!(own.resources().unwrap().cpu.as_ref().unwrap().cpus, "0-3", "what was asked for stays");
    assert_eq!(owner(&updated.owners, Field::CPUShares, ""), Some("10-stub"));
    if stub.learns_new_limits() {
        assert_eq!(second.wrote().await.unwrap(), json!({"limits": {"cpu_shares": 77}}));
    }
    assert_eq!(second.wrote().await.unwrap()["heard"], "UpdateContainer");
    node.nri.stop().await;
}

async fn two_plugins_cannot_set_the_same_limit_of_another_container(stub: Stub) {
    let mut node = Node::start(2, 0);
    let events = ["CreateContainer", "UpdateContainer", "StopContainer"];
    let mut plugins = Vec::new();
    for (index, shares) in [("10", 1), ("20", 2)] {
        let updates = events.map(|event| format!("{event}:c1={shares}"));
        let args: Vec<_> =
            ["-index", index].into_iter().chain(updates.iter().flat_map(|update| ["-update", update])).collect();
        plugins.push(stub.join(&mut node, &args).await);
    }
    let conflict = r#"plugins "20-stub" and "10-stub" both tried to set CPUShares "#;
    let operation = node.nri.begin(pod());
    assert_eq!(operation.create_container(container("c0")).await.unwrap_err().to_string(), conflict);
    assert_eq!(operation.update_container(container("c0"), None).await.unwrap_err().to_string(), conflict);
    let error = operation.stop_container(container("c0")).await.unwrap_err();
    assert_eq!(error.to_string(), conflict);
    assert_eq!(shares(&error.merged.updates), [("c1", Some(1))], "an end takes place: what the first wants holds");
    node.nri.stop().await;
}

/// No version of the stub supports evictions. Where a plugin can extend the stub's answer, ours
/// adds them. Go drops them.
async fn evictions_come_back_with_who_asked(stub: Stub) {
    let evictions = ["-evict", "CreateContainer:c1=no room", "-evict", "UpdateContainer:c2=no peace"];
    if !stub.can_evict() {
        return stub.cannot(&evictions, "cannot be made to evict").await;
    }
    let mut node = Node::start(3, 0);
    let _first = stub.join(&mut node, &evictions).await;
    let second = ["-index", "20", "-evict", "CreateContainer:c1=it is late"];
    let _second = stub.join(&mut node, &second).await;
    let created = create(&node).await;
    assert_eq!(asked(&created.evictions), [("10-stub", "c1", "no room"), ("20-stub", "c1", "it is late")]);
    let updated = node.nri.begin(pod()).update_container(container("c0"), None).await.unwrap();
    assert_eq!(asked(&updated.evictions), [("10-stub", "c2", "no peace")]);
    assert!(node.evicted().is_empty(), "it is the caller who evicts");
    node.nri.stop().await;
}

/// Creates the container `c0`.
async fn create(node: &Node) -> MergedCreate {
    node.nri.begin(pod()).create_container(container("c0")).await.unwrap()
}

/// Returns the container of the create request, as a plugin recorded it.
async fn shown(plugin: &mut Plugin) -> Value {
    let shown = plugin.wrote().await.unwrap();
    assert_eq!(shown["heard"], "CreateContainer");
    shown
}

fn owner<'a>(owners: &'a Owners, field: Field, key: &str) -> Option<&'a str> {
    owners.owner("c0", field, key)?.plugins().next()
}

/// Returns the CPU shares that updates give to containers.
fn shares(updates: &[Update]) -> Vec<(&str, Option<u64>)> {
    let shares = |update: &Update| update.resources()?.cpu.as_ref()?.shares;
    updates.iter().map(|update| (&*update.container_id, shares(update))).collect()
}

fn asked(evictions: &[AskedEviction]) -> Vec<(&str, &str, &str)> {
    evictions
        .iter()
        .map(|AskedEviction { plugin, eviction }| (plugin.as_str(), &*eviction.container_id, &*eviction.reason))
        .collect()
}
