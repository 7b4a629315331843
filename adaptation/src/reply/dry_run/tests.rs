use nri_proto::{Adjustment, EnvVar, Memory, Update};

use super::*;
use crate::Config;

fn id(plugin: &str) -> PluginId {
    plugin.parse().unwrap()
}

/// Returns a reply that sets an environment variable.
fn env(name: &str, value: &str) -> CreateReply {
    let mut adjustment = Adjustment::default();
    adjustment.env.set(EnvVar::new(name, value)).unwrap();
    CreateReply { adjustment: Some(adjustment), ..CreateReply::default() }
}

fn limit(container: &str) -> Update {
    let memory = Some(Memory { limit: Some(7), ..Memory::default() });
    Update::new(container, Resources { memory, ..Resources::default() })
}

/// Runs a dry run of a creation in the namespace `shop`.
fn create(config: &str, replies: &[(&str, CreateReply)]) -> DryRunResult<Container, MergedCreate> {
    let policies = Config::from_toml(config).unwrap().policies;
    let replies = replies.iter().map(|(plugin, reply)| (id(plugin), reply.clone()));
    DryRun { policies: &policies, namespace: "shop" }.create(Container::default(), replies)
}

#[test]
fn it_is_the_merge_in_the_order_of_plugins() {
    let (a, b) = (env("A", "1"), env("B", "2"));
    let tried = create("", &[("20-b", b.clone()), ("10-a", a.clone())]);

    let mut merge = CreateMerge::new(Container::default());
    let outcomes = [("10-a", a), ("20-b", b)].map(|(plugin, reply)| merge.apply(&id(plugin), reply).unwrap());
    assert!(!tried.fails());
    assert!(tried.steps.iter().map(|step| step.plugin.as_str()).eq(["10-a", "20-b"]));
    assert!(tried.steps.into_iter().map(|step| step.outcome).eq(outcomes.map(ReplyOutcome::Applied)));
    assert_eq!(tried.merged, merge.finish());
}

#[test]
fn each_plugin_sees_what_the_ones_before_it_changed() {
    let tried = create("", &[("10-a", env("A", "1")), ("20-b", env("B", "2"))]);
    assert_eq!(tried.steps[0].seen.env("A"), None);
    assert_eq!(tried.steps[1].seen.env("A"), Some("1"));
}

#[test]
fn a_plugin_on_trial_changes_nothing_and_its_conflicts_fail_nothing() {
    let shadow = "[plugins.10-a]\nmode = 'shadow'\n[plugins.30-c]\nmode = 'shadow'";
    let tried = create(shadow, &[("10-a", env("A", "1")), ("20-b", env("A", "2")), ("30-c", env("A", "3"))]);
    assert!(!tried.fails());
    assert!(matches!(&tried.steps[0].outcome, ReplyOutcome::Shadow(Ok(applied)) if applied.changes.len() == 1));
    assert_eq!(tried.steps[1].seen.env("A"), None);
    assert!(matches!(&tried.steps[2].outcome, ReplyOutcome::Shadow(Err(Refusal::Conflict(_)))));
    assert_eq!(tried.merged.adjustment.env.get("A").unwrap().value().unwrap().value, "2");
}

#[test]
fn a_reply_that_is_not_allowed_fails_the_request_and_the_rest_is_tried() {
    let tried = create("[plugins.10-a.allow]\nchanges = ['Args']", &[("10-a", env("A", "1")), ("20-b", env("A", "2"))]);
    assert!(tried.fails());
    assert!(matches!(&tried.steps[0].outcome, ReplyOutcome::Refused(Refusal::NotAllowed(_))));
    assert!(matches!(&tried.steps[1].outcome, ReplyOutcome::Applied(_)));
}

#[test]
fn a_plugin_that_does_not_see_the_pod_or_the_event_is_not_asked() {
    let config = "[plugins.10-a]\nnamespaces = ['kube-*']\n[plugins.20-b.allow]\nevents = ['StopContainer']";
    let tried = create(config, &[("10-a", env("A", "1")), ("20-b", env("A", "2")), ("30-c", env("A", "3"))]);
    assert!(!tried.fails());
    assert!(tried.steps[..2].iter().all(|step| step.outcome == ReplyOutcome::NotAsked));
    assert_eq!(tried.merged.adjustment.env.get("A").unwrap().value().unwrap().value, "3");
}

#[test]
fn updates_and_stops_can_be_tried_too() {
    let policies = Config::from_toml("[plugins.a.allow]\nchanges = ['MemLimit']").unwrap().policies;
    let run = DryRun { policies: &policies, namespace: "shop" };

    let reply = UpdateReply { updates: vec![limit("c")], ..UpdateReply::default() };
    let tried = run.update("c", Resources::default(), [(id("10-a"), reply)]);
    assert!(!tried.fails());
    assert_eq!(tried.merged.own.unwrap().resources().unwrap().memory.as_ref().unwrap().limit, Some(7));

    let reply = || StopReply { updates: vec![limit("x")], ..StopReply::default() };
    let tried = run.stop([(id("10-a"), reply()), (id("20-b"), reply())]);
    assert!(tried.fails(), "10-a may not update others");
    assert_eq!(tried.merged.updates.len(), 1);
}
