//! Validators that do not answer: who fails creates, for how long, and when containers are created without a verdict.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri_proto::{EventMask, PluginId, Pod};
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, FakeSource, Manner, SECOND, adaptation, at_once, pod};
use super::validating::{create, create_in, join, validator};
use crate::events::Metrics;
use crate::health::State;
use crate::ledger::Ledger;
use crate::{Adaptation, Config};

const SILENT: &str = "validator plugin 10-judge failed: the plugin is silent: it has yet to answer an earlier request";
const SUSPENDED: &str = "validator plugin 10-judge failed: the plugin is suspended: it was silent too often";

/// U11. In Go the plugin is gone after its timeout, and the next container is created without it.
#[tokio::test(start_paused = true)]
async fn u11_a_validator_that_timed_out_fails_creates_until_it_is_back() {
    for policy in ["", "[plugins.judge]\nvalidator = true", "[plugins.judge]\nrequired = true"] {
        let judge = validator("10-judge", Manner::After(SECOND * 3), &Diary::default());
        let nri = adaptation(policy, &[("10-judge", &judge)]).await;
        assert_eq!(create(&nri).await, Err("validator plugin 10-judge failed: no answer in time".to_owned()));
        judge.behave(at_once());
        assert_eq!(create(&nri).await, Err(SILENT.to_owned()));
        sleep(SECOND * 2).await;
        assert_eq!(create(&nri).await, Ok(()), "its answer has come");
    }
}

/// U11. However long that is.
#[tokio::test(start_paused = true)]
async fn u11_a_validator_that_the_operator_wants_is_kept_and_fails_creates_for_good() {
    for axis in ["validator", "required"] {
        let judge = validator("10-judge", Manner::Never, &Diary::default());
        let nri = adaptation(&format!("[plugins.judge]\n{axis} = true"), &[("10-judge", &judge)]).await;
        for _ in 0..20 {
            assert!(create(&nri).await.is_err());
            sleep(SECOND * 60).await;
        }
        assert_eq!(nri.plugins()[0].state, State::Suspended, "{axis}");
        assert_eq!(create(&nri).await, Err(SUSPENDED.to_owned()), "{axis}");
    }
}

/// U11. Such a plugin is absent when it is closed, and fails creates all the same.
#[tokio::test(start_paused = true)]
async fn u11_a_validator_that_the_operator_wants_and_does_not_keep_fails_creates_when_it_is_closed() {
    let judge = validator("10-judge", Manner::Never, &Diary::default());
    let nri = adaptation("[plugins.judge]\nvalidator = true\nkeep_connected = false", &[("10-judge", &judge)]).await;
    assert!(create(&nri).await.is_err());
    sleep(SECOND * 10).await;
    assert!(nri.plugins().is_empty());
    assert!(create(&nri).await.unwrap_err().ends_with("the plugin is required, and not here"));
    join(&nri, "10-judge", &validator("10-judge", at_once(), &Diary::default())).await;
    assert_eq!(create(&nri).await, Ok(()));
}

/// How often containers were created without the verdict of a plugin.
#[derive(Default)]
struct Unvalidated(Mutex<Vec<String>>);

impl Metrics for Unvalidated {
    fn unvalidated(&self, plugin: &PluginId) {
        self.0.lock().unwrap().push(plugin.to_string());
    }
}

async fn counted(policy: &str, judge: &Arc<FakePlugin>) -> (Adaptation, Arc<Unvalidated>) {
    let metrics = Arc::new(Unvalidated::default());
    let config = Config { socket: None, ..Config::from_toml(policy).unwrap() };
    let nri = Adaptation::with_metrics(config, Arc::new(FakeSource), Arc::clone(&metrics) as Arc<dyn Metrics>);
    join(&nri, "10-judge", judge).await;
    (nri, metrics)
}

/// D2. Upstream's logger subscribes to all events, and must not stop a node when it hangs.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_merely_subscribes_to_validation_fails_creates_up_to_its_strikes_and_is_closed() {
    for declares_fail in [false, true] {
        let judge = validator("10-judge", Manner::Never, &Diary::default());
        judge.declare(declares_fail, false);
        let (nri, unvalidated) = counted("", &judge).await;
        let begun = Instant::now();
        assert_eq!(create(&nri).await, Err("validator plugin 10-judge failed: no answer in time".to_owned()));
        while begun.elapsed() < Duration::from_millis(5500) {
            let before = Instant::now();
            assert_eq!(create(&nri).await, Err(SILENT.to_owned()));
            assert_eq!(before.elapsed(), Duration::ZERO, "it fails at once");
            sleep(Duration::from_millis(500)).await;
        }
        sleep(SECOND).await;
        assert!(nri.plugins().is_empty(), "it is closed at its strikes");
        assert_eq!(create(&nri).await, Ok(()));
        assert_eq!(*unvalidated.0.lock().unwrap(), ["10-judge"]);
        let entries = nri.ledger(Ledger::all);
        assert_eq!(
            entries.last().unwrap().to_string(),
            "10-judge has no say in ValidateContainerAdjustment: it was closed, and containers are created without \
             its verdict: it was silent for too long"
        );
        nri.stop().await;
    }
}

