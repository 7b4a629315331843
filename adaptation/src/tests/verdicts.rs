//! Validators that do not answer: which of them fail creations and for how long, and when
//! containers are created without a verdict.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri_proto::{Event, EventMask, PluginId, Pod, Verdict};
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, FakeSource, Manner, SECOND, adaptation, at_once, pod};
use super::validating::{create, create_in, join, validator};
use crate::Adaptation;
use crate::Config;
use crate::Notice;
use crate::api::health::State;
use crate::api::plugin::Reply;
use crate::events::Metrics;
use crate::ledger::Ledger;

const SILENT: &str = "validator plugin 10-judge failed: the plugin is silent: it has yet to answer an earlier request";
const SUSPENDED: &str = "validator plugin 10-judge failed: the plugin is suspended: it was silent too often";

/// U11: in Go, the plugin is closed after its timeout, and the next container is created without
/// it.
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

/// U11: for as long as the validator does not answer.
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

/// U11: a validator that was closed is absent, and fails creations all the same.
#[tokio::test(start_paused = true)]
async fn u11_a_validator_that_the_operator_wants_and_does_not_keep_fails_creates_when_it_is_closed() {
    let judge = validator("10-judge", Manner::Never, &Diary::default());
    let nri = adaptation("[plugins.judge]\nvalidator = true\nkeep_connected = false", &[("10-judge", &judge)]).await;
    assert!(create(&nri).await.is_err());
    sleep(SECOND * 10).await;
    assert!(nri.plugins().is_empty());
    assert!(
        create(&nri)
            .await
            .unwrap_err()
            .ends_with("the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)")
    );
    join(&nri, "10-judge", &validator("10-judge", at_once(), &Diary::default())).await;
    assert_eq!(create(&nri).await, Ok(()));
}

/// Counts the containers that were created without the verdict of a plugin.
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

/// D2: upstream's logger subscribes to all events, and must not stop a node when it hangs.
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
            "10-judge failed ValidateContainerAdjustment: it was closed, and containers are created without \
             its verdict: it was silent for too long"
        );
        nri.stop().await;
    }
}

/// D2: the plugin is suspended instead of closed.
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
        let passed_over = "10-judge was skipped for ValidateContainerAdjustment: it is suspended";
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

/// If the operator sets `on_timeout = 'fail'`, this holds for validation as well.
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

/// A declared failure policy holds for all other requests, whether or not the plugin validates.
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

/// U40: exempt pods do without a suspended validator.
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

/// D2: a plugin that owes no answer and is only catching up can judge, so no container is created
/// without its verdict.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_catches_up_is_asked_for_its_verdict() {
    let judge = FakePlugin::new("10-judge", EventMask::ALL, Manner::After(SECOND * 3), &Diary::default());
    let nri = adaptation("", &[("10-judge", &judge)]).await;
    for number in 0..6 {
        let operation = nri.begin(pod(&format!("missed{number}")));
        operation.notify(Notice::RunPod).await.unwrap();
        operation.commit();
    }
    judge.behave(Manner::After(SECOND));
    judge.reject("too large");
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(nri.plugins()[0].state, State::Silent, "it has yet to hear of five pods");
    let before = Instant::now();
    let rejected = r#"validator "10-judge" rejected container adjustment, reason: too large"#;
    assert_eq!(create(&nri).await, Err(rejected.to_owned()));
    assert!(before.elapsed() <= SECOND * 2, "it waits for no more than one request of the backlog");
    assert_eq!(nri.plugins()[0].state, State::Silent, "it has yet to hear of the others");
    judge.behave(at_once());
    judge.reply(Event::ValidateContainerAdjustment, Reply::Verdict(Verdict::accept()));
    sleep(SECOND * 2).await;
    assert_eq!((create(&nri).await, nri.plugins()[0].state), (Ok(()), State::Active));
}

/// The creation needs only the verdict of the plugin, so it does not wait for the plugin's backlog,
/// however long that is.
#[tokio::test(start_paused = true)]
async fn a_create_does_not_wait_for_a_plugin_that_is_to_validate_alone_to_catch_up() {
    for demand in ["required", "validator"] {
        let events = Event::ValidateContainerAdjustment | Event::StopPodSandbox;
        let judge = FakePlugin::new("10-judge", events, Manner::After(SECOND * 3), &Diary::default());
        let policy = format!("plugins.judge = {{ {demand} = true, join_timeout = '2s' }}");
        let nri = adaptation(&policy, &[("10-judge", &judge)]).await;
        for number in 0..6 {
            let _ = nri.begin(pod(&format!("missed{number}"))).notify(Notice::StopPod).await;
        }
        judge.behave(Manner::After(SECOND));
        sleep(Duration::from_millis(1100)).await;
        assert_eq!(nri.plugins()[0].state, State::Silent, "{demand}: it has yet to hear of five pods");
        let before = Instant::now();
        assert_eq!(create(&nri).await, Ok(()), "{demand}");
        assert!(before.elapsed() <= SECOND * 2, "{demand}: {:?}", before.elapsed());
        assert_eq!(nri.plugins()[0].state, State::Silent, "{demand}");
    }
}

