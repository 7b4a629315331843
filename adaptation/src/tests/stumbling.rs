//! Plugins that are late now and then, or suspended, while they catch up. Their backlog has to
//! become shorter all the same.

use std::time::Duration;

use tokio::time::sleep;

use super::fake::{FakePlugin, LIFE, Manner, SECOND};
use super::setting::{Setting, setting};
use crate::Notice;
use crate::api::health::State;

const MILLISECOND: Duration = Duration::from_millis(1);
/// A little longer than the request timeout. With [`Manner::EveryThirdAfter`], this is 0.7 s for a
/// request on average.
const LATE: Duration = Duration::from_millis(2100);

impl Setting {
    /// Runs this many pods, one in every `gap`, or until the plugin is closed.
    async fn load(&self, n_pods: usize, gap: Duration) {
        for number in 0..n_pods {
            if self.nri.plugins().is_empty() {
                return;
            }
            _ = self.run(&format!("load{number}")).await;
            sleep(gap).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_late_now_and_then_while_it_catches_up_is_closed() {
    for policy in ["strikes = 2", "strikes = 2, keep_connected = true", "strikes = 1, keep_connected = true"] {
        let setting = setting(&format!("plugins.slow = {{ catch_up_timeout = '5s', {policy} }}"));
        let plugin = setting.behind("10-slow", 10, SECOND).await;
        plugin.behave(Manner::EveryThirdAfter(LATE));
        let mut happenings = setting.nri.watch_plugins();
        setting.load(60, MILLISECOND * 500).await;
        assert!(setting.nri.plugins().is_empty(), "{policy}");
        let told: Vec<_> = std::iter::from_fn(|| happenings.try_recv().ok()).map(|told| format!("{told:?}")).collect();
        assert!(told.last().unwrap().contains("its backlog did not become shorter"), "{policy}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_late_now_and_then_stays_if_its_backlog_becomes_shorter() {
    for policy in ["strikes = 2", "strikes = 2, keep_connected = true", "strikes = 1, keep_connected = true"] {
        let setting = setting(&format!("plugins.slow = {{ {policy} }}"));
        let plugin = setting.behind("10-slow", 20, SECOND).await;
        plugin.behave(Manner::EveryThirdAfter(LATE));
        setting.load(90, SECOND).await;
        sleep(SECOND * 10).await;
        assert_eq!(setting.nri.plugins().len(), 1, "{policy}");
        assert_eq!(setting.diary.lines().len(), 21 + 90, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_per_pod_plugin_that_is_late_now_and_then_for_one_pod_is_closed() {
    let setting = setting("plugins.slow = { concurrency = 'per-pod', catch_up_timeout = '5s' }");
    let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &setting.diary);
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    for _ in 0..10 {
        setting.tell("hot", Notice::PostUpdatePod).await;
    }
    plugin.behave(Manner::EveryThirdAfter(MILLISECOND * 4900));
    let mut happenings = setting.nri.watch_plugins();
    for _ in 0..60 {
        _ = setting.tell("hot", Notice::PostUpdatePod).await;
        sleep(MILLISECOND * 500).await;
    }
    assert!(setting.nri.plugins().is_empty());
    let told: Vec<_> = std::iter::from_fn(|| happenings.try_recv().ok()).map(|told| format!("{told:?}")).collect();
    assert!(told.last().unwrap().contains("its backlog did not become shorter"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_not_closed_for_what_it_missed_while_it_was_suspended() {
    // Its pause is shorter than the limit, or longer.
    for pause in ["4s", "20s"] {
        let setting = setting(&format!(
            "plugins.slow = {{ catch_up_timeout = '5s', strikes = 1, keep_connected = true, first_pause = '{pause}' }}"
        ));
        let plugin = setting.behind("10-slow", 10, SECOND).await;
        plugin.behave(Manner::GivesUpAfter(SECOND));
        sleep(SECOND * 5 / 2).await;
        assert_eq!(setting.state(), State::Suspended, "{pause}");
        plugin.behave(Manner::After(MILLISECOND * 900));
        let missed = if pause == "4s" { 6 } else { 38 };
        setting.load(missed, MILLISECOND * 500).await;
        assert_eq!(setting.state(), State::Suspended, "{pause}");
        sleep(SECOND * 60).await;
        assert_eq!(setting.state(), State::Active, "{pause}");
        assert_eq!(setting.diary.lines().len(), 11 + missed, "{pause}");
    }
}