/// D2. The same for a plugin that is kept.
#[tokio::test(start_paused = true)]
async fn containers_are_created_without_a_suspended_plugin_that_merely_subscribes_to_validation() {
    for (policy, declares) in [("", true), ("plugins.judge.keep_connected = true", false)] {
        let judge = validator("10-judge", Manner::Never, &Diary::default());
        judge.declare(declares, declares);
        let (nri, unvalidated) = counted(policy, &judge).await;
        assert!(create(&nri).await.is_err());
        sleep(SECOND * 5).await;
        assert_eq!(nri.plugins()[0].state, State::Suspended);
        let before = Instant::now();
        assert_eq!(create(&nri).await, Ok(()));
        assert_eq!(create(&nri).await, Ok(()));
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(*unvalidated.0.lock().unwrap(), ["10-judge", "10-judge"], "each time");
        let entries = nri.ledger(|ledger| ledger.of("c"));
        let passed_over = "10-judge was passed over for ValidateContainerAdjustment: it is suspended";
        assert!(entries.iter().any(|entry| entry.to_string().starts_with(passed_over)), "{entries:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_that_merely_subscribes_to_validation_fails_no_create_when_it_is_tried_again() {
    let judge = validator("10-judge", Manner::GivesUpAfter(SECOND), &Diary::default());
    judge.declare(false, true);
    let (nri, unvalidated) = counted("", &judge).await;
    for _ in 0..3 {
        assert!(create(&nri).await.is_err());
        sleep(SECOND * 2).await;
    }
    assert_eq!(nri.plugins()[0].state, State::Suspended);
    sleep(SECOND * 15).await;
    let before = Instant::now();
    assert_eq!(create(&nri).await, Ok(()));
    assert_eq!(before.elapsed(), SECOND, "it was asked");
    assert_eq!(nri.plugins()[0].state, State::Suspended);
    assert_eq!(unvalidated.0.lock().unwrap().len(), 1);
    judge.behave(at_once());
    judge.reject("too large");
    sleep(SECOND * 30).await;
    assert!(create(&nri).await.unwrap_err().ends_with("too large"), "its verdict counts again");
}

/// The operator's own word that requests fail without the plugin holds for validation as well.
#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_that_validates_fails_creates_if_the_operator_says_that_its_silence_does() {
    for table in ["plugin_defaults", "plugins.judge"] {
        let judge = validator("10-judge", Manner::Never, &Diary::default());
        let policy = format!("[{table}]\non_timeout = 'fail'\nkeep_connected = true");
        let nri = adaptation(&policy, &[("10-judge", &judge)]).await;
        assert!(create(&nri).await.is_err());
        sleep(SECOND * 5).await;
        assert_eq!(create(&nri).await, Err(SUSPENDED.to_owned()), "{table}");
    }
}

/// What a plugin declares holds for all other requests, whether or not it validates.
#[tokio::test(start_paused = true)]
async fn a_declared_failure_policy_holds_for_other_requests_of_a_plugin_that_validates() {
    let judge = FakePlugin::new("10-judge", EventMask::ALL, Manner::Never, &Diary::default());
    judge.declare(true, true);
    let nri = adaptation("", &[("10-judge", &judge)]).await;
    for cause in [
        "no answer in time",
        "the plugin is silent: it has yet to answer an earlier request",
        "the plugin is suspended: it was silent too often",
    ] {
        let failed = format!("plugin 10-judge failed to handle CreateContainer request: {cause}");
        assert_eq!(create(&nri).await, Err(failed));
        sleep(SECOND * 3).await;
    }
}

/// U40. Pods that are exempt do without a validator that is suspended.
#[tokio::test(start_paused = true)]
async fn exempt_pods_do_without_a_validator_that_does_not_answer() {
    let judge = validator("10-judge", Manner::Never, &Diary::default());
    let nri = adaptation("[plugins.judge]\nvalidator = true", &[("10-judge", &judge)]).await;
    for _ in 0..3 {
        let exempt = Pod { namespace: "kube-system".to_owned(), ..pod("p") };
        assert_eq!(create_in(&nri, exempt).await, Ok(()));
        assert!(create(&nri).await.is_err());
        sleep(SECOND * 3).await;
    }
}