/// V4: the plugin is skipped for adjustments, and asked for its verdict.
#[tokio::test(start_paused = true)]
async fn a_create_does_not_wait_for_a_validator_to_catch_up_that_is_not_required() {
    let judge = FakePlugin::new("10-judge", EventMask::ALL, Manner::After(SECOND * 3), &Diary::default());
    let nri = adaptation("plugins.judge = { validator = true, join_timeout = '2s' }", &[("10-judge", &judge)]).await;
    for number in 0..6 {
        let _ = nri.begin(pod(&format!("missed{number}"))).notify(Notice::StopPod).await;
    }
    judge.behave(Manner::After(SECOND));
    sleep(Duration::from_millis(1100)).await;
    assert_eq!(nri.plugins()[0].state, State::Silent, "it has yet to hear of five pods");
    let before = Instant::now();
    assert_eq!(create(&nri).await, Ok(()));
    assert!(before.elapsed() <= SECOND * 2, "{:?}", before.elapsed());
    assert_eq!(nri.plugins()[0].state, State::Silent);
}

/// D2: a plugin that hangs while it catches up is treated like any other plugin that hangs.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_again_while_it_catches_up_fails_creates_up_to_its_strikes() {
    let judge = FakePlugin::new("10-judge", EventMask::ALL, Manner::After(SECOND * 3), &Diary::default());
    let nri = adaptation("", &[("10-judge", &judge)]).await;
    for number in 0..3 {
        nri.begin(pod(&format!("missed{number}"))).notify(Notice::StopPod).await.unwrap();
    }
    judge.behave(Manner::Never);
    let begun = Instant::now();
    let mut n_failed = 0;
    while create(&nri).await.is_err() {
        n_failed += 1;
        sleep(Duration::from_millis(500)).await;
    }
    assert!(n_failed > 5, "{n_failed}");
    assert!(begun.elapsed() <= SECOND * 8, "{:?}", begun.elapsed());
    assert!(nri.plugins().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_whose_connection_breaks_when_it_is_tried_again_fails_no_create() {
    for (listed, fails) in [("", false), ("plugins.judge.validator = true", true)] {
        let judge = validator("10-judge", Manner::GivesUpAfter(SECOND), &Diary::default());
        judge.declare(false, true);
        let nri = adaptation(listed, &[("10-judge", &judge)]).await;
        for _ in 0..3 {
            assert!(create(&nri).await.is_err());
            sleep(SECOND * 2).await;
        }
        sleep(SECOND * 15).await;
        assert_eq!(nri.plugins()[0].state, State::Suspended);
        judge.behave(Manner::Breaks);
        assert_eq!(create(&nri).await.is_err(), fails, "{listed}");
    }
}

/// All ways in which a validator can hang, for each policy: the outcome of creations while the
/// validator is silent, and afterwards.
#[tokio::test(start_paused = true)]
async fn who_is_kept_and_who_fails_creates_for_good_is_the_operators_word() {
    let words = ["", "validator = true", "required = true", "keep_connected = true", "on_timeout = 'fail'"];
    for (words, declares, state, is_created) in [
        (words[0], (false, false), None, true),
        (words[0], (true, false), None, true),
        (words[0], (false, true), Some(State::Suspended), true),
        (words[0], (true, true), Some(State::Suspended), true),
        (words[1], (false, false), Some(State::Suspended), false),
        (words[1], (true, true), Some(State::Suspended), false),
        (words[2], (false, false), Some(State::Suspended), false),
        (words[3], (false, false), Some(State::Suspended), true),
        (words[4], (false, false), None, true),
        (words[4], (false, true), Some(State::Suspended), false),
    ] {
        let judge = validator("10-judge", Manner::Never, &Diary::default());
        judge.declare(declares.0, declares.1);
        let nri = adaptation(&format!("[plugins.judge]\n{words}"), &[("10-judge", &judge)]).await;
        let of = format!("{words} {declares:?}");
        assert_eq!(create(&nri).await, Err("validator plugin 10-judge failed: no answer in time".to_owned()), "{of}");
        assert_eq!(create(&nri).await, Err(SILENT.to_owned()), "{of}");
        sleep(SECOND * 5).await;
        assert_eq!(nri.plugins().first().map(|plugin| plugin.state), state, "{of}");
        for _ in 0..3 {
            assert_eq!(create(&nri).await.is_ok(), is_created, "{of}");
            sleep(SECOND * 100).await;
        }
    }
}

/// As in upstream's suite, with Go's single strike: the validator stays connected, and judges the
/// next container.
#[tokio::test(start_paused = true)]
async fn with_one_strike_a_validator_that_is_kept_judges_the_next_container_once_it_has_answered() {
    let judge = validator("10-judge", Manner::After(SECOND * 3), &Diary::default());
    judge.declare(false, true);
    let nri = adaptation("plugin_defaults.strikes = 1", &[("10-judge", &judge)]).await;
    assert_eq!(create(&nri).await, Err("validator plugin 10-judge failed: no answer in time".to_owned()));
    assert_eq!(nri.plugins()[0].state, State::Suspended);
    judge.behave(at_once());
    judge.reject("too large");
    sleep(SECOND + Duration::from_millis(1)).await;
    assert_eq!(nri.plugins()[0].state, State::Active, "its overdue answer has come");
    assert!(create(&nri).await.unwrap_err().ends_with("too large"));
}
