//! Pods whose annotation tolerates the absence of a required plugin.

use std::time::Duration;

use nri_proto::{Event, Pod};
use tokio::time::Instant;

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, pod};
use super::setting::setting;
use super::validating::{create_in, validator};
use crate::Notice;

const TOLERATE: &str = "required_tolerate_annotation = 'tolerate.example.org'";

fn annotated(value: &str) -> Pod {
    Pod { annotations: [("tolerate.example.org/pod".to_owned(), value.to_owned())].into(), ..pod("p") }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_tolerates_it_runs_without_a_required_plugin_that_is_absent() {
    let nri = adaptation(&format!("{TOLERATE}\n[plugins.guard]\nrequired = true\nvalidator = true"), &[]).await;
    nri.begin(annotated("true")).notify(Notice::RunPod).await.unwrap();
    assert_eq!(create_in(&nri, annotated("true")).await, Ok(()));
    for value in ["false", "perhaps"] {
        nri.begin(annotated(value)).notify(Notice::RunPod).await.unwrap_err();
    }
}

/// Anyone who may create pods can annotate them.
#[tokio::test(start_paused = true)]
async fn by_default_no_annotation_exempts_a_pod_from_what_the_operator_requires() {
    let default_validator =
        "[default_validator]\nenable = true\ntolerate_missing_plugins_annotation = 'tolerate.example.org'";
    for policy in ["", default_validator] {
        for demand in ["required", "validator"] {
            let nri = adaptation(&format!("[plugins.guard]\n{demand} = true\n{policy}"), &[]).await;
            let error = create_in(&nri, annotated("true")).await.unwrap_err();
            assert!(
                error.ends_with(
                    "the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)"
                ),
                "{error}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_annotation_avoids_the_silence_of_a_required_plugin_that_is_connected() {
    for kept in [false, true] {
        let stuck = FakePlugin::new("10-guard", LIFE, Manner::Never, &Diary::default());
        let policy = format!("{TOLERATE}\n[plugins.guard]\nrequired = true\nkeep_connected = {kept}\nstrikes = 2");
        let nri = adaptation(&policy, &[("10-guard", &stuck)]).await;
        for cause in ["no answer in time", "the plugin is silent: it has yet to answer an earlier request"] {
            let error = create_in(&nri, annotated("true")).await.unwrap_err();
            assert!(error.ends_with(cause), "{error}");
        }
        tokio::time::sleep(SECOND * 5).await;
        // A suspended plugin is connected. A closed plugin is absent.
        assert_eq!(create_in(&nri, annotated("true")).await.is_err(), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn no_annotation_avoids_a_validator_that_is_connected() {
    let judge = validator("10-judge", Manner::Never, &Diary::default());
    let nri = adaptation(&format!("{TOLERATE}\n[plugins.judge]\nvalidator = true"), &[("10-judge", &judge)]).await;
    for _ in 0..10 {
        let error = create_in(&nri, annotated("true")).await.unwrap_err();
        assert!(error.starts_with("validator plugin 10-judge failed"), "{error}");
        tokio::time::sleep(SECOND).await;
    }

    let judge = validator("10-judge", at_once(), &Diary::default());
    judge.reject("too large");
    let nri = adaptation(&format!("{TOLERATE}\n[plugins.judge]\nvalidator = true"), &[("10-judge", &judge)]).await;
    let error = create_in(&nri, annotated("true")).await.unwrap_err();
    assert!(error.ends_with("reason: too large"), "{error}");
    judge.leave().await;
    assert_eq!(create_in(&nri, annotated("true")).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn no_annotation_avoids_a_required_plugin_that_joins() {
    for demand in ["required", "validator"] {
        let setting = setting(&format!("{TOLERATE}\n[plugins.guard]\n{demand} = true\njoin_timeout = '3s'"));
        let guard = FakePlugin::new("10-guard", Event::ValidateContainerAdjustment.into(), at_once(), &setting.diary);
        guard.synchronizes_for(SECOND * 2);
        guard.reject("too large");
        let joining = setting.admit("10-guard", &guard);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let error = create_in(&setting.nri, annotated("true")).await.unwrap_err();
        assert!(error.ends_with("reason: too large"), "{demand}: {error}");
        joining.await.unwrap().unwrap();
        guard.leave().await;

        let slow = FakePlugin::new("10-guard", Event::ValidateContainerAdjustment.into(), at_once(), &setting.diary);
        slow.synchronizes_for(SECOND * 9);
        let joining = setting.admit("10-guard", &slow);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        let error = create_in(&setting.nri, annotated("true")).await.unwrap_err();
        assert!(
            error.ends_with(
                "the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)"
            ),
            "{demand}: {error}"
        );
        assert_eq!(begun.elapsed(), SECOND * 3);
        joining.abort();
    }
}
