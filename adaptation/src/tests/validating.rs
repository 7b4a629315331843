//! Validators are asked after the merge, all at once. No container is created without their
//! verdict.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{EnvVar, Event, EventMask, Field, Hook, Hooks, Pod, Resources, Update};
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, chain, container, pod};
use crate::Adaptation;
use crate::Notice;
use crate::api::health::State;
use crate::api::plugin::{Plugin, Reply};
use crate::ledger::EntryKind;

const VALIDATES: Event = Event::ValidateContainerAdjustment;

pub(super) fn validator(name: &str, manner: Manner, diary: &Diary) -> Arc<FakePlugin> {
    FakePlugin::new(name, VALIDATES.into(), manner, diary)
}

/// Creates a container. Returns the error if the creation fails.
pub(super) async fn create(nri: &Adaptation) -> Result<(), String> {
    create_in(nri, pod("p")).await
}

pub(super) async fn create_in(nri: &Adaptation, pod: Pod) -> Result<(), String> {
    nri.begin(pod).create_container(container("c")).await.map(drop).map_err(|error| chain(&error))
}

fn rejected<T>(reason: &str) -> Result<T, String> {
    Err(format!(r#"validator "00-default-validator" rejected container adjustment, reason: {reason}"#))
}

pub(super) async fn join(nri: &Adaptation, id: &str, plugin: &Arc<FakePlugin>) {
    nri.admit(id.parse().unwrap(), Arc::clone(plugin) as Arc<dyn Plugin>).await.unwrap();
}

/// Returns the plugins that were consulted, according to the proposal that the validator gets.
fn consulted(validator: &FakePlugin) -> Vec<String> {
    let request = validator.asked();
    request.proposal().unwrap().plugins.iter().map(|plugin| format!("{}-{}", plugin.index, plugin.name)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_validator_says_holds() {
    let diary = Diary::default();
    let judge = validator("90-judge", at_once(), &diary);
    let nri = adaptation("", &[("90-judge", &judge)]).await;
    assert_eq!(create(&nri).await, Ok(()));
    for (reason, told) in [("too large", "too large"), ("", "unknown rejection reason")] {
        judge.reject(reason);
        let rejected = format!(r#"validator "90-judge" rejected container adjustment, reason: {told}"#);
        assert_eq!(create(&nri).await, Err(rejected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_validator_is_shown_the_container_as_it_was_and_what_becomes_of_it() {
    let diary = Diary::default();
    let judge = validator("00-judge", at_once(), &diary);
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    plugin.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "2")).unwrap());
    let nri = adaptation("", &[("00-judge", &judge), ("10-a", &plugin)]).await;
    let original = nri_proto::Container { env: vec!["A=1".to_owned()], ..container("c") };
    nri.begin(pod("p")).create_container(original).await.unwrap();
    assert_eq!(diary.lines(), ["10-a CreateContainer c", "00-judge ValidateContainerAdjustment c"], "after the merge");
    let request = judge.asked();
    let proposal = request.proposal().unwrap();
    assert_eq!(proposal.pod.as_ref().unwrap().id, "p");
    assert_eq!(proposal.container.as_ref().unwrap().env, ["A=1"]);
    let adjustment = proposal.adjustment.as_ref().unwrap();
    assert_eq!(adjustment.env.get("A").unwrap().into_value().unwrap().value, "2");
    assert!(proposal.owners.as_ref().unwrap().owner("c", Field::Env, "A").unwrap().plugins().eq(["10-a"]));
    assert_eq!(consulted(&judge), ["00-judge", "10-a"]);
}

#[tokio::test(start_paused = true)]
async fn validators_are_asked_at_once_and_the_first_objection_in_their_order_is_told() {
    let diary = Diary::default();
    let judges = ["10-a", "20-b", "30-c"].map(|name| validator(name, Manner::After(SECOND), &diary));
    let [a, b, c] = &judges;
    a.behave(Manner::After(SECOND + Duration::from_millis(500)));
    let nri = adaptation("", &[("10-a", a), ("20-b", b), ("30-c", c)]).await;
    b.reject("b");
    c.reject("c");
    let before = Instant::now();
    let rejected = r#"validator "20-b" rejected container adjustment, reason: b"#;
    assert_eq!(create(&nri).await, Err(rejected.to_owned()));
    assert_eq!(before.elapsed(), SECOND + Duration::from_millis(500), "all are waited for");
}

#[tokio::test(start_paused = true)]
async fn a_validator_that_fails_in_any_way_fails_the_request() {
    let failures = [
        (Manner::Refuses, "not today"),
        (Manner::Never, "no answer in time"),
        (Manner::GivesUpAfter(SECOND), "no answer in time"),
        (Manner::DoesNotTake, "no answer in time"),
        (Manner::Panics, "the plugin violated the protocol: it panicked"),
        (Manner::Breaks, "the plugin disconnected before it answered: the peer closed the connection"),
    ];
    for (manner, cause) in failures {
        let judge = validator("10-judge", manner, &Diary::default());
        let nri = adaptation("", &[("10-judge", &judge)]).await;
        assert_eq!(create(&nri).await, Err(format!("validator plugin 10-judge failed: {cause}")));
    }
    let judge = validator("10-judge", at_once(), &Diary::default());
    judge.reply(VALIDATES, Reply::Heard);
    let nri = adaptation("", &[("10-judge", &judge)]).await;
    let cause = "the plugin violated the protocol: its answer is not a verdict";
    assert_eq!(create(&nri).await, Err(format!("validator plugin 10-judge failed: {cause}")));
}

#[tokio::test(start_paused = true)]
async fn only_a_container_that_is_created_is_validated() {
    let diary = Diary::default();
    let judge = validator("10-judge", Manner::Refuses, &diary);
    let nri = adaptation("", &[("10-judge", &judge)]).await;
    let operation = nri.begin(pod("p"));
    operation.notify(Notice::RunPod).await.unwrap();
    operation.update_container(container("c"), None).await.unwrap();
    operation.stop_container(container("c")).await.unwrap();
    assert!(diary.lines().is_empty());
}

/// U40: in Go, and if the operator does not list the validator, its absence goes unnoticed.
#[tokio::test(start_paused = true)]
async fn u40_a_validator_that_the_operator_lists_fails_creates_while_it_is_absent() {
    let absent = "plugin judge failed to handle ValidateContainerAdjustment request: the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)";
    for (policy, without) in [("", Ok(())), ("[plugins.judge]\nvalidator = true", Err(absent.to_owned()))] {
        let diary = Diary::default();
        let nri = adaptation(policy, &[]).await;
        assert_eq!(create(&nri).await, without, "it has not come yet");
        let judge = validator("10-judge", at_once(), &diary);
        join(&nri, "10-judge", &judge).await;
        assert_eq!(create(&nri).await, Ok(()));
        judge.leave().await;
        assert_eq!(create(&nri).await, without, "it has left");
        join(&nri, "10-judge", &validator("10-judge", at_once(), &diary)).await;
        assert_eq!(create(&nri).await, Ok(()), "it is back");
        nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    }
}

/// U40: the name alone is not enough.
#[tokio::test(start_paused = true)]
async fn u40_a_plugin_of_that_name_that_does_not_validate_is_no_validator() {
    let plugin = FakePlugin::new("10-judge", LIFE, at_once(), &Diary::default());
    let nri = adaptation("[plugins.judge]\nvalidator = true", &[("10-judge", &plugin)]).await;
    assert!(
        create(&nri)
            .await
            .unwrap_err()
            .ends_with("the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)")
    );
}

/// U40: exempt pods can start, such as the pod of the validator itself.
#[tokio::test(start_paused = true)]
async fn u40_exempt_pods_do_without_a_validator_that_is_absent() {
    let nri = adaptation("[plugins.judge]\nvalidator = true", &[]).await;
    let exempt = Pod { namespace: "kube-system".to_owned(), ..pod("p") };
    assert_eq!(create_in(&nri, exempt).await, Ok(()));
    assert!(create(&nri).await.is_err());
}

/// U32: in Go, a plugin counts as consulted once it was asked, so a hung plugin that is kept always
/// counts.
#[tokio::test(start_paused = true)]
async fn u32_who_did_not_answer_was_not_consulted() {
    let diary = Diary::default();
    let judge = validator("00-judge", at_once(), &diary);
    let [stuck, good] = ["10-stuck", "20-good"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    let other = FakePlugin::new("30-other", Event::RunPodSandbox.into(), at_once(), &diary);
    stuck.behave(Manner::Never);
    stuck.declare(false, true);
    let plugins = [("00-judge", &judge), ("10-stuck", &stuck), ("20-good", &good), ("30-other", &other)];
    let nri = adaptation("", &plugins).await;
    for _ in 0..10 {
        assert_eq!(create(&nri).await, Ok(()));
        assert_eq!(consulted(&judge), ["00-judge", "20-good", "30-other"]);
        sleep(SECOND).await;
    }
    assert_eq!(nri.plugins()[1].state, State::Suspended);
    good.leave().await;
    assert_eq!(create(&nri).await, Ok(()));
    assert_eq!(consulted(&judge), ["00-judge", "30-other"], "one that left while idle was not either");
}

#[tokio::test(start_paused = true)]
async fn u32_who_is_on_trial_or_kept_from_the_pod_was_not_consulted() {
    let hidden = "namespaces = ['elsewhere']";
    for policy in ["mode = 'shadow'", hidden, "allow.events = ['RunPodSandbox']"] {
        let diary = Diary::default();
        let judge = validator("00-judge", at_once(), &diary);
        let [silenced, good] = ["10-silenced", "20-good"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
        let plugins = [("00-judge", &judge), ("10-silenced", &silenced), ("20-good", &good)];
        let nri = adaptation(&format!("[plugins.silenced]\n{policy}"), &plugins).await;
        assert_eq!(create(&nri).await, Ok(()));
        assert_eq!(consulted(&judge), ["00-judge", "20-good"], "{policy}");
    }
    let plugin = FakePlugin::new("10-silenced", LIFE, at_once(), &Diary::default());
    let policy =
        "[plugins.silenced]\nmode = 'shadow'\n[default_validator]\nenable = true\nrequired_plugins = ['silenced']";
    let nri = adaptation(policy, &[("10-silenced", &plugin)]).await;
    assert_eq!(create(&nri).await, rejected(r#"validation error: required plugin "silenced" not present"#));
}

#[tokio::test(start_paused = true)]
async fn the_default_validator_was_consulted() {
    let diary = Diary::default();
    let [before, judge] = ["00-a", "00-judge"].map(|name| validator(name, at_once(), &diary));
    let policy = "[default_validator]\nenable = true\nrequired_plugins = ['default-validator']";
    let nri = adaptation(policy, &[("00-a", &before), ("00-judge", &judge)]).await;
    assert_eq!(create(&nri).await, Ok(()));
    assert_eq!(consulted(&judge), ["00-a", "00-default-validator", "00-judge"]);
}

/// U32: in Go, the first container is created. If the plugin is kept, all containers are created.
#[tokio::test(start_paused = true)]
async fn u32_the_default_validator_misses_a_required_plugin_that_did_not_answer() {
    let policy = "[default_validator]\nenable = true\nrequired_plugins = ['stuck']";
    for keep_connected in [false, true] {
        let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &Diary::default());
        stuck.declare(false, keep_connected);
        let nri = adaptation(policy, &[("10-stuck", &stuck)]).await;
        for _ in 0..10 {
            assert_eq!(create(&nri).await, rejected(r#"validation error: required plugin "stuck" not present"#));
            sleep(SECOND).await;
        }
    }
}

/// U32: a plugin that a policy requires fails requests under its name, when it times out and
/// afterwards, for pods as well.
#[tokio::test(start_paused = true)]
async fn u32_a_required_plugin_that_is_kept_and_hangs_fails_every_request() {
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &Diary::default());
    let nri = adaptation("[plugins.stuck]\nrequired = true\nkeep_connected = true", &[("10-stuck", &stuck)]).await;
    for (pause, cause) in [
        (0, "no answer in time"),
        (0, "the plugin is silent: it has yet to answer an earlier request"),
        (6, "the plugin is suspended: it was silent too often"),
    ] {
        sleep(SECOND * pause).await;
        let failed = format!("plugin 10-stuck failed to handle CreateContainer request: {cause}");
        assert_eq!(create(&nri).await, Err(failed));
    }
    let failed = nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap_err();
    assert_eq!(
        chain(&failed),
        "plugin 10-stuck failed to handle RunPodSandbox request: the plugin is suspended: it was silent too often"
    );
}

#[tokio::test(start_paused = true)]
async fn the_default_validator_is_a_validator_among_others() {
    let diary = Diary::default();
    let policy = "[default_validator]\nenable = true\nreject_oci_hook_adjustment = true";
    let judge = validator("10-judge", at_once(), &diary);
    let plugin = FakePlugin::new("20-a", LIFE, at_once(), &diary);
    let nri = adaptation(policy, &[("10-judge", &judge), ("20-a", &plugin)]).await;
    assert_eq!(create(&nri).await, Ok(()));
    let hook = Hook { path: "/bin/true".to_owned(), ..Hook::default() };
    plugin.adjust(|adjustment| {
        adjustment.hooks = Some(Hooks { prestart: vec![hook.clone()], ..Hooks::default() });
    });
    let reason = r#"validation error: plugin "20-a" attempted restricted OCI hook injection"#;
    assert_eq!(create(&nri).await, rejected(reason));
}

#[tokio::test(start_paused = true)]
async fn a_default_validator_that_is_not_enabled_rejects_nothing() {
    let policy = "[default_validator]\nrequired_plugins = ['nobody']";
    assert_eq!(create(&adaptation(policy, &[]).await).await, Ok(()));
}

/// The error texts are upstream's. The plugin is missing, tolerated, or present.
#[tokio::test(start_paused = true)]
async fn plugins_that_an_annotation_requires_must_be_there_or_be_tolerated() {
    let policy = "[default_validator]\nenable = true\ntolerate_missing_plugins_annotation = 'tolerate.example.org'";
    let nri = adaptation(policy, &[]).await;
    let required = ("required-plugins.noderesource.dev", "[ topology ]");
    let annotated = |annotations: &[(&str, &str)]| Pod {
        annotations: annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..pod("p")
    };
    let missing = rejected(r#"validation error: required plugin "topology" not present"#);
    assert_eq!(create_in(&nri, annotated(&[required])).await, missing);
    assert_eq!(create_in(&nri, annotated(&[required, ("tolerate.example.org", "true")])).await, Ok(()));
    let topology = FakePlugin::new("10-topology", LIFE, at_once(), &Diary::default());
    join(&nri, "10-topology", &topology).await;
    assert_eq!(create_in(&nri, annotated(&[required])).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_validator_is_shown_updates_of_others_too() {
    let diary = Diary::default();
    let events = EventMask::from_iter([Event::CreateContainer, VALIDATES]);
    let both = FakePlugin::new("10-both", events, at_once(), &diary);
    let updates = vec![Update::new("other", Resources { rdt_class: Some("gold".to_owned()), ..Resources::default() })];
    let reply = nri_proto::CreateReply { updates, ..nri_proto::CreateReply::default() };
    both.reply(Event::CreateContainer, Reply::Create(Box::new(reply)));
    let nri = adaptation("", &[("10-both", &both)]).await;
    assert_eq!(create(&nri).await, Ok(()));
    let request = both.asked();
    let proposal = request.proposal().unwrap();
    assert_eq!(proposal.updates[0].container_id, "other");
    let owners = proposal.owners.as_ref().unwrap();
    assert!(owners.owner("other", Field::RdtClass, "").unwrap().plugins().eq(["10-both"]));
    assert_eq!(both.most_at_a_time(), 1);
}

/// U33: the error names the validator that was asked.
#[tokio::test(start_paused = true)]
async fn u33_a_callers_deadline_names_the_validator_that_was_being_asked() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let quick = validator("20-quick", at_once(), &diary);
    let stuck = validator("30-stuck", Manner::Never, &diary);
    let nri = adaptation("", &[("10-a", &plugin), ("20-quick", &quick), ("30-stuck", &stuck)]).await;
    let operation = nri.begin(pod("p")).until(Instant::now() + SECOND);
    let error = chain(&operation.create_container(container("c")).await.unwrap_err());
    assert!(error.contains("30-stuck") && error.contains("the caller's deadline"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_the_default_validator_rejects_is_in_the_ledger() {
    let policy = "[default_validator]\nenable = true\nrequired_plugins = ['nobody']";
    let nri = adaptation(policy, &[]).await;
    assert!(create(&nri).await.is_err());
    let entries = nri.ledger(|ledger| ledger.of("c"));
    assert_eq!(&*entries[0].occasion.plugin, "00-default-validator");
    assert!(matches!(&entries[0].what, EntryKind::Rejected { reason } if reason.contains("nobody")), "{entries:?}");
}

#[tokio::test(start_paused = true)]
async fn what_failed_because_a_plugin_is_absent_is_in_the_ledger() {
    for axis in ["required", "validator"] {
        let nri = adaptation(&format!("[plugins.guard]\n{axis} = true"), &[]).await;
        assert!(create(&nri).await.is_err());
        let entries = nri.ledger(|ledger| ledger.of("c"));
        assert_eq!(entries.first().map(|entry| &*entry.occasion.plugin), Some("guard"), "{axis}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_validator_that_is_absent_fails_a_create_before_anyone_is_asked() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    let nri = adaptation("[plugins.guard]\nvalidator = true", &[("10-a", &plugin)]).await;
    assert!(create(&nri).await.is_err());
    assert!(diary.lines().is_empty(), "{:?}", diary.lines());
}

#[tokio::test(start_paused = true)]
async fn an_objection_is_in_the_ledger_behind_what_it_is_about() {
    let diary = Diary::default();
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &diary);
    plugin.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "2")).unwrap());
    let judge = validator("90-judge", at_once(), &diary);
    judge.reject("too large");
    let nri = adaptation("", &[("10-a", &plugin), ("90-judge", &judge)]).await;
    assert!(create(&nri).await.is_err());
    let entries = nri.ledger(|ledger| ledger.of("c"));
    assert!(matches!(&entries[0].what, EntryKind::Changed(_)) && entries[0].occasion.in_vain, "{entries:?}");
    assert!(matches!(&entries[1].what, EntryKind::Rejected { reason } if reason == "too large"), "{entries:?}");
}
