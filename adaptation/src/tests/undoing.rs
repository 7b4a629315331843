//! A failed operation is rolled back for the plugins that saw it, and for no others.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{Event, EventMask};
use tokio::time::{sleep, timeout};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Adaptation;
use crate::Notice;

fn lines(diary: &Diary, plugin: &str) -> Vec<String> {
    let of_plugin = |line: String| line.strip_prefix(plugin).map(|rest| rest.trim().to_owned());
    diary.lines().into_iter().filter_map(of_plugin).collect()
}

const UNDONE: [&str; 3] = ["CreateContainer c", "StopContainer c", "RemoveContainer c"];

#[tokio::test(start_paused = true)]
async fn a_create_that_failed_is_undone_for_exactly_those_who_saw_it() {
    let diary = Diary::default();
    let first = FakePlugin::new("10-first", LIFE, at_once(), &diary);
    let other = FakePlugin::new("15-other", Event::RemoveContainer.into(), at_once(), &diary);
    let refuses = FakePlugin::new("20-refuses", LIFE, Manner::Refuses, &diary);
    let last = FakePlugin::new("30-last", LIFE, at_once(), &diary);
    let plugins = [("10-first", &first), ("15-other", &other), ("20-refuses", &refuses), ("30-last", &last)];
    let nri = adaptation("", &plugins).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap_err();
    drop(operation);
    sleep(SECOND).await;
    assert_eq!(lines(&diary, "10-first"), UNDONE);
    assert_eq!(lines(&diary, "20-refuses"), UNDONE, "it saw it, too");
    assert!(lines(&diary, "15-other").is_empty(), "it never heard of it");
    assert!(lines(&diary, "30-last").is_empty(), "it never heard of it");
}

#[tokio::test(start_paused = true)]
async fn an_act_that_the_runtime_itself_failed_is_undone() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let operation = nri.begin(pod("p"));
    operation.notify(Notice::RunPod).await.unwrap();
    drop(operation);
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    operation.notify(Notice::PostCreate(container("c"))).await.unwrap();
    drop(operation);
    // The next request about the pod waits until the rollback is complete.
    nri.begin(pod("p")).notify(Notice::StopPod).await.unwrap();
    let told = [
        "RunPodSandbox p",
        "StopPodSandbox p",
        "RemovePodSandbox p",
        "CreateContainer c",
        "PostCreateContainer c",
        "StopContainer c",
        "RemoveContainer c",
        "StopPodSandbox p",
    ];
    assert_eq!(lines(&diary, "10-a"), told);
}

