//! The graph of shim plugins: the result is an order that meets all needs, or problems that exist.

use std::collections::BTreeSet;

use shim_plugins::Uri;
use shim_plugins::graph::{Graph, Need, Node, Problem, Strength, Target};

use super::script::Script;

/// Registers plugins that the input determines.
pub fn graph(input: &[u8]) {
    let mut script = Script(input);
    let n_nodes = usize::from(script.byte() % 32);
    let disabled = uri(script.byte());
    let nodes: Vec<_> = (0..n_nodes).map(|_| node(&mut script)).collect();
    match Graph::new(nodes.clone(), |uri| *uri == disabled) {
        Ok(graph) => check_order(&graph, &disabled),
        Err(problems) => {
            assert!(!problems.0.is_empty(), "refused without a reason");
            problems.0.iter().for_each(|problem| check_problem(&nodes, problem));
        }
    }
}

fn uri(byte: u8) -> Uri {
    Uri::new(format!("k{}", byte % 6), (byte / 6 % 7).to_string())
}

fn node(script: &mut Script<'_>) -> Node {
    let uri = uri(script.byte());
    let n_needs = script.byte() % 4;
    Node { uri, provides: None, needs: (0..n_needs).map(|_| need(script)).collect() }
}

fn need(script: &mut Script<'_>) -> Need {
    let kind = script.byte();
    let target = match kind % 8 {
        0 => Target::Everything,
        1 | 2 => Target::Kind(uri(script.byte()).kind),
        _ => Target::Slot(uri(script.byte())),
    };
    let strength = [Strength::Required, Strength::Optional, Strength::Order][usize::from(kind / 8 % 3)];
    Need { target, strength, interface: None }
}

fn check_order(graph: &Graph, disabled: &Uri) {
    let mut before = BTreeSet::new();
    for &index in graph.order() {
        let Node { uri, needs, .. } = &graph.nodes()[index];
        for other in graph.uris().filter(|other| *other != uri) {
            let is_needed = needs.iter().any(|need| need.target.includes(other));
            assert!(!is_needed || before.contains(other), "{uri} comes before {other}, which it needs");
        }
        assert!(uri != disabled && before.insert(uri), "{uri} is there twice, or is disabled");
    }
    assert!(!graph.table(|index| index.to_string()).is_empty() && graph.dot().ends_with("}\n"));
}

fn check_problem(nodes: &[Node], problem: &Problem) {
    assert!(!problem.to_string().is_empty());
    let Problem::Cycle { cycle } = problem else { return };
    assert!(cycle.len() > 1 && cycle.first() == cycle.last(), "{problem}");
    for pair in cycle.windows(2) {
        let mut named = nodes.iter().filter(|node| node.uri == pair[0]);
        assert!(named.any(|node| node.needs.iter().any(|need| need.target.includes(&pair[1]))), "{problem}");
    }
}
