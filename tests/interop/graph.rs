//! The order of shim plugins, beside that of Go's own library.

use std::io::{Seek as _, Write as _};
use std::process::Command;

use nri_tests::go;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use shim_plugins::Uri;
use shim_plugins::graph::{Graph, Need, Node, Problem, Problems, Strength, Target};

/// The number of sets of registrations that are compared, and that number with `NRI_LONG`.
const CASES: usize = 5_000;
const LONG_CASES: usize = 200_000;

/// A plugin as Go's library knows it: its requirements are kinds.
#[derive(Clone, Debug)]
struct Registration {
    kind: String,
    id: String,
    requires: Vec<String>,
    is_disabled: bool,
}

/// Generates sets of registrations with few names, so that the names often meet. Some sets have
/// only valid needs, so that many have an order.
fn registrations() -> impl Strategy<Value = Vec<Registration>> {
    let kind = |n: usize| (0..n).prop_map(|kind| format!("k{kind}"));
    let word = prop_oneof![1 => Just(String::new()), 60 => kind(6)];
    let requirement = prop_oneof![1 => Just("*".to_owned()), 30 => kind(7)];
    let one = (word, 0..5_usize, vec(requirement, 0..3), prop::bool::weighted(0.1)).prop_map(
        |(kind, id, requires, is_disabled)| Registration { kind, id: format!("p{id}"), requires, is_disabled },
    );
    vec(one, 0..8)
}

#[test]
fn g04_plugins_are_ordered_and_refused_as_go_does() -> anyhow::Result<()> {
    let Ok(program) = go::program("plugingraph") else { return Ok(()) };
    let n_cases = if std::env::var_os("NRI_LONG").is_some() { LONG_CASES } else { CASES };
    let mut runner = TestRunner::deterministic();
    let strategy = registrations();
    let mut questions = tempfile::tempfile()?;
    let mut asked = Vec::new();
    for _ in 0..n_cases {
        let set = strategy.new_tree(&mut runner).map_err(anyhow::Error::msg)?.current();
        writeln!(questions, "{}", question(&set))?;
        asked.push(set);
    }
    questions.rewind()?;
    let output = Command::new(program).stdin(questions).output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut n_ordered = 0;
    for (set, line) in asked.iter().zip(std::str::from_utf8(&output.stdout)?.lines()) {
        n_ordered += usize::from(compare(set, &serde_json::from_str(line)?));
    }
    assert!(n_ordered > n_cases / 10, "{n_ordered} of {n_cases} sets have an order at all");
    Ok(())
}

fn question(set: &[Registration]) -> Value {
    let registrations: Vec<_> =
        set.iter().map(|one| json!({ "kind": one.kind, "id": one.id, "requires": one.requires })).collect();
    let disabled: Vec<_> =
        set.iter().filter(|one| one.is_disabled).map(|one| format!("{}.{}", one.kind, one.id)).collect();
    json!({ "registrations": registrations, "disabled": disabled })
}

/// Compares both orders. Returns whether there is an order.
fn compare(set: &[Registration], go: &Value) -> bool {
    let nodes = set.iter().map(node).collect();
    let is_disabled = |uri: &Uri| set.iter().any(|one| one.is_disabled && one.kind == uri.kind && one.id == uri.id);
    let refusal = go["refusal"].as_str().unwrap();
    match Graph::new(nodes, is_disabled) {
        Ok(graph) => {
            let order: Vec<_> = graph.uris().map(Uri::to_string).collect();
            assert_eq!((json!(order), ""), (go["order"].clone(), refusal), "{set:?}");
            true
        }
        Err(Problems(problems)) => {
            assert_ne!(refusal, "", "only we refuse {set:?}: {problems:?}");
            if let Some(rest) = refusal.strip_prefix("circular plugin dependency at ") {
                let cycle = problems.iter().find_map(|problem| {
                    let Problem::Cycle { cycle } = problem else { return None };
                    cycle.first()
                });
                let closing = cycle.unwrap_or_else(|| panic!("we see no cycle in {set:?}")).to_string();
                assert!(rest.starts_with(&format!("{closing}:")), "{refusal} in Go, {closing} here: {set:?}");
            }
            false
        }
    }
}

/// Converts a registration. A requirement of Go's may be absent, so it becomes a plugin that is
/// only loaded before.
fn node(one: &Registration) -> Node {
    let need = |kind: &String| {
        let target = if kind == "*" { Target::Everything } else { Target::Kind(kind.clone()) };
        Need { target, strength: Strength::Order, interface: None }
    };
    Node { uri: Uri::new(&one.kind, &one.id), provides: None, needs: one.requires.iter().map(need).collect() }
}