#[tokio::test(start_paused = true)]
async fn only_what_begins_is_undone_and_only_if_it_is_not_committed() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    operation.commit();
    nri.begin(pod("p")).notify(Notice::Start(container("c"))).await.unwrap();
    nri.begin(pod("p")).update_container(container("c"), None).await.unwrap();
    drop(nri.begin(pod("p")));
    sleep(SECOND).await;
    assert_eq!(lines(&diary, "10-a"), ["CreateContainer c", "StartContainer c", "UpdateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_runtime_abandons_it_undoes_itself() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let stuck = FakePlugin::new("20-stuck", LIFE, Manner::After(SECOND * 5), &diary);
    let nri = adaptation("", &[("10-a", &plugin), ("20-stuck", &stuck)]).await;
    // From now on the second plugin is silent and is skipped.
    nri.begin(pod("q")).notify(Notice::StopPod).await.unwrap();
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    operation.abandon();
    nri.begin(pod("p")).notify(Notice::Remove(container("c"))).await.unwrap();
    sleep(SECOND * 20).await;
    assert_eq!(lines(&diary, "10-a"), ["StopPodSandbox q", "CreateContainer c", "RemoveContainer c"]);
    let told = lines(&diary, "20-stuck");
    assert!(!told.iter().any(|line| line.starts_with("CreateContainer")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_runtime_has_told_itself_is_not_told_again() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    operation.stop_container(container("c")).await.unwrap();
    drop(operation);
    let operation = nri.begin(pod("p"));
    operation.create_container(container("d")).await.unwrap();
    operation.stop_container(container("d")).await.unwrap();
    operation.notify(Notice::Remove(container("d"))).await.unwrap();
    drop(operation);
    sleep(SECOND).await;
    let of_d = ["CreateContainer d", "StopContainer d", "RemoveContainer d"];
    assert_eq!(lines(&diary, "10-a"), [UNDONE, of_d].concat());
}

#[tokio::test(start_paused = true)]
async fn u36_the_undo_comes_after_the_plugin_has_answered_to_the_create() {
    for concurrency in ["serial", "per-pod"] {
        let diary = Diary::default();
        let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
        let policy = format!("[plugins.slow]\non_timeout = 'fail'\nconcurrency = '{concurrency}'");
        let nri = adaptation(&policy, &[("10-slow", &slow)]).await;
        let operation = nri.begin(pod("p"));
        operation.create_container(container("c")).await.unwrap_err();
        drop(operation);
        slow.behave(at_once());
        sleep(Duration::from_millis(900)).await;
        assert_eq!(lines(&diary, "10-slow"), ["CreateContainer c"], "it still thinks");
        sleep(SECOND).await;
        assert_eq!(lines(&diary, "10-slow"), UNDONE);
        assert_eq!(slow.most_at_a_time(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_has_what_it_asked_for_undone() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let never = FakePlugin::new("20-never", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-slow", &slow), ("20-never", &never)]).await;
    let impatient = async { nri.begin(pod("p")).create_container(container("c")).await };
    assert!(timeout(SECOND / 2, impatient).await.is_err());
    sleep(SECOND * 5).await;
    assert_eq!(lines(&diary, "10-slow"), UNDONE);
    assert!(lines(&diary, "20-never").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_turns_out_not_to_have_taken_a_create_hears_nothing_of_its_undo() {
    let half = SECOND / 2;
    // The caller drops the request, or gets a timeout, before the plugin's failure is known. The
    // rollback waits for the lane, or finds the plugin silent.
    for (turns_out, leaves) in [(half * 3, half * 2), (half * 6, half * 2), (half * 6, half * 5), (half * 9, half * 5)]
    {
        for concurrency in ["serial", "per-pod"] {
            let diary = Diary::default();
            let plugin = FakePlugin::new("10-a", LIFE, Manner::DoesNotTakeAfter(turns_out), &diary);
            let policy = format!("plugin_defaults.on_timeout = 'fail'\nplugin_defaults.concurrency = '{concurrency}'");
            let nri = adaptation(&policy, &[("10-a", &plugin)]).await;
            let operation = nri.begin(pod("p"));
            let left = sleep(leaves);
            let _ = timeout(leaves, operation.create_container(container("c"))).await;
            plugin.behave(at_once());
            left.await;
            drop(operation);
            sleep(SECOND * 10).await;
            nri.begin(pod("q")).notify(Notice::StopPod).await.unwrap();
            let told = ["CreateContainer c", "StopPodSandbox q"];
            assert_eq!(lines(&diary, "10-a"), told, "{concurrency}: {turns_out:?}, {leaves:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_plugin_hears_nothing_of_what_it_was_passed_over_for_and_failed() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 4), &diary);
    let nri = adaptation("", &[("10-slow", &slow)]).await;
    nri.begin(pod("p")).notify(Notice::Start(container("x"))).await.unwrap();
    slow.behave(at_once());
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    operation.notify(Notice::PostCreate(container("c"))).await.unwrap();
    sleep(SECOND * 4).await;
    drop(operation);
    sleep(SECOND).await;
    assert_eq!(lines(&diary, "10-slow"), ["StartContainer x"]);
}

#[tokio::test(start_paused = true)]
async fn an_undo_is_waited_for_when_the_runtime_stops() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri: Adaptation = adaptation("", &[("10-a", &plugin)]).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    nri.stop().await;
    drop(operation);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_was_replaced_hears_the_undo_of_what_it_saw_before_it_is_told_to_go() {
    for answers_after in [Duration::ZERO, SECOND / 2, SECOND * 3] {
        let diary = Diary::default();
        let [old, new] = ["old", "new"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
        let nri = adaptation("", &[("10-a", &old)]).await;
        let operation = nri.begin(pod("p"));
        old.behave(Manner::After(answers_after));
        operation.create_container(container("c")).await.unwrap();
        old.behave(Manner::After(SECOND / 4));
        nri.admit("10-a".parse().unwrap(), new as Arc<_>).await.unwrap();
        sleep(Duration::from_millis(1)).await;
        drop(operation);
        while old.told_to_go.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            sleep(SECOND / 10).await;
        }
        assert_eq!(lines(&diary, "old"), UNDONE, "it answers after {answers_after:?}");
        assert!(lines(&diary, "new").is_empty(), "it has not seen the beginning");
    }
}

#[tokio::test(start_paused = true)]
async fn more_plugins_than_a_word_has_bits_are_all_told() {
    let diary = Diary::default();
    let nri = adaptation("max_plugins = 100", &[]).await;
    for number in 0..70 {
        let events: EventMask = [Event::CreateContainer, Event::RemoveContainer].into_iter().collect();
        let plugin = FakePlugin::new("x", events, at_once(), &diary);
        nri.admit(format!("10-p{number}").parse().unwrap(), plugin as Arc<_>).await.unwrap();
    }
    nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(diary.lines().len(), 140);
}

#[tokio::test(start_paused = true)]
async fn a_start_is_undone_if_that_was_asked_for_and_for_exactly_those_who_saw_it() {
    for with_pod in [false, true] {
        let diary = Diary::default();
        let first = FakePlugin::new("10-first", LIFE, at_once(), &diary);
        let refuses = FakePlugin::new("20-refuses", LIFE, Manner::Refuses, &diary);
        let last = FakePlugin::new("30-last", LIFE, at_once(), &diary);
        let nri = adaptation("", &[("10-first", &first), ("20-refuses", &refuses), ("30-last", &last)]).await;
        let operation = nri.begin(pod("p")).undoing_start(with_pod);
        operation.notify(Notice::Start(container("c"))).await.unwrap_err();
        drop(operation);
        nri.begin(pod("p")).notify(Notice::Remove(container("c"))).await.unwrap_err();
        let mut told = vec!["StartContainer c", "StopContainer c"];
        told.extend(with_pod.then_some("StopPodSandbox p"));
        told.push("RemoveContainer c");
        assert_eq!(lines(&diary, "10-first"), told);
        assert_eq!(lines(&diary, "20-refuses"), told, "it saw it, too");
        assert_eq!(lines(&diary, "30-last"), ["RemoveContainer c"], "it never heard of the start");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_committed_is_not_undone() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let operation = nri.begin(pod("p")).undoing_start(true);
    operation.notify(Notice::Start(container("c"))).await.unwrap();
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(lines(&diary, "10-a"), ["StartContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_turns_out_not_to_have_taken_a_start_hears_nothing_of_its_undo_and_all_that_follows() {
    let half = SECOND / 2;
    for (turns_out, leaves) in [(half * 3, half * 2), (half * 6, half * 2), (half * 6, half * 5), (half * 9, half * 5)]
    {
        let diary = Diary::default();
        let plugin = FakePlugin::new("10-a", LIFE, Manner::DoesNotTakeAfter(turns_out), &diary);
        let nri = adaptation("plugin_defaults.on_timeout = 'fail'", &[("10-a", &plugin)]).await;
        let operation = nri.begin(pod("p")).undoing_start(true);
        let left = sleep(leaves);
        let _ = timeout(leaves, operation.notify(Notice::Start(container("c")))).await;
        plugin.behave(at_once());
        left.await;
        drop(operation);
        nri.begin(pod("p")).notify(Notice::Remove(container("c"))).await.unwrap_or_default();
        sleep(SECOND * 10).await;
        nri.begin(pod("q")).notify(Notice::StopPod).await.unwrap();
        let told = ["StartContainer c", "RemoveContainer c", "StopPodSandbox q"];
        assert_eq!(lines(&diary, "10-a"), told, "{turns_out:?}, {leaves:?}");
    }
}
