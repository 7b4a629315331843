mod allowed;
mod exemptions;
mod identity;
mod namespaces;

use std::num::NonZeroU32;
use std::time::Duration;

use super::*;

const NOTHING: Declared = Declared { fail_request: false, keep_connected: false, validates: false };
const FAIL: Declared = Declared { fail_request: true, ..NOTHING };
const KEEP: Declared = Declared { keep_connected: true, ..NOTHING };

#[test]
fn where_nobody_says_anything_the_defaults_hold() {
    let effective = Policies::default().effective(&id("10-logger"), NOTHING);
    assert_eq!(effective.policy, Policy::default());
    assert_eq!(effective, Effective::of(&[]));
    assert_eq!(
        effective.to_string(),
        "required=false, on_timeout=skip, strikes=3, keep_connected=false, declarations=honour, request_timeout=2s, \
         sync_timeout=30s, join_timeout=10s, lane_timeout=10s, catch_up_timeout=10s, first_pause=10s, \
         longest_pause=300s, concurrency=serial, validator=false, uids=any, origin=any, allow=everything, namespaces=all, mode=enforce"
    );
}

#[test]
fn index_and_name_come_before_name_and_name_before_all_on_each_axis() {
    let policies = policies(
        PolicyRules {
            strikes: strikes(7),
            keep_connected: Some(true),
            on_timeout: Some(OnTimeout::Fail),
            ..PolicyRules::default()
        },
        &[
            ("logger", PolicyRules { strikes: strikes(8), keep_connected: Some(false), ..PolicyRules::default() }),
            ("10-logger", PolicyRules { strikes: strikes(9), ..PolicyRules::default() }),
        ],
    );
    check(&policies, "10-logger", NOTHING, "strikes=9 (operator, by index and name)");
    check(&policies, "10-logger", NOTHING, "keep_connected=false (operator, by name)");
    check(&policies, "10-logger", NOTHING, "on_timeout=fail (operator, for all)");
    check(&policies, "20-logger", NOTHING, "strikes=8 (operator, by name)");
    check(&policies, "10-other", NOTHING, "strikes=7 (operator, for all)");
}

#[test]
fn a_declaration_holds_where_the_operator_says_nothing() {
    let policies = Policies::default();
    check(&policies, "10-a", FAIL, "on_timeout=fail (declared)");
    check(&policies, "10-a", FAIL, "keep_connected=false");
    check(&policies, "10-a", KEEP, "keep_connected=true (declared)");
    check(&policies, "10-a", KEEP, "on_timeout=skip");
}

#[test]
fn the_operator_overrules_a_declaration_also_for_all_plugins() {
    let skip = PolicyRules { on_timeout: Some(OnTimeout::Skip), keep_connected: Some(false), ..PolicyRules::default() };
    for key in ["a", "10-a"] {
        let policies = policies(PolicyRules::default(), &[(key, skip.clone())]);
        assert_eq!(policies.effective(&id("10-a"), FAIL).policy.on_timeout, OnTimeout::Skip);
        assert!(!policies.effective(&id("10-a"), KEEP).policy.keep_connected);
    }
    let policies = policies(skip, &[]);
    check(&policies, "10-a", FAIL, "on_timeout=skip (operator, for all)");
    check(&policies, "10-a", KEEP, "keep_connected=false (operator, for all)");
}

#[test]
fn a_bit_that_is_not_declared_takes_nothing_away() {
    let fail = PolicyRules { on_timeout: Some(OnTimeout::Fail), keep_connected: Some(true), ..PolicyRules::default() };
    let policies = policies(fail, &[]);
    check(&policies, "10-a", NOTHING, "on_timeout=fail (operator, for all)");
    check(&policies, "10-a", NOTHING, "keep_connected=true (operator, for all)");
}

#[test]
fn declarations_can_be_ignored_for_all_or_for_one() {
    let ignore = PolicyRules { declarations: Some(Declarations::Ignore), ..PolicyRules::default() };
    let honour = PolicyRules { declarations: Some(Declarations::Honour), ..PolicyRules::default() };
    let policies = policies(ignore, &[("trusted", honour)]);
    check(&policies, "10-a", FAIL, "on_timeout=skip");
    check(&policies, "10-a", KEEP, "keep_connected=false");
    check(&policies, "10-trusted", FAIL, "on_timeout=fail (declared)");
}

#[test]
fn what_is_required_never_slides_to_skip() {
    let skip = PolicyRules {
        on_timeout: Some(OnTimeout::Skip),
        declarations: Some(Declarations::Ignore),
        ..PolicyRules::default()
    };
    let required = PolicyRules { required: Some(true), ..PolicyRules::default() };
    let both = PolicyRules { required: Some(true), ..skip.clone() };
    for policies in [
        policies(PolicyRules::default(), &[("a", required.clone())]),
        policies(PolicyRules::default(), &[("10-a", required.clone())]),
        policies(skip.clone(), &[("a", required.clone())]),
        policies(skip.clone(), &[("a", required), ("10-a", skip)]),
        policies(PolicyRules::default(), &[("10-a", both.clone())]),
        policies(both, &[]),
    ] {
        for declared in [NOTHING, FAIL, KEEP] {
            check(&policies, "10-a", declared, "on_timeout=fail (required)");
        }
    }
}

#[test]
fn index_and_name_may_be_exempt_from_what_the_name_requires() {
    let required = |required| PolicyRules { required: Some(required), ..PolicyRules::default() };
    let policies = policies(PolicyRules::default(), &[("a", required(true)), ("10-a", required(false))]);
    check(&policies, "10-a", NOTHING, "required=false (operator, by index and name), on_timeout=skip");
    check(&policies, "20-a", NOTHING, "required=true (operator, by name), on_timeout=fail (required)");
}

