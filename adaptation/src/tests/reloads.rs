//! Reloads of the configuration while plugins are asked.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{EnvVar, Event, Pod};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, chain, container, pod};
use crate::Adaptation;
use crate::Config;
use crate::Happening;
use crate::Notice;
use crate::RelayError;
use crate::api::health::State;

const REQUIRED: &str = "[plugins.guard]\nrequired = true";

fn plugin(name: &str, manner: Manner, diary: &Diary) -> Arc<FakePlugin> {
    FakePlugin::new(name, LIFE, manner, diary)
}

#[track_caller]
fn reload(nri: &Adaptation, policy: &str) {
    let config = Config { socket: None, ..Config::from_toml(policy).unwrap() };
    assert!(nri.reload(&config).is_empty(), "all of it can be reloaded");
}

async fn start(nri: &Adaptation, id: &str) -> Result<(), RelayError> {
    nri.begin(pod(id)).notify(Notice::Start(container("c"))).await
}

/// Starts a container in another task. Returns when the task cannot proceed.
async fn starting(nri: &Arc<Adaptation>, id: &'static str) -> JoinHandle<Result<(), RelayError>> {
    let nri = Arc::clone(nri);
    let starting = tokio::spawn(async move { start(&nri, id).await });
    sleep(Duration::from_millis(1)).await;
    starting
}

fn in_namespace(namespace: &str, id: &str) -> Pod {
    Pod { namespace: namespace.to_owned(), ..pod(id) }
}

