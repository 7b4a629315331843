//! Missing plugins, and waiting for them.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::EventMask;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Absence;
use crate::Adaptation;
use crate::Config;
use crate::Demand;
use crate::NotReady;
use crate::Notice;

const REQUIRED: &str = "[plugins.guard]\nrequired = true";

#[track_caller]
fn check(nri: &Adaptation, missing: &[&str]) {
    assert_eq!(nri.missing().iter().map(ToString::to_string).collect::<Vec<_>>(), missing);
}

fn plugin(name: &str) -> Arc<FakePlugin> {
    FakePlugin::new(name, LIFE, at_once(), &Diary::default())
}

/// Waits in another task until no plugin is missing.
async fn waiting(nri: &Arc<Adaptation>) -> JoinHandle<(Result<(), NotReady>, Duration)> {
    let nri = Arc::clone(nri);
    let waiting = tokio::spawn(async move {
        let begun = Instant::now();
        (nri.ready(SECOND * 60).await, begun.elapsed())
    });
    sleep(SECOND).await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_required_nothing_is_missing() {
    let nri = adaptation("[plugins.guard]\nstrikes = 1\n[default_validator]\nrequired_plugins = ['off']", &[]).await;
    check(&nri, &[]);
    nri.ready(Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_that_is_required_by_anyone_is_missing_until_it_is_there() {
    let policy = "[plugins.10-guard]\nrequired = true\n[plugins.judge]\nvalidator = true\n\
                  [default_validator]\nenable = true\nrequired_plugins = ['20-topology', 'logger']";
    let others = [plugin("30-logger"), plugin("20-guard"), plugin("10-topology")];
    let ids = ["30-logger", "20-guard", "10-topology"];
    let nri = adaptation(policy, &ids.into_iter().zip(&others).collect::<Vec<_>>()).await;
    check(
        &nri,
        &[
            "10-guard (required, absent)",
            "judge (to validate, absent)",
            "20-topology (required by the default validator, absent)",
        ],
    );
    let missing = nri.missing();
    assert_eq!((missing[0].demand, missing[0].absence), (Demand::Required, Absence::Absent));

    let judge = FakePlugin::new("10-judge", EventMask::ALL, at_once(), &Diary::default());
    for (id, plugin) in [("10-guard", plugin("10-guard")), ("10-judge", judge), ("20-topology", plugin("20-topology"))]
    {
        nri.admit(id.parse().unwrap(), plugin).await.unwrap();
    }
    check(&nri, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_on_trial_is_not_missed() {
    let nri = adaptation("[plugins.guard]\nrequired = true\nvalidator = true\nmode = 'shadow'", &[]).await;
    check(&nri, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_validator_that_does_not_validate_is_missing() {
    let nri = adaptation("[plugins.judge]\nvalidator = true", &[("10-judge", &plugin("10-judge"))]).await;
    check(&nri, &["judge (to validate, does not validate)"]);
    let second = FakePlugin::new("20-judge", EventMask::ALL, at_once(), &Diary::default());
    nri.admit("20-judge".parse().unwrap(), second).await.unwrap();
    check(&nri, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_joins_is_missing_until_it_is_asked() {
    let nri = Arc::new(adaptation(REQUIRED, &[]).await);
    let guard = plugin("10-guard");
    guard.synchronizes_for(SECOND * 5);
    let joining = {
        let (nri, guard) = (Arc::clone(&nri), Arc::clone(&guard));
        tokio::spawn(async move { nri.admit("10-guard".parse().unwrap(), guard).await })
    };
    sleep(SECOND).await;
    check(&nri, &["guard (required, joining)"]);
    assert_eq!(nri.missing()[0].absence, Absence::Joining);
    nri.ready(SECOND * 60).await.unwrap();
    joining.await.unwrap().unwrap();
    guard.leave().await;
    check(&nri, &["guard (required, absent)"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_does_not_answer_is_missing_until_it_does() {
    let slow = FakePlugin::new("10-guard", LIFE, Manner::After(SECOND * 4), &Diary::default());
    let policy = format!("{REQUIRED}\nstrikes = 9\n[default_validator]\nenable = true\nrequired_plugins = ['guard']");
    let nri = adaptation(&policy, &[("10-guard", &slow)]).await;
    let begun = Instant::now();
    nri.begin(pod("p")).notify(Notice::Start(container("c"))).await.unwrap_err();
    check(&nri, &["guard (required, silent)", "guard (required by the default validator, silent)"]);
    nri.ready(SECOND * 60).await.unwrap();
    assert_eq!(begun.elapsed(), SECOND * 4);
}

#[tokio::test(start_paused = true)]
async fn of_several_of_a_name_each_must_answer_that_the_operator_requires() {
    let silent = FakePlugin::new("20-guard", LIFE, Manner::Never, &Diary::default());
    let plugins = [("10-guard", &plugin("10-guard")), ("20-guard", &silent)];
    let rest = "strikes = 9\n[default_validator]\nenable = true\nrequired_plugins = ['guard']";
    let nri = adaptation(&format!("{REQUIRED}\n{rest}"), &plugins).await;
    nri.begin(pod("p")).notify(Notice::Start(container("c"))).await.unwrap_err();
    check(&nri, &["guard (required, silent)"]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_who_is_missing_when_the_time_is_over() {
    let nri = adaptation(REQUIRED, &[]).await;
    let begun = Instant::now();
    let error = nri.ready(SECOND * 7).await.unwrap_err();
    assert_eq!(error.to_string(), "plugins are missing: guard (required, absent)");
    assert_eq!(begun.elapsed(), SECOND * 7);
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_when_a_reload_requires_nobody() {
    let nri = Arc::new(adaptation(REQUIRED, &[]).await);
    let waiting = waiting(&nri).await;
    nri.reload(&Config::default());
    assert_eq!(waiting.await.unwrap(), (Ok(()), SECOND));
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_when_the_adaptation_is_stopped() {
    let nri = Arc::new(adaptation(REQUIRED, &[]).await);
    let waiting = waiting(&nri).await;
    nri.stop().await;
    let (ready, took) = waiting.await.unwrap();
    assert!(ready.is_err());
    assert_eq!(took, SECOND);
}
