//! The operator's policies for the replies of a plugin: allowed fields, visible pods, shadow mode,
//! and required plugins.

use nri_proto::{EnvVar, Event, Eviction, Field, Pod, Resources, Update, UpdateReply};

use super::fake::{Diary, FakePlugin, LIFE, Manner, adaptation, at_once, chain, container, pod};
use crate::Adaptation;
use crate::Notice;
use crate::api::plugin::Reply;
use crate::ledger::EntryKind;

fn in_namespace(namespace: &str) -> Pod {
    Pod { namespace: namespace.to_owned(), ..pod("p") }
}

/// Returns the ledger entries of a container as lines, without the time that the plugin took.
fn told(nri: &Adaptation, container: &str) -> Vec<String> {
    let short = |line: String| line.split(" (").next().unwrap_or_default().to_owned();
    nri.ledger(|ledger| ledger.of(container)).iter().map(|entry| short(entry.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_touches_what_it_may_not_is_refused_as_a_whole_and_by_name() {
    let diary = Diary::default();
    let [first, second] = ["10-a", "20-b"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    first.adjust(|adjustment| {
        adjustment.annotations.set("allowed", "yes").unwrap();
        adjustment.env.set(EnvVar::new("LD_PRELOAD", "evil.so")).unwrap();
    });
    let nri = adaptation("[plugins.a]\nallow.changes = ['Annotations']", &[("10-a", &first), ("20-b", &second)]).await;
    let error = nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "plugin 10-a failed to handle CreateContainer request: it may not touch Env LD_PRELOAD (allow.changes)"
    );
    assert_eq!(diary.lines(), ["10-a CreateContainer c"]);
    let entries = nri.ledger(|ledger| ledger.of("c"));
    assert!(matches!(&entries[..], [entry] if matches!(entry.what, EntryKind::NotAllowed(_))), "{entries:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_not_evict_or_update_others_is_refused_when_it_does() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("[plugins.a]\nallow.changes = ['Resources']", &[("10-a", &plugin)]).await;
    let other = Update::new("other", Resources::default());
    let evicted = Eviction { container_id: "other".to_owned(), ..Eviction::default() };
    for (reply, told) in [
        (
            UpdateReply { updates: vec![other], ..UpdateReply::default() },
            "it may not update other containers, and updates other (allow.changes)",
        ),
        (
            UpdateReply { evictions: vec![evicted], ..UpdateReply::default() },
            "it may not evict containers, and evicts other (allow.changes)",
        ),
    ] {
        plugin.reply(Event::UpdateContainer, Reply::Update(reply));
        let error = nri.begin(pod("p")).update_container(container("c"), None).await.unwrap_err();
        assert_eq!(chain(&error), format!("plugin 10-a failed to handle UpdateContainer request: {told}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_not_asked_about_events_that_it_may_not_see() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("[plugins.a]\nallow.events = ['StartContainer']", &[("10-a", &plugin)]).await;
    let life = nri.begin(pod("p"));
    life.notify(Notice::RunPod).await.unwrap();
    life.create_container(container("c")).await.unwrap();
    life.notify(Notice::Start(container("c"))).await.unwrap();
    assert_eq!(diary.lines(), ["10-a StartContainer c"]);
    assert_eq!(nri.plugins()[0].events, Event::StartContainer.into());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_sees_only_pods_of_its_namespaces() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("[plugins.a]\nnamespaces = ['shop-*']", &[("10-a", &plugin)]).await;
    for (namespace, id) in [("shop-eu", "seen"), ("bank", "hidden"), ("", "none")] {
        nri.begin(in_namespace(namespace)).notify(Notice::Start(container(id))).await.unwrap();
    }
    assert_eq!(diary.lines(), ["10-a StartContainer seen"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_on_trial_is_asked_and_recorded_and_nothing_comes_of_it() {
    let diary = Diary::default();
    let [trial, second] = ["10-trial", "20-b"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    trial.adjust(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "debug")).unwrap());
    second.adjust(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "info")).unwrap());
    let nri = adaptation("[plugins.trial]\nmode = 'shadow'", &[("10-trial", &trial), ("20-b", &second)]).await;
    let merged = nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!(merged.adjustment.env.get("LEVEL").unwrap().into_value().unwrap().value, "info");
    assert!(second.asked().container().unwrap().env.is_empty(), "others are not shown what it wants");

    let entries = nri.ledger(|ledger| ledger.of("c"));
    assert_eq!(entries.iter().map(|entry| entry.occasion.shadow).collect::<Vec<_>>(), [true, false]);
    let why = nri.ledger(|ledger| ledger.why("c", Field::Env, Some("LEVEL")));
    assert_eq!(why.iter().map(|entry| &*entry.occasion.plugin).collect::<Vec<_>>(), ["20-b"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_on_trial_fails_nothing() {
    let diary = Diary::default();
    let trial = FakePlugin::new("10-trial", LIFE, Manner::Refuses, &diary);
    let nri = adaptation("[plugins.trial]\nmode = 'shadow'\non_timeout = 'fail'", &[("10-trial", &trial)]).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    trial.behave(Manner::Never);
    operation.create_container(container("c")).await.unwrap();
    assert_eq!(diary.lines().len(), 2);
    assert_eq!(told(&nri, "c").len(), 2, "what it would have done is known");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_is_needed_only_for_pods_that_it_sees() {
    let nri = adaptation("[plugins.guard]\nrequired = true\nnamespaces = ['bank']", &[]).await;
    nri.begin(in_namespace("shop")).notify(Notice::RunPod).await.unwrap();
    nri.begin(in_namespace("bank")).notify(Notice::RunPod).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_node_itself_runs_without_a_required_plugin_absent_or_silent() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-guard", LIFE, Manner::Never, &diary);
    let nri = adaptation("[plugins.guard]\nrequired = true\nstrikes = 99", &[]).await;
    nri.begin(in_namespace("kube-system")).notify(Notice::RunPod).await.unwrap();
    nri.begin(in_namespace("shop")).notify(Notice::RunPod).await.unwrap_err();
    nri.admit("10-guard".parse().unwrap(), stuck).await.unwrap();
    nri.begin(in_namespace("kube-system")).create_container(container("c")).await.unwrap();
    nri.begin(in_namespace("shop")).create_container(container("c")).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn everyone_can_see_who_changed_what_and_who_failed() {
    let diary = Diary::default();
    let [first, second, third] = ["10-a", "20-b", "30-c"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    first.adjust(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "info")).unwrap());
    second.behave(Manner::Never);
    third.adjust(|adjustment| adjustment.env.replace(EnvVar::new("LEVEL", "debug")).unwrap());
    let nri = adaptation("", &[("10-a", &first), ("20-b", &second), ("30-c", &third)]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!(
        told(&nri, "c"),
        [
            "10-a set Env LEVEL: info",
            "20-b did not answer CreateContainer in time",
            "30-c set Env LEVEL: info -> debug"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_changed_is_not_recorded() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let life = nri.begin(pod("p"));
    life.create_container(container("c")).await.unwrap();
    life.notify(Notice::Start(container("c"))).await.unwrap();
    life.stop_container(container("c")).await.unwrap();
    assert_eq!(nri.ledger(|ledger| ledger.all()).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_wanted_in_a_request_that_failed_is_told_apart() {
    let diary = Diary::default();
    let [first, second] = ["10-a", "20-b"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    first.adjust(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "info")).unwrap());
    second.behave(Manner::Refuses);
    let nri = adaptation("", &[("10-a", &first), ("20-b", &second)]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
    assert!(nri.ledger(|ledger| ledger.why("c", Field::Env, None)).is_empty(), "nothing was changed");
    let entries = nri.ledger(|ledger| ledger.of("c"));
    assert!(entries[0].to_string().starts_with("10-a (in vain) set Env LEVEL: info"), "{entries:?}");
    assert!(entries[1].to_string().starts_with("20-b refused CreateContainer: not today"), "{entries:?}");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_on_trial_holds_nobody_up() {
    let nri = adaptation("[plugins.guard]\nrequired = true\nvalidator = true\nmode = 'shadow'", &[]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_said_about_a_name_holds_for_a_required_plugin_of_that_name() {
    let nri = adaptation("[plugins.10-guard]\nrequired = true\n[plugins.guard]\nnamespaces = ['bank']", &[]).await;
    nri.begin(in_namespace("shop")).notify(Notice::RunPod).await.unwrap();
    nri.begin(in_namespace("bank")).notify(Notice::RunPod).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_node_itself_runs_without_a_listed_validator_that_is_silent() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-judge", Event::ValidateContainerAdjustment.into(), Manner::Never, &diary);
    let nri = adaptation("[plugins.judge]\nvalidator = true", &[("10-judge", &stuck)]).await;
    nri.begin(in_namespace("shop")).create_container(container("c")).await.unwrap_err();
    nri.begin(in_namespace("kube-system")).create_container(container("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_something_else_counts_as_none() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    plugin.reply(Event::CreateContainer, Reply::Update(UpdateReply::default()));
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!(told(&nri, "c").len(), 1, "it is known");

    let nri = adaptation("[plugins.a]\non_timeout = 'fail'", &[("10-a", &plugin)]).await;
    let error = nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
    assert!(chain(&error).ends_with("its answer is of another kind than the request"), "{}", chain(&error));
}
