//! Plugins that replace another plugin of the same id.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fake::{Manner, SECOND, container, pod};
use super::setting::setting;
use crate::Happening;
use crate::Notice;
use crate::config::policy::Identity;

const REQUIRED: &str = "[plugins.guard]\nrequired = true";

#[tokio::test(start_paused = true)]
async fn a_create_in_flight_is_served_by_the_required_plugin_that_is_leaving() {
    let setting = setting(REQUIRED);
    let slow = setting.plugin("10-slow");
    setting.admit("10-slow", &slow).await.unwrap().unwrap();
    let (old, new) = (setting.plugin("old"), setting.plugin("new"));
    setting.admit("20-guard", &old).await.unwrap().unwrap();
    slow.behave(Manner::After(SECOND));
    let nri = Arc::clone(&setting.nri);
    let creating = tokio::spawn(async move {
        let operation = nri.begin(pod("p"));
        operation.create_container(container("c")).await.unwrap();
        sleep(SECOND * 5).await;
        operation.notify(Notice::Start(container("c"))).await.unwrap();
        operation.commit();
    });
    sleep(SECOND / 2).await;
    setting.admit("20-guard", &new).await.unwrap().unwrap();
    setting.create("q", "d").await;
    creating.await.unwrap();
    sleep(SECOND * 20).await;
    let of = |name: &str| -> Vec<_> {
        setting.diary.lines().into_iter().filter_map(|line| line.strip_prefix(name).map(str::to_owned)).collect()
    };
    assert_eq!(of("old "), ["CreateContainer c", "StartContainer c"]);
    assert_eq!(of("new "), ["CreateContainer d", "CreateContainer c", "StartContainer c"], "it hears of it at its end");
    assert_eq!(old.told_to_go.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_was_replaced_is_gone_in_time_whatever_stays_open() {
    let setting = setting(REQUIRED);
    let old = setting.plugin("old");
    setting.admit("20-guard", &old).await.unwrap().unwrap();
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    let begun = Instant::now();
    setting.admit("20-guard", &setting.plugin("new")).await.unwrap().unwrap();
    while old.told_to_go.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        sleep(SECOND / 10).await;
    }
    assert!((SECOND * 10..SECOND * 11).contains(&begun.elapsed()), "its join_timeout: {:?}", begun.elapsed());
    operation.notify(Notice::Start(container("c"))).await.unwrap_err();
    drop(operation);

    let setting = super::setting::setting("");
    let old = setting.plugin("old");
    setting.admit("10-a", &old).await.unwrap().unwrap();
    setting.create("p", "c").await;
    setting.admit("10-a", &setting.plugin("new")).await.unwrap().unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(old.told_to_go.load(std::sync::atomic::Ordering::SeqCst), 1, "it takes part in nothing");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_came_in_another_way_does_not_take_the_place_of_the_first() {
    let setting = setting("");
    let identities = [Identity::BUILT_IN, Identity::connected(None), Identity::LAUNCHED];
    for (first, second) in identities.into_iter().flat_map(|first| identities.map(|second| (first, second))) {
        let (one, other) = (setting.plugin("10-a"), setting.plugin("10-a"));
        setting.admit_as("10-a", first, &one).await.unwrap();
        let mut happenings = setting.nri.watch_plugins();
        let admitted = setting.admit_as("10-a", second, &other).await;
        assert_eq!(admitted.is_ok(), first == second);
        assert_eq!(other.shown().len(), usize::from(first == second), "it is shown nothing in vain");
        if let Err(refused) = admitted {
            let expected = format!("plugin 10-a is already present, {}: ", first.origin);
            assert!(refused.to_string().starts_with(&expected), "{refused}");
            assert!(matches!(happenings.try_recv(), Ok(Happening::Refused { .. })));
        }
        one.leave().await;
        // The id is free again.
        setting.admit_as("10-a", second, &other).await.unwrap();
        other.leave().await;
    }
}
