//! Which peer may be a plugin, and which may replace a plugin.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{Event, EventMask};

use super::fake::{FakePlugin, Manner, SECOND, at_once, pod};
use super::setting::{Setting, setting};
use crate::AdmitError;
use crate::Config;
use crate::Happening;
use crate::Notice;
use crate::config::policy::Identity;

fn user(uid: u32) -> Identity {
    Identity::connected(Some(uid))
}

#[track_caller]
fn reload(setting: &Setting, policy: &str) {
    let config = Config { socket: None, ..Config::from_toml(policy).unwrap() };
    assert!(setting.nri.reload(&config).is_empty(), "all of it can be reloaded");
}

fn who(setting: &Setting) -> Vec<(String, Identity)> {
    setting.nri.plugins().into_iter().map(|plugin| (plugin.id.to_string(), plugin.identity)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_another_user_does_not_displace_a_plugin_that_must_be_there() {
    for demand in ["required", "validator"] {
        let setting = setting(&format!("[plugins.guard]\n{demand} = true"));
        let (guard, impostor) = (setting.plugin("guard"), setting.plugin("impostor"));
        setting.admit_as("10-guard", user(0), &guard).await.unwrap();
        let refused = setting.admit_as("10-guard", user(1000), &impostor).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, AdmitError::Guarded { .. }), "{text}");
        assert!(text.contains("by user 0, and is ") && text.contains("by user 1000"), "{text}");
        assert!(impostor.shown().is_empty(), "it is shown nothing");
        assert_eq!(who(&setting), [("10-guard".to_owned(), user(0))]);

        let next = setting.plugin("next");
        setting.admit_as("10-guard", user(0), &next).await.unwrap();
        next.leave().await;
        setting.admit_as("10-guard", user(1000), &impostor).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_be_absent_is_displaced_by_any_user() {
    let setting = setting("");
    setting.admit_as("10-a", user(0), &setting.plugin("old")).await.unwrap();
    setting.admit_as("10-a", user(1000), &setting.plugin("new")).await.unwrap();
    assert_eq!(who(&setting), [("10-a".to_owned(), user(1000))]);
}

#[tokio::test(start_paused = true)]
async fn while_a_plugin_joins_that_must_be_there_no_other_user_may_take_its_place() {
    let setting = Arc::new(setting("[plugins.guard]\nrequired = true"));
    let guard = setting.plugin("guard");
    guard.synchronizes_for(SECOND);
    let joining = {
        let (setting, guard) = (Arc::clone(&setting), Arc::clone(&guard));
        tokio::spawn(async move { setting.admit_as("10-guard", user(0), &guard).await })
    };
    tokio::time::sleep(SECOND / 2).await;
    let impostor = setting.plugin("impostor");
    let refused = setting.admit_as("10-guard", user(1000), &impostor).await.unwrap_err();
    assert!(matches!(refused, AdmitError::Guarded { .. }), "{refused}");
    joining.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn places_are_reserved_for_plugins_that_join() {
    let setting = Arc::new(setting("max_plugins = 1"));
    let first = setting.plugin("10-a");
    first.synchronizes_for(SECOND);
    let joining = setting.admit("10-a", &first);
    tokio::time::sleep(SECOND / 2).await;
    let second = setting.plugin("20-b");
    let refused = setting.admit_as("20-b", user(0), &second).await.unwrap_err();
    assert_eq!(refused.to_string(), "no place for plugin 20-b: there are 1 plugins already (max_plugins)");
    joining.await.unwrap().unwrap();
    first.leave().await;
    setting.admit_as("20-b", user(0), &second).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn plugins_that_may_be_absent_leave_places_for_those_that_must_be_there() {
    for demand in ["required", "validator"] {
        let policy = format!(
            "max_plugins = 3\nallowed_uids = [0, 1000]\n[plugins.guard]\n{demand} = true\nuids = [0]\n\
             [plugins.10-gate]\n{demand} = true"
        );
        let setting = setting(&policy);
        let admit = async |name: &str, uid| setting.admit_as(name, user(uid), &setting.plugin(name)).await;
        admit("10-flood", 1000).await.unwrap();
        let refused = admit("11-flood", 1000).await.unwrap_err();
        let expected = "no place for plugin 11-flood: of 3 plugins (max_plugins) the last 2 are reserved for required \
                        plugins and validators";
        assert_eq!(refused.to_string(), expected);
        // A plugin that has a place may be replaced.
        admit("10-flood", 1000).await.unwrap();
        admit("20-guard", 0).await.unwrap();
        // A second plugin of the name is not the required one, so no place is kept for it.
        assert!(matches!(admit("21-guard", 0).await.unwrap_err(), AdmitError::Kept { .. }));
        admit("10-gate", 0).await.unwrap();
        assert!(matches!(admit("30-flood", 1000).await.unwrap_err(), AdmitError::Full { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_which_setting_decided() {
    let setting = setting("unnamed = 'refuse'\n[plugins.guard]\norigin = 'launched'");
    let mut happenings = setting.nri.watch_plugins();
    for (name, identity, expected) in [
        (
            "10-guard",
            user(0),
            "plugin 10-guard is not permitted: it is connected to the runtime, and plugins.guard.origin is \"launched\"",
        ),
        (
            "11-x",
            Identity::BUILT_IN,
            "plugin 11-x is not permitted: unnamed = \"refuse\" lets in only plugins that have a table, such as [plugins.x]",
        ),
    ] {
        let plugin = setting.plugin(name);
        setting.admit_as(name, identity, &plugin).await.unwrap_err();
        let Ok(Happening::Closed { reason, .. }) = happenings.try_recv() else { panic!("nobody is told") };
        assert_eq!(reason, expected);
        assert!(plugin.shown().is_empty(), "it is shown nothing");
    }
    setting.admit_as("10-guard", Identity::LAUNCHED, &setting.plugin("10-guard")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reload_closes_the_plugins_that_it_does_not_permit() {
    let restrictions = [
        ("allowed_uids = [0, 7]\nplugins.guard.uids = [7]", "user 0 is not among plugins.guard.uids, [7]"),
        ("plugins.guard.origin = 'launched'", "plugins.guard.origin is \"launched\""),
        ("unnamed = 'refuse'", "such as [plugins.guard]"),
    ];
    for (policy, expected) in restrictions {
        let setting = setting("");
        let guard = setting.plugin("10-guard");
        setting.admit_as("10-guard", user(0), &guard).await.unwrap();
        let mut happenings = setting.nri.watch_plugins();
        let config = Config { socket: None, ..Config::from_toml(policy).unwrap() };
        setting.nri.reload(&config);
        setting.nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
        assert!(setting.diary.lines().is_empty(), "it is not asked any more");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(setting.nri.plugins().is_empty());
        let told: Vec<_> = std::iter::from_fn(|| happenings.try_recv().ok()).collect();
        let is_said = |happening: &Happening| {
            matches!(happening, Happening::Closed { reason, .. }
                if reason.starts_with("since a reload it is not permitted: ") && reason.ends_with(expected))
        };
        assert!(told.iter().any(is_said), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_joins_is_refused_if_a_reload_does_not_permit_it() {
    let setting = Arc::new(setting(""));
    let guard = FakePlugin::new("10-guard", EventMask::from(Event::RunPodSandbox), at_once(), &setting.diary);
    guard.synchronizes_for(SECOND);
    let joining = {
        let (setting, guard) = (Arc::clone(&setting), Arc::clone(&guard));
        tokio::spawn(async move { setting.admit_as("10-guard", user(0), &guard).await })
    };
    tokio::time::sleep(SECOND / 2).await;
    reload(&setting, "unnamed = 'refuse'");
    let refused = joining.await.unwrap().unwrap_err();
    assert!(matches!(refused, AdmitError::NotPermitted { .. }), "{refused}");
    assert!(setting.nri.plugins().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_catches_up_hears_no_more_once_a_reload_does_not_permit_it() {
    let setting = Arc::new(setting(""));
    let manner = Manner::After(SECOND / 2);
    let guard = FakePlugin::new("10-guard", EventMask::from(Event::RunPodSandbox), manner, &setting.diary);
    guard.synchronizes_for(SECOND);
    let joining = {
        let (setting, guard) = (Arc::clone(&setting), Arc::clone(&guard));
        tokio::spawn(async move { setting.admit_as("10-guard", user(0), &guard).await })
    };
    tokio::time::sleep(SECOND / 2).await;
    for n in 0..6 {
        setting.tell(&format!("p{n}"), Notice::RunPod).await;
    }
    tokio::time::sleep(SECOND * 5 / 4).await;
    let is_told = |pod: &str| setting.diary.lines().iter().any(|line| line.contains(pod));
    assert!(is_told("p0") && !is_told("p4"), "it catches up: {:?}", setting.diary.lines());
    reload(&setting, "unnamed = 'refuse'");
    let refused = joining.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("since a reload it is not permitted"), "{refused}");
    tokio::time::sleep(SECOND * 5).await;
    assert!(!is_told("p4"), "{:?}", setting.diary.lines());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_a_reload_does_not_permit_is_not_shown_what_the_runtime_was_asked_for_before() {
    let setting = Arc::new(setting(""));
    *setting.shelf.takes.lock().unwrap() = SECOND;
    let guard = setting.plugin("10-guard");
    let joining = {
        let (setting, guard) = (Arc::clone(&setting), Arc::clone(&guard));
        tokio::spawn(async move { setting.admit_as("10-guard", user(0), &guard).await })
    };
    tokio::time::sleep(SECOND / 2).await;
    reload(&setting, "unnamed = 'refuse'");
    let refused = joining.await.unwrap().unwrap_err();
    assert!(matches!(refused, AdmitError::NotPermitted { .. }), "{refused}");
    assert!(guard.shown().is_empty());
}