#[test]
fn those_are_required_that_the_operator_named() {
    let required = |required| PolicyRules { required: Some(required), ..PolicyRules::default() };
    let more = PolicyRules { strikes: strikes(9), ..PolicyRules::default() };
    let policies = policies(
        required(true),
        &[("b", required(true)), ("c", required(false)), ("10-a", required(true)), ("10-b", more)],
    );
    let keys: Vec<_> = policies.required().map(PluginKey::as_str).collect();
    assert_eq!(keys, ["10-a", "b"]);
}

#[test]
fn those_are_validators_that_the_operator_named() {
    let validator = |validator| PolicyRules { validator: Some(validator), ..PolicyRules::default() };
    let policies = policies(validator(true), &[("b", validator(true)), ("c", validator(false))]);
    assert!(policies.validators().map(PluginKey::as_str).eq(["b"]));
    assert_eq!(policies.required().next(), None);
}

#[test]
fn times_and_choices_are_shown_as_they_are_written() {
    let rules = PolicyRules {
        request_timeout: Some(Duration::from_millis(500)),
        concurrency: Some(Concurrency::PerPod),
        declarations: Some(Declarations::Ignore),
        mode: Some(Mode::Shadow),
        ..PolicyRules::default()
    };
    let policies = policies(rules, &[]);
    check(&policies, "10-a", NOTHING, "mode=shadow (operator, for all)");
    check(&policies, "10-a", NOTHING, "request_timeout=500ms (operator, for all)");
    check(&policies, "10-a", NOTHING, "concurrency=per-pod (operator, for all)");
    check(&policies, "10-a", NOTHING, "declarations=ignore (operator, for all)");
}

#[test]
fn a_plugin_that_validates_is_kept_if_the_operator_needs_its_verdict() {
    let validates = Declared { validates: true, ..NOTHING };
    let validator = PolicyRules { validator: Some(true), ..PolicyRules::default() };
    let required = PolicyRules { required: Some(true), ..PolicyRules::default() };
    let closed = PolicyRules { keep_connected: Some(false), ..validator.clone() };
    let policies = policies(PolicyRules::default(), &[("v", validator), ("r", required), ("c", closed)]);
    check(&policies, "10-other", validates, "keep_connected=false");
    check(&policies, "10-other", Declared { keep_connected: true, ..validates }, "keep_connected=true (declared)");
    check(&policies, "10-v", validates, "keep_connected=true (as its verdict is needed)");
    check(&policies, "10-r", validates, "keep_connected=true (as its verdict is needed)");
    check(&policies, "10-r", NOTHING, "keep_connected=false");
    check(&policies, "10-c", validates, "keep_connected=false (operator, by name)");
}

#[test]
fn no_pause_is_shorter_than_the_first() {
    let pauses = |first, longest| PolicyRules {
        first_pause: Some(Duration::from_secs(first)),
        longest_pause: Some(Duration::from_secs(longest)),
        ..PolicyRules::default()
    };
    let policies = policies(pauses(20, 40), &[("a", pauses(60, 30)), ("b", pauses(30, 60))]);
    check(&policies, "10-a", NOTHING, "first_pause=60s (operator, by name), longest_pause=60s (operator, by name)");
    check(&policies, "10-b", NOTHING, "first_pause=30s (operator, by name), longest_pause=60s (operator, by name)");
    check(&policies, "10-c", NOTHING, "longest_pause=40s (operator, for all)");
}

#[test]
fn a_key_is_an_index_and_a_name_if_it_can_be() {
    let key = |text: &str| text.parse::<PluginKey>();
    assert_eq!(key("10-a"), Ok(id("10-a").into()));
    assert!(key("a-b").unwrap().matches(&id("10-a-b")));
    assert!(!key("10-a").unwrap().matches(&id("05-10-a")), "it is no name");
    assert!(key("05-10-a").unwrap().matches(&id("05-10-a")));
}

#[test]
fn a_key_that_matches_nobody_is_refused() {
    let error = |text: &str| text.parse::<PluginKey>().unwrap_err().to_string();
    assert_eq!(error("5-logger"), r#"the index of "5-logger" must be 2 digits"#);
    assert_eq!(error("100-logger"), r#"the index of "100-logger" must be 2 digits"#);
    assert_eq!(error("-logger"), r#"the index of "-logger" must be 2 digits"#);
    assert_eq!(error(""), "invalid plugin name: name is empty");
    assert_eq!(error("10-"), "invalid plugin name: name is empty");
    assert_eq!(error("10-a/b"), r#"invalid plugin name "a/b": contains invalid character '/'"#);
    assert_eq!(error("a/b"), r#"invalid plugin name "a/b": contains invalid character '/'"#);
}

/// Checks that a policy, displayed as one line, contains this text.
#[track_caller]
fn check(policies: &Policies, plugin: &str, declared: Declared, expected: &str) {
    let line = policies.effective(&id(plugin), declared).to_string();
    let found = format!("{line}, ").contains(&format!("{expected}, "));
    assert!(found, "{plugin}: {expected:?} is not in {line:?}");
}

fn policies(defaults: PolicyRules, plugins: &[(&str, PolicyRules)]) -> Policies {
    let plugins = plugins.iter().map(|(key, rules)| (key.parse().unwrap(), rules.clone())).collect();
    Policies { defaults, plugins, ..Policies::default() }
}

fn id(text: &str) -> PluginId {
    text.parse().unwrap()
}

fn strikes(count: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(count)
}
