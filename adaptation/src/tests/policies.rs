//! The outcome of a request under different policies.

use std::time::Duration;

use super::fake::{Diary, FakePlugin, LIFE, Manner, adaptation, at_once, chain, container, pod};
use crate::Notice;

#[tokio::test(start_paused = true)]
async fn a_request_goes_on_without_a_plugin_that_does_not_answer() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &diary);
    let good = FakePlugin::new("20-good", LIFE, at_once(), &diary);
    let nri = adaptation("", &[("10-stuck", &stuck), ("20-good", &good)]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!(diary.lines(), ["10-stuck CreateContainer c", "20-good CreateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_that_does_not_answer_fails_what_it_gates_by_name() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &diary);
    let later = FakePlugin::new("20-later", LIFE, at_once(), &diary);
    let nri =
        adaptation("[plugins.stuck]\nrequired = true\nstrikes = 99", &[("10-stuck", &stuck), ("20-later", &later)])
            .await;
    for cause in ["no answer in time", "the plugin is silent: it has yet to answer an earlier request"] {
        let failed = nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
        assert_eq!(chain(&failed), format!("plugin 10-stuck failed to handle CreateContainer request: {cause}"));
    }
    assert_eq!(diary.lines(), ["10-stuck CreateContainer c"], "later plugins are not asked");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_that_is_absent_fails_before_anyone_is_asked() {
    let diary = Diary::default();
    let good = FakePlugin::new("20-good", LIFE, at_once(), &diary);
    let nri = adaptation("[plugins.policy]\nrequired = true", &[("20-good", &good)]).await;
    let failed = nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap_err();
    assert_eq!(
        chain(&failed),
        "plugin policy failed to handle RunPodSandbox request: the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)"
    );
    assert!(diary.lines().is_empty());
    nri.begin(pod("p")).notify(Notice::StopPod).await.unwrap();
    assert_eq!(diary.lines(), ["20-good StopPodSandbox p"], "an end is told in any case");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_a_plugin_returns_refuses_the_request_and_costs_it_nothing() {
    let diary = Diary::default();
    let strict = FakePlugin::new("10-strict", LIFE, Manner::Refuses, &diary);
    let later = FakePlugin::new("20-later", LIFE, at_once(), &diary);
    let nri = adaptation("plugin_defaults.strikes = 1", &[("10-strict", &strict), ("20-later", &later)]).await;
    for _ in 0..3 {
        let refused = nri.begin(pod("p")).notify(Notice::Start(container("c"))).await.unwrap_err();
        assert_eq!(chain(&refused), "plugin 10-strict failed to handle StartContainer request: not today");
    }
    assert_eq!(nri.plugins().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn u31_every_plugin_hears_of_an_end_although_one_fails() {
    let diary = Diary::default();
    let stuck = FakePlugin::new("00-stuck", LIFE, Manner::Never, &diary);
    let strict = FakePlugin::new("10-strict", LIFE, Manner::Refuses, &diary);
    let last = FakePlugin::new("90-last", LIFE, at_once(), &diary);
    let policy = "[plugins.stuck]\non_timeout = \"fail\"";
    let nri = adaptation(policy, &[("00-stuck", &stuck), ("10-strict", &strict), ("90-last", &last)]).await;
    let ending = nri.begin(pod("p"));
    assert!(ending.stop_container(container("c")).await.is_err());
    for notice in [Notice::Remove(container("c")), Notice::StopPod, Notice::RemovePod] {
        assert!(ending.notify(notice).await.is_err());
    }
    let last_saw: Vec<_> = diary.lines().into_iter().filter(|line| line.starts_with("90")).collect();
    let expected = ["StopContainer c", "RemoveContainer c", "StopPodSandbox p", "RemovePodSandbox p"];
    assert_eq!(last_saw, expected.map(|event| format!("90-last {event}")));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_subscribed_to_costs_no_time() {
    let diary = Diary::default();
    let none = FakePlugin::new("10-none", nri_proto::Event::StopPodSandbox.into(), at_once(), &diary);
    let nri = adaptation("", &[("10-none", &none)]).await;
    let before = tokio::time::Instant::now();
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(diary.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn everyone_can_see_which_policy_holds_for_a_plugin_and_who_said_so() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-guard", LIFE, at_once(), &diary);
    let policy = "[plugins.guard]\nrequired = true\n[plugins.10-guard]\nallow.changes = ['Env']";
    let nri = adaptation(policy, &[("10-guard", &plugin)]).await;
    let told = || nri.plugins()[0].policy.to_string();
    for part in [
        "required=true (operator, by name), ",
        "on_timeout=fail (required), ",
        "allow=changes=[Env] (operator, by index and name), ",
        "mode=enforce",
    ] {
        assert!(told().contains(part), "{part:?} is not in {:?}", told());
    }
    nri.reload(&crate::Config::from_toml("[plugins.guard]\nmode = 'shadow'").unwrap());
    assert!(
        told().starts_with("required=false, ") && told().ends_with("mode=shadow (operator, by name)"),
        "{}",
        told()
    );
}
