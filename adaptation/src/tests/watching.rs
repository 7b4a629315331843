//! The events of a plugin in the event stream, and their order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::time::sleep;

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, pod};
use super::setting::setting;
use crate::Happening;
use crate::Notice;

/// Returns the events so far in a short form.
fn told(happenings: &mut Receiver<Happening>) -> Vec<String> {
    let short = |happening| match happening {
        Happening::Joined { .. } => "joined".to_owned(),
        Happening::Closed { reason, .. } => format!("closed: {reason}"),
        Happening::State { state, .. } => state.to_string(),
        Happening::Late { .. } => "late".to_owned(),
        other @ (Happening::Asked { .. }
        | Happening::Policy { .. }
        | Happening::Refused { .. }
        | Happening::Overdue { .. }
        | Happening::Launched { .. }
        | Happening::NotLaunched { .. }
        | Happening::Exited { .. }) => format!("{other:?}"),
    };
    std::iter::from_fn(|| happenings.try_recv().ok()).map(short).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_plugin_that_leaves_at_once_has_joined_before_it_is_closed() {
    let nri = adaptation("", &[]).await;
    let mut happenings = nri.watch_plugins();
    for _ in 0..300 {
        let plugin = FakePlugin::new("10-a", LIFE, at_once(), &Diary::default());
        plugin.leave().await;
        nri.admit("10-a".parse().unwrap(), plugin as Arc<_>).await.unwrap();
        while !nri.plugins().is_empty() {
            tokio::task::yield_now().await;
        }
        sleep(Duration::from_millis(1)).await;
        let told = told(&mut happenings);
        assert!(told.len() == 2 && told[0] == "joined", "{told:?}");
    }
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_plugin_that_was_replaced_is_not_told_of_its_successor() {
    for answers in [SECOND * 3, SECOND * 3600] {
        let setting = setting("plugin_defaults.keep_connected = true");
        let old = setting.plugin("10-a");
        setting.admit("10-a", &old).await.unwrap().unwrap();
        let mut happenings = setting.nri.watch_plugins();
        old.behave(Manner::After(answers));
        setting.nri.begin(pod("p")).notify(Notice::StopPod).await.unwrap();
        setting.admit("10-a", &setting.plugin("10-a")).await.unwrap().unwrap();
        sleep(SECOND * 60).await;
        let replaced = "closed: another plugin of the same name took its place";
        assert_eq!(told(&mut happenings), ["silent", replaced, "joined"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_becomes_silent_while_it_joins_is_silent_after_it_has_joined() {
    let setting = setting("");
    let mut happenings = setting.nri.watch_plugins();
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    plugin.behave(Manner::After(SECOND * 3));
    setting.tell("p", Notice::StopPod).await;
    joining.await.unwrap().unwrap();
    sleep(SECOND * 10).await;
    assert_eq!(told(&mut happenings), ["joined", "silent", "late", "active"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_has_left_when_another_takes_its_place_is_closed_for_its_own_reason() {
    let setting = setting("");
    let (old, mut happenings) = (setting.plugin("10-a"), setting.nri.watch_plugins());
    setting.admit("10-a", &old).await.unwrap().unwrap();
    old.leave().await;
    setting.admit("10-a", &setting.plugin("10-a")).await.unwrap().unwrap();
    let told = told(&mut happenings);
    assert_eq!(told.iter().map(|line| &line[..6]).collect::<Vec<_>>(), ["joined", "closed", "joined"]);
    assert!(!told[1].contains("took its place"), "{told:?}");
}
