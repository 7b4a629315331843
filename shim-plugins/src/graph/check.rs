//! Checks a set of plugins: names, needs and types. Cycles are found by `order`.

use std::collections::BTreeMap;

use super::{Absence, Need, Node, Problem, Strength, Target};

/// Returns all problems except cycles.
pub(super) fn problems(nodes: &[Node], enabled: &[bool]) -> Vec<Problem> {
    let mut problems = names(nodes);
    problems.extend(nodes.iter().flat_map(own_needs));
    for (node, _) in enabled_nodes(nodes, enabled) {
        for need in &node.needs {
            problems.extend(missing(node, need, nodes, enabled));
            problems.extend(mismatches(node, need, nodes, enabled));
        }
    }
    problems
}

fn enabled_nodes<'a>(nodes: &'a [Node], enabled: &'a [bool]) -> impl Iterator<Item = (&'a Node, &'a bool)> {
    nodes.iter().zip(enabled).filter(|(_, enabled)| **enabled)
}

/// Returns problems with names. Disabled plugins are checked too, because disabling refers to
/// names.
fn names(nodes: &[Node]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut written = BTreeMap::new();
    for Node { uri, .. } in nodes {
        if uri.kind.is_empty() {
            problems.push(Problem::NoKind { id: uri.id.clone() });
        }
        if uri.id.is_empty() {
            problems.push(Problem::NoId { kind: uri.kind.clone() });
        }
        match written.insert(uri.to_string(), uri) {
            Some(before) if before == uri => problems.push(Problem::Duplicate { uri: uri.clone() }),
            Some(before) => problems.push(Problem::Ambiguous { uri: before.clone(), other: uri.clone() }),
            None => {}
        }
    }
    problems
}

/// Returns the needs of a plugin that no other plugin can meet.
fn own_needs(node: &Node) -> Vec<Problem> {
    let plugin = || node.uri.clone();
    let mut problems = Vec::new();
    if node.needs.len() > 1 && node.needs.iter().any(|need| need.target == Target::Everything) {
        problems.push(Problem::NeedsMoreThanEverything { plugin: plugin() });
    }
    for need in &node.needs {
        match &need.target {
            Target::Kind(kind) if *kind == node.uri.kind => problems.push(Problem::NeedsOwnKind { plugin: plugin() }),
            Target::Slot(uri) if *uri == node.uri => problems.push(Problem::NeedsItself { plugin: plugin() }),
            Target::Kind(_) | Target::Slot(_) | Target::Everything => {}
        }
    }
    problems
}

/// Returns a problem if no enabled plugin meets a required need.
fn missing(node: &Node, need: &Need, nodes: &[Node], enabled: &[bool]) -> Option<Problem> {
    let is_other = |other: &Node| other.uri != node.uri && need.target.includes(&other.uri);
    let is_met = enabled_nodes(nodes, enabled).any(|(other, _)| is_other(other));
    if need.strength != Strength::Required || is_met {
        return None;
    }
    let is_known = nodes.iter().any(is_other);
    let absence = if is_known { Absence::Disabled } else { Absence::Unknown };
    Some(Problem::Missing { plugin: node.uri.clone(), target: need.target.clone(), absence })
}

/// Returns a problem for each plugin that provides another type than a need expects.
fn mismatches(node: &Node, need: &Need, nodes: &[Node], enabled: &[bool]) -> Vec<Problem> {
    let Some(expected) = need.interface else { return Vec::new() };
    enabled_nodes(nodes, enabled)
        .filter(|(other, _)| need.target.includes(&other.uri))
        .filter_map(|(other, _)| {
            let provided = other.provides.filter(|provided| *provided != expected)?;
            Some(Problem::Mismatch {
                plugin: node.uri.clone(),
                provider: other.uri.clone(),
                expected: expected.name(),
                provided: provided.name(),
            })
        })
        .collect()
}