/// Returns the plugins whose policy changed, with the new policies.
fn told(happenings: &mut Receiver<Happening>) -> Vec<(String, String)> {
    let mut told = Vec::new();
    while let Ok(happening) = happenings.try_recv() {
        if let Happening::Policy { plugin, policy, .. } = happening {
            told.push((plugin.to_string(), policy));
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_a_reload_requires_is_missed_from_then_on_and_no_longer_when_it_does_not() {
    let nri = adaptation("", &[]).await;
    start(&nri, "p").await.unwrap();
    reload(&nri, REQUIRED);
    let error = start(&nri, "p").await.unwrap_err();
    assert_eq!(
        chain(&error),
        "plugin guard failed to handle StartContainer request: the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)"
    );
    reload(&nri, "");
    start(&nri, "p").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_request_of_an_operation_that_is_open_is_made_under_the_new_policy() {
    let nri = adaptation("", &[]).await;
    let operation = nri.begin(pod("p"));
    operation.notify(Notice::RunPod).await.unwrap();
    reload(&nri, REQUIRED);
    operation.create_container(container("c")).await.unwrap_err();
    reload(&nri, "");
    operation.create_container(container("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_validator_that_a_reload_wants_is_missed_from_then_on() {
    let nri = adaptation("", &[]).await;
    reload(&nri, "[plugins.judge]\nvalidator = true");
    nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
    start(&nri, "p").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_default_validator_is_reloaded() {
    let diary = Diary::default();
    let plugin = plugin("10-a", at_once(), &diary);
    plugin.adjust(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "debug")).unwrap());
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let create = || async { nri.begin(pod("p")).create_container(container("c")).await.map(drop) };
    create().await.unwrap();
    reload(&nri, "[default_validator]\nenable = true\nrequired_plugins = ['nobody']");
    assert!(chain(&create().await.unwrap_err()).ends_with("required plugin \"nobody\" not present"));
    reload(&nri, "[default_validator]\nenable = false\nrequired_plugins = ['nobody']");
    create().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_namespaces_that_may_do_without_are_reloaded() {
    let nri = adaptation(REQUIRED, &[]).await;
    let start = || async { nri.begin(in_namespace("nri", "p")).notify(Notice::Start(container("c"))).await };
    start().await.unwrap_err();
    reload(&nri, &format!("required_exempt_namespaces = ['nri']\n{REQUIRED}"));
    start().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_declared_counts_after_a_reload_as_far_as_the_operator_lets_it() {
    let diary = Diary::default();
    let stuck = plugin("10-stuck", Manner::DoesNotTake, &diary);
    stuck.declare(true, false);
    let nri = adaptation("[plugins.stuck]\nstrikes = 99", &[("10-stuck", &stuck)]).await;
    start(&nri, "p").await.unwrap_err();
    sleep(SECOND * 3).await;
    reload(&nri, "[plugins.stuck]\nstrikes = 99\ndeclarations = 'ignore'");
    start(&nri, "p").await.unwrap();
    sleep(SECOND * 3).await;
    reload(&nri, "[plugins.stuck]\nstrikes = 99");
    start(&nri, "p").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_may_change_is_another_thing_from_the_next_request_on() {
    let diary = Diary::default();
    let plugin = plugin("10-a", at_once(), &diary);
    plugin.adjust(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "debug")).unwrap());
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let create = || async { nri.begin(pod("p")).create_container(container("c")).await };
    create().await.unwrap();
    reload(&nri, "[plugins.a]\nallow.changes = ['Annotations']");
    assert!(chain(&create().await.unwrap_err()).ends_with("it may not touch Env LEVEL (allow.changes)"));
    reload(&nri, "[plugins.a]\nmode = 'shadow'");
    assert!(create().await.unwrap().adjustment.env.get("LEVEL").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_asked_about_events_that_it_wanted_and_now_may_see() {
    let diary = Diary::default();
    let plugin = plugin("10-a", at_once(), &diary);
    let nri = adaptation("[plugins.a]\nallow.events = ['RunPodSandbox']", &[("10-a", &plugin)]).await;
    start(&nri, "p").await.unwrap();
    reload(&nri, "[plugins.a]\nallow.events = ['StartContainer']");
    start(&nri, "p").await.unwrap();
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    assert_eq!(diary.lines(), ["10-a StartContainer c"]);
    assert_eq!(nri.plugins()[0].events, Event::StartContainer.into());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_sees_more_namespaces_hears_what_happens_there_from_then_on() {
    let diary = Diary::default();
    let plugin = plugin("10-a", at_once(), &diary);
    let nri = adaptation("[plugins.a]\nnamespaces = ['shop']", &[("10-a", &plugin)]).await;
    nri.begin(in_namespace("bank", "p")).notify(Notice::RunPod).await.unwrap();
    reload(&nri, "[plugins.a]\nnamespaces = ['shop', 'bank']");
    nri.begin(in_namespace("bank", "p")).notify(Notice::StopPod).await.unwrap();
    assert_eq!(diary.lines(), ["10-a StopPodSandbox p"]);
    assert_eq!(plugin.shown().len(), 1, "it is not synchronized again");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_not_see_a_pod_any_more_is_told_all_the_same_that_it_came_to_nothing() {
    let diary = Diary::default();
    let plugin = plugin("10-a", at_once(), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let operation = nri.begin(in_namespace("bank", "p"));
    operation.create_container(container("c")).await.unwrap();
    reload(&nri, "[plugins.a]\nnamespaces = ['shop']");
    operation.notify(Notice::PostCreate(container("c"))).await.unwrap();
    drop(operation);
    sleep(SECOND).await;
    assert_eq!(
        diary.lines(),
        ["CreateContainer", "StopContainer", "RemoveContainer"].map(|rpc| format!("10-a {rpc} c"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_being_made_keeps_what_it_began_with_up_to_the_last_plugin() {
    let diary = Diary::default();
    let [first, second] = ["10-a", "20-b"].map(|name| plugin(name, Manner::After(SECOND), &diary));
    for plugin in [&first, &second] {
        plugin.adjust(|adjustment| adjustment.annotations.set(format!("of {:p}", *plugin), "1").unwrap());
    }
    let nri = Arc::new(adaptation("", &[("10-a", &first), ("20-b", &second)]).await);
    let creating = {
        let nri = Arc::clone(&nri);
        tokio::spawn(async move { nri.begin(pod("p")).create_container(container("c")).await })
    };
    sleep(Duration::from_millis(1)).await;
    reload(
        &nri,
        "[plugin_defaults]\nallow.changes = []\nrequest_timeout = '10ms'\n[plugins.b]\nnamespaces = ['elsewhere']\n\
         [plugins.judge]\nvalidator = true\n[default_validator]\nenable = true\nrequired_plugins = ['nobody']",
    );
    let merged = creating.await.unwrap().unwrap();
    assert_eq!(merged.adjustment.annotations.iter().count(), 2);
    assert_eq!(diary.lines()[..2], ["10-a CreateContainer c", "20-b CreateContainer c"]);
    nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_request_timeout_holds_from_the_next_request_on() {
    let diary = Diary::default();
    let slow = plugin("10-slow", Manner::After(SECOND * 5), &diary);
    let nri = Arc::new(adaptation("", &[("10-slow", &slow)]).await);
    let begun = Instant::now();
    let first = starting(&nri, "p1").await;
    reload(&nri, "[plugins.slow]\nrequest_timeout = '10s'");
    first.await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), SECOND * 2, "it began with the default");
    sleep(SECOND * 5).await;
    let begun = Instant::now();
    start(&nri, "p2").await.unwrap();
    assert_eq!(begun.elapsed(), SECOND * 5, "it was waited for");
    assert_eq!(nri.plugins()[0].state, State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_has_more_strikes_than_a_reload_allows_is_closed_at_the_next() {
    let diary = Diary::default();
    let slow = plugin("10-slow", Manner::After(SECOND * 3), &diary);
    let nri = adaptation("[plugins.slow]\nstrikes = 9", &[("10-slow", &slow)]).await;
    for id in ["p1", "p2"] {
        start(&nri, id).await.unwrap();
        sleep(SECOND * 2).await;
    }
    reload(&nri, "[plugins.slow]\nstrikes = 1");
    assert_eq!(nri.plugins()[0].state, State::Active);
    start(&nri, "p3").await.unwrap();
    sleep(SECOND).await;
    assert!(nri.plugins().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_that_is_not_to_be_kept_is_closed_if_its_trial_fails() {
    let diary = Diary::default();
    let slow = plugin("10-slow", Manner::After(SECOND * 3), &diary);
    let nri = adaptation("[plugins.slow]\nstrikes = 1\nkeep_connected = true", &[("10-slow", &slow)]).await;
    start(&nri, "p1").await.unwrap();
    assert_eq!(nri.plugins()[0].state, State::Suspended);
    reload(&nri, "[plugins.slow]\nstrikes = 1");
    assert_eq!(nri.plugins()[0].state, State::Suspended);
    sleep(SECOND * 20).await;
    start(&nri, "p2").await.unwrap();
    sleep(SECOND * 3).await;
    assert!(nri.plugins().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_asked_about_pods_one_by_one_from_now_on_never_has_two_requests() {
    let diary = Diary::default();
    let slow = plugin("10-slow", Manner::After(SECOND), &diary);
    let nri = Arc::new(adaptation("[plugins.slow]\nconcurrency = 'per-pod'", &[("10-slow", &slow)]).await);
    let begun = Instant::now();
    let mut all = vec![starting(&nri, "p1").await, starting(&nri, "p2").await];
    reload(&nri, "");
    all.extend([starting(&nri, "p3").await, starting(&nri, "p4").await]);
    for one in all {
        one.await.unwrap().unwrap();
    }
    assert_eq!(slow.most_at_a_time(), 2, "the first two");
    assert!(begun.elapsed() >= SECOND * 3, "the others waited for them, and for each other");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_asked_about_several_pods_from_now_on_finishes_what_it_is_asked() {
    let diary = Diary::default();
    let slow = plugin("10-slow", Manner::After(SECOND), &diary);
    let nri = Arc::new(adaptation("", &[("10-slow", &slow)]).await);
    let begun = Instant::now();
    let mut all = vec![starting(&nri, "p1").await];
    reload(&nri, "[plugins.slow]\nconcurrency = 'per-pod'");
    all.extend([starting(&nri, "p2").await, starting(&nri, "p3").await]);
    sleep(SECOND / 2).await;
    assert_eq!(slow.most_at_a_time(), 1);
    for one in all {
        one.await.unwrap().unwrap();
    }
    assert_eq!(slow.most_at_a_time(), 2);
    assert!(begun.elapsed() < SECOND * 3);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_joins_meanwhile_is_under_the_new_policy_when_it_has() {
    let diary = Diary::default();
    let late = plugin("10-late", at_once(), &diary);
    late.synchronizes_for(SECOND * 5);
    let nri = Arc::new(adaptation("", &[]).await);
    let mut happenings = nri.watch();
    let joining = {
        let (nri, late) = (Arc::clone(&nri), Arc::clone(&late));
        tokio::spawn(async move { nri.admit("10-late".parse().unwrap(), late).await })
    };
    sleep(SECOND).await;
    reload(&nri, "[plugins.late]\nallow.events = ['RunPodSandbox']");
    joining.await.unwrap().unwrap();
    start(&nri, "p").await.unwrap();
    assert!(diary.lines().is_empty());
    let Ok(Happening::Joined { events, policy, .. }) = happenings.try_recv() else { panic!("it has not joined") };
    assert_eq!(events, Event::RunPodSandbox.into());
    assert!(policy.contains("operator, by name"), "{policy}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_leaving_is_under_the_new_policy_in_what_it_still_takes_part_in() {
    let diary = Diary::default();
    let [old, new] = ["old", "new"].map(|name| plugin(name, at_once(), &diary));
    let nri = adaptation("", &[("10-a", &old)]).await;
    let operation = nri.begin(pod("p"));
    operation.notify(Notice::Start(container("c"))).await.unwrap();
    nri.admit("10-a".parse().unwrap(), new).await.unwrap();
    reload(&nri, "[plugins.a]\nallow.events = ['UpdateContainer']");
    operation.notify(Notice::Start(container("d"))).await.unwrap();
    operation.update_container(container("c"), None).await.unwrap();
    assert_eq!(diary.lines(), ["old StartContainer c", "old UpdateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_required_plugin_goes_on_when_it_is_not_required_any_more() {
    let diary = Diary::default();
    let late = plugin("10-guard", at_once(), &diary);
    late.synchronizes_for(SECOND * 20);
    let nri = Arc::new(adaptation(REQUIRED, &[]).await);
    let joining = {
        let (nri, late) = (Arc::clone(&nri), Arc::clone(&late));
        tokio::spawn(async move { nri.admit("10-guard".parse().unwrap(), late).await })
    };
    sleep(SECOND).await;
    let begun = Instant::now();
    let waiting = starting(&nri, "p").await;
    sleep(SECOND).await;
    reload(&nri, "");
    waiting.await.unwrap().unwrap();
    assert!(begun.elapsed() < SECOND * 2);
    joining.abort();
}

#[tokio::test(start_paused = true)]
async fn those_whose_policy_is_another_one_are_told_of_and_nobody_else() {
    let diary = Diary::default();
    let [first, second] = ["10-a", "20-b"].map(|name| plugin(name, at_once(), &diary));
    let nri = adaptation("", &[("10-a", &first), ("20-b", &second)]).await;
    let (mut all, mut rare) = (nri.watch(), nri.watch_plugins());
    reload(&nri, "[plugins.b]\nstrikes = 7");
    for happenings in [&mut all, &mut rare] {
        let told = told(happenings);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, "20-b");
        assert!(told[0].1.contains("strikes=7 (operator, by name)"), "{told:?}");
    }
    reload(&nri, "[plugins.b]\nstrikes = 7");
    assert!(told(&mut all).is_empty(), "nothing is another now");
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_restart_is_named_and_left() {
    let nri = adaptation("", &[]).await;
    let text = "max_plugins = 1\nplugin_registration_timeout = '1s'\n[plugins.guard]\nrequired = true";
    let config = Config { runtime_name: "other".to_owned(), ..Config::from_toml(text).unwrap() };
    assert_eq!(nri.reload(&config), ["disable_connections", "plugin_registration_timeout", "max_plugins"]);
    start(&nri, "p").await.unwrap_err();
    let diary = Diary::default();
    for id in ["10-guard", "20-b"] {
        nri.admit(id.parse().unwrap(), plugin(id, at_once(), &diary)).await.unwrap();
    }
}
