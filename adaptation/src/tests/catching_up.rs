//! Plugins that are catching up. Only requests that need such a plugin wait for it.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::Pod;
use tokio::time::{Instant, sleep};

use super::fake::{FakePlugin, LIFE, Manner, SECOND, at_once, chain, container, pod};
use super::setting::{Setting, setting, setting_of};
use crate::AdmitError;
use crate::Config;
use crate::Notice;
use crate::Operation;
use crate::api::health::State;
use crate::limits;

const MILLISECOND: Duration = Duration::from_millis(1);

impl Setting {
    /// Runs a pod. Returns the time that this took, and the error.
    pub(super) async fn run(&self, id: &str) -> (Duration, Result<(), String>) {
        let begun = Instant::now();
        let operation = self.nri.begin(pod(id));
        let ran = operation.notify(Notice::RunPod).await.map_err(|error| chain(&error));
        if ran.is_ok() {
            operation.commit();
        }
        (begun.elapsed(), ran)
    }

    pub(super) fn state(&self) -> State {
        self.nri.plugins()[0].state
    }

    /// Returns a plugin that was silent, has a backlog of this length, and owes no answer.
    pub(super) async fn behind(&self, name: &str, backlog: usize, takes: Duration) -> Arc<FakePlugin> {
        let plugin = FakePlugin::new(name, LIFE, Manner::After(SECOND * 3), &self.diary);
        self.admit(name, &plugin).await.unwrap().unwrap();
        for number in 0..=backlog {
            _ = self.run(&format!("missed{number}")).await;
        }
        plugin.behave(Manner::After(takes));
        sleep(SECOND + MILLISECOND).await;
        plugin
    }

    /// Admits a plugin that was silent and has a backlog of four StopPodSandbox requests, which
    /// take a second each.
    async fn behind_on_stops(&self, name: &str) {
        let plugin = FakePlugin::new(name, LIFE, Manner::After(SECOND * 3), &self.diary);
        self.admit(name, &plugin).await.unwrap().unwrap();
        for number in 0..5 {
            _ = self.nri.begin(pod(&format!("p{number}"))).notify(Notice::StopPod).await;
        }
        plugin.behave(Manner::After(SECOND));
        sleep(SECOND + MILLISECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_plugin_that_catches_up() {
    let setting = setting("");
    setting.behind("10-slow", 10, SECOND).await;
    assert_eq!(setting.state(), State::Silent);
    assert_eq!(setting.run("next").await, (Duration::ZERO, Ok(())));
    sleep(SECOND * 12).await;
    assert_eq!(setting.state(), State::Active, "it has heard all of it");
    assert_eq!(setting.diary.lines().last().unwrap(), "10-slow RunPodSandbox next", "in order");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_not_do_without_a_plugin_that_catches_up_fails_at_once() {
    let setting = setting("plugins.slow.on_timeout = 'fail'");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    let stop = setting.nri.begin(pod("p"));
    assert!(stop.notify(Notice::StopPod).await.is_err());
    assert!(stop.notify(Notice::RemovePod).await.is_err());
    plugin.behave(Manner::After(SECOND));
    sleep(SECOND + MILLISECOND).await;
    let (took, ran) = setting.run("next").await;
    assert_eq!(took, Duration::ZERO);
    assert!(ran.unwrap_err().contains("plugin 10-slow failed to handle RunPodSandbox request"));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_required_plugin_until_that_has_caught_up() {
    let setting = setting("plugins.slow = { required = true, join_timeout = '10s' }\nrequired_exempt_namespaces = []");
    setting.behind_on_stops("10-slow").await;
    let (took, ran) = setting.run("next").await;
    assert_eq!(ran, Ok(()));
    assert!(took > SECOND * 4 && took < SECOND * 6, "{took:?}");
    assert_eq!(setting.diary.lines().last().unwrap(), "10-slow RunPodSandbox next", "it was asked");
}

/// A file cannot require all plugins, but a program can.
#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_plugin_that_the_defaults_of_a_program_require() {
    let mut config = Config::from_toml("required_exempt_namespaces = []").unwrap();
    config.policies.defaults.required = Some(true);
    let setting = setting_of(config);
    setting.behind_on_stops("10-slow").await;
    let (took, ran) = setting.run("next").await;
    assert_eq!(ran, Ok(()));
    assert!(took > SECOND * 4 && took < SECOND * 6, "{took:?}");
    assert_eq!(setting.diary.lines().last().unwrap(), "10-slow RunPodSandbox next", "it was asked");
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_ever_for_a_required_plugin_that_catches_up() {
    let setting = setting("plugins.slow = { required = true, join_timeout = '2s' }\nrequired_exempt_namespaces = []");
    setting.behind_on_stops("10-slow").await;
    let (took, ran) = setting.run("next").await;
    assert_eq!(took, SECOND * 2);
    assert!(ran.unwrap_err().contains("plugin 10-slow failed"));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_required_plugin_to_join_and_to_catch_up_no_longer_than_its_limit_in_all() {
    let setting = setting("plugins.slow = { required = true, join_timeout = '10s', sync_timeout = '3s' }");
    let (plugin, joining) = setting.joining("10-slow", SECOND * 2).await;
    plugin.behave(Manner::After(SECOND));
    for number in 0..20 {
        setting.tell(&format!("missed{number}"), Notice::StopPod).await;
    }
    let (took, ran) = setting.run("next").await;
    assert_eq!(took, SECOND * 10, "five of them until it has joined");
    assert!(ran.unwrap_err().contains("the plugin has not received earlier events about the pod"));
    joining.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_delivered_concurrently_over_pods_to_a_plugin_that_takes_it() {
    let setting = setting("plugins.slow.concurrency = 'per-pod'");
    let plugin = setting.behind("10-slow", 20, SECOND).await;
    sleep(SECOND * 2).await;
    assert_eq!(setting.state(), State::Active);
    assert_eq!(plugin.most_at_a_time(), 20);
}

#[tokio::test(start_paused = true)]
async fn under_half_the_load_that_a_plugin_can_answer_it_is_even_within_ten_seconds() {
    let setting = setting("");
    setting.behind("10-slow", 40, MILLISECOND * 100).await;
    for number in 0..45 {
        assert_eq!(setting.run(&format!("load{number}")).await.1, Ok(()));
        sleep(MILLISECOND * 220).await;
    }
    assert_eq!(setting.state(), State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_per_pod_plugin_is_even_soon_although_something_is_always_on_its_way() {
    let setting = setting("plugins.slow.concurrency = 'per-pod'");
    let setting = Arc::new(setting);
    setting.behind("10-slow", 40, MILLISECOND * 100).await;
    for number in 0..500 {
        let setting = Arc::clone(&setting);
        tokio::spawn(async move { setting.run(&format!("load{number}")).await });
        sleep(MILLISECOND * 5).await;
    }
    assert_eq!(setting.state(), State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_backlog_does_not_become_shorter_is_closed() {
    let setting = setting("plugins.slow.catch_up_timeout = '5s'");
    setting.behind("10-slow", 10, SECOND).await;
    let mut happenings = setting.nri.watch_plugins();
    for number in 0..30 {
        _ = setting.run(&format!("load{number}")).await;
        sleep(MILLISECOND * 500).await;
    }
    assert!(setting.nri.plugins().is_empty());
    let told: Vec<_> = std::iter::from_fn(|| happenings.try_recv().ok()).map(|told| format!("{told:?}")).collect();
    assert!(told.last().unwrap().contains("its backlog did not become shorter"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_whose_backlog_does_not_become_shorter_begins_anew() {
    let setting = setting("plugins.slow = { catch_up_timeout = '5s', sync_timeout = '100s' }");
    let plugin = setting.plugin("10-slow");
    plugin.behave(Manner::After(SECOND));
    plugin.synchronizes_for(SECOND * 5);
    let joining = setting.admit("10-slow", &plugin);
    for number in 0..100 {
        _ = setting.run(&format!("load{number}")).await;
        sleep(MILLISECOND * 500).await;
    }
    let outcome = joining.await.unwrap();
    assert!(matches!(outcome, Err(AdmitError::Overtaken { .. })), "{outcome:?}");
    assert_eq!(plugin.shown().len(), 4, "it was synchronized anew each time");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_plugin_that_joins_before_it_has_heard_everything() {
    let setting = setting("plugins.slow = { catch_up_timeout = '1h', sync_timeout = '3s' }");
    let (plugin, joining) = setting.joining("10-slow", SECOND * 2).await;
    plugin.behave(Manner::After(SECOND));
    for number in 0..10 {
        _ = setting.run(&format!("missed{number}")).await;
        sleep(MILLISECOND * 150).await;
    }
    joining.await.unwrap().unwrap();
    assert_eq!(setting.state(), State::Silent, "it has yet to hear what it missed");
    assert_eq!(setting.run("next").await, (Duration::ZERO, Ok(())));
    sleep(SECOND * 10).await;
    assert_eq!(setting.state(), State::Active);
    assert_eq!(setting.diary.lines().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn requests_share_the_lane_of_an_active_plugin_with_one_request_of_its_backlog_at_a_time() {
    let setting = setting("");
    let operations: Vec<_> = (0..20).map(|number| setting.nri.begin(pod(&format!("open{number}")))).collect();
    for operation in &operations {
        operation.notify(Notice::RunPod).await.unwrap();
    }
    let plugin = setting.plugin("10-slow");
    plugin.behave(Manner::After(MILLISECOND * 400));
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    operations.into_iter().for_each(Operation::commit);
    for number in 0..15 {
        let (took, ran) = setting.run(&format!("live{number}")).await;
        assert_eq!(ran, Ok(()));
        assert!(took <= MILLISECOND * 800, "{took:?}");
        assert_eq!(setting.state(), State::Active, "it is behind on those pods alone");
    }
    assert_eq!(setting.diary.lines().iter().filter(|line| line.contains("live")).count(), 15, "it was asked");
    sleep(SECOND * 4).await;
    assert_eq!(setting.diary.lines().len(), 35);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_backlog_of_one_pod_does_not_become_shorter_is_closed() {
    let setting = setting("plugins.slow = { concurrency = 'per-pod', catch_up_timeout = '5s' }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    for _ in 0..3 {
        setting.tell("hot", Notice::PostUpdatePod).await;
    }
    plugin.behave(Manner::After(SECOND));
    sleep(SECOND + MILLISECOND).await;
    assert_eq!(setting.state(), State::Active, "it can be asked about other pods");
    assert_eq!(setting.run("other").await, (SECOND, Ok(())));
    let mut happenings = setting.nri.watch_plugins();
    for _ in 0..30 {
        assert_eq!(setting.tell("hot", Notice::PostUpdatePod).await, Duration::ZERO);
        sleep(MILLISECOND * 500).await;
    }
    assert!(setting.nri.plugins().is_empty());
    let told: Vec<_> = std::iter::from_fn(|| happenings.try_recv().ok()).map(|told| format!("{told:?}")).collect();
    assert!(told.last().unwrap().contains("its backlog did not become shorter"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_per_pod_plugin_whose_backlog_of_one_pod_becomes_shorter_stays() {
    let setting = setting("plugins.slow = { concurrency = 'per-pod', catch_up_timeout = '5s' }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    for _ in 0..20 {
        setting.tell("hot", Notice::PostUpdatePod).await;
    }
    plugin.behave(Manner::After(SECOND));
    for _ in 0..30 {
        setting.tell("hot", Notice::PostUpdatePod).await;
        sleep(SECOND * 2).await;
    }
    assert_eq!(setting.state(), State::Active);
    assert_eq!(setting.diary.lines().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_an_open_operation_is_not_held_against_a_plugin_that_catches_up() {
    let setting = setting("plugins.slow.catch_up_timeout = '5s'");
    setting.behind("10-slow", 12, SECOND).await;
    let open = setting.nri.begin(pod("open"));
    open.create_container(container("c")).await.unwrap();
    for _ in 0..20 {
        setting.tell("open", Notice::PostUpdatePod).await;
        sleep(MILLISECOND * 500).await;
    }
    sleep(SECOND * 5).await;
    assert_eq!(setting.state(), State::Active);
    open.commit();
    sleep(SECOND * 22).await;
    assert_eq!(setting.diary.lines().len(), 13 + 21);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_takes_long_for_one_answer_has_no_backlog_for_that() {
    let setting = setting("plugins.slow = { request_timeout = '20s', sync_timeout = '100s' }");
    let (plugin, joining) = setting.joining("10-slow", SECOND).await;
    plugin.behave(Manner::After(SECOND * 19));
    setting.tell("p", Notice::StopPod).await;
    setting.tell("q", Notice::StopPod).await;
    joining.await.unwrap().unwrap();
    assert_eq!((plugin.shown().len(), setting.diary.lines().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_join_that_begins_anew_is_not_measured_by_what_was_before() {
    let setting = setting("plugins.slow = { catch_up_timeout = '5s', sync_timeout = '100s' }");
    let plugin = setting.plugin("10-slow");
    plugin.behave(Manner::After(SECOND));
    plugin.synchronizes_for(SECOND);
    let joining = setting.admit("10-slow", &plugin);
    sleep(MILLISECOND * 500).await;
    setting.tell("small", Notice::StopPod).await;
    sleep(SECOND).await;
    plugin.synchronizes_for(SECOND * 8);
    let labels = [("large".to_owned(), "x".repeat(1 << 20))].into();
    let large = Pod { labels, ..pod("large") };
    for _ in 0..limits::JOURNAL >> 20 {
        setting.nri.begin(large.clone()).notify(Notice::StopPod).await.unwrap();
    }
    while plugin.shown().len() < 2 {
        sleep(MILLISECOND * 10).await;
    }
    for number in 0..3 {
        setting.tell(&format!("next{number}"), Notice::StopPod).await;
    }
    joining.await.unwrap().unwrap();
    assert_eq!(plugin.shown().len(), 2, "it began anew once");
    assert_eq!(setting.diary.lines().len(), 4);
}

/// V5: the plugin becomes active again without further requests.
#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_that_answers_at_last_catches_up_on_an_idle_node() {
    let setting = setting("plugins.slow = { keep_connected = true, strikes = 1 }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 30), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    for number in 0..3 {
        _ = setting.run(&format!("p{number}")).await;
    }
    assert_eq!(setting.state(), State::Suspended);
    plugin.behave(at_once());
    sleep(SECOND * 28 + MILLISECOND).await;
    assert_eq!(setting.state(), State::Active);
    assert_eq!(setting.diary.lines().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_that_owes_nothing_is_probed_by_a_timer_on_an_idle_node() {
    let setting = setting("plugins.slow = { keep_connected = true, strikes = 1, first_pause = '20s' }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::GivesUpAfter(SECOND), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    for number in 0..3 {
        _ = setting.run(&format!("p{number}")).await;
    }
    plugin.behave(at_once());
    sleep(SECOND * 19).await;
    assert_eq!((setting.state(), setting.diary.lines().len()), (State::Suspended, 1));
    sleep(SECOND * 2).await;
    assert_eq!((setting.state(), setting.diary.lines().len()), (State::Active, 3));
}

#[tokio::test(start_paused = true)]
async fn the_probe_of_a_suspended_plugin_is_one_request() {
    let setting =
        setting("plugins.slow = { keep_connected = true, strikes = 1, concurrency = 'per-pod', first_pause = '20s' }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::GivesUpAfter(SECOND), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    for number in 0..5 {
        _ = setting.run(&format!("p{number}")).await;
    }
    plugin.behave(Manner::Never);
    sleep(SECOND * 25).await;
    assert_eq!((setting.state(), setting.diary.lines().len()), (State::Suspended, 2));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_suspended_again_without_an_answer_in_time_waits_out_a_pause_that_grows() {
    let setting = setting("plugins.slow = { keep_connected = true, strikes = 1, first_pause = '20s' }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    assert_eq!(setting.run("first").await.0, SECOND * 2);
    assert_eq!(setting.state(), State::Suspended);
    sleep(SECOND + MILLISECOND).await;
    assert_eq!(setting.state(), State::Active, "the late answer ends the first suspension at once");
    assert_eq!(setting.run("second").await.0, SECOND * 2);
    plugin.behave(at_once());
    assert_eq!(setting.run("third").await.0, Duration::ZERO);
    sleep(SECOND * 39).await;
    assert_eq!((setting.state(), setting.diary.lines().len()), (State::Suspended, 2), "it has answered long since");
    sleep(SECOND * 2).await;
    assert_eq!((setting.state(), setting.diary.lines().len()), (State::Active, 3), "its pause was 40 s");
}
