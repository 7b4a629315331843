//! The order of plugins: depth-first, as in Go's library, but without recursion.

use super::{Node, Problem, Uri};

/// Whether a plugin has its place in the order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Unseen,
    /// A need of the plugin is being placed.
    Open,
    Placed,
}

/// A plugin on the current path, which waits until its needs are placed.
struct PathStep {
    node: usize,
    /// The index of the need to look at next.
    need: usize,
    /// The index of the node to compare with that need next.
    candidate: usize,
}

/// Returns the enabled plugins in order, and a problem for each cycle of needs.
pub(super) fn order(nodes: &[Node], enabled: &[bool]) -> (Vec<usize>, Vec<Problem>) {
    let mut marks: Vec<_> = enabled.iter().map(|&on| if on { NodeState::Unseen } else { NodeState::Placed }).collect();
    let mut order = Vec::with_capacity(nodes.len());
    let mut cycles = Vec::new();
    for root in 0..nodes.len() {
        if marks[root] != NodeState::Unseen {
            continue;
        }
        marks[root] = NodeState::Open;
        let mut path = vec![PathStep { node: root, need: 0, candidate: 0 }];
        while let Some(step) = path.last_mut() {
            match step.next(nodes) {
                Some(found) if marks[found] == NodeState::Unseen => {
                    marks[found] = NodeState::Open;
                    path.push(PathStep { node: found, need: 0, candidate: 0 });
                }
                Some(found) if marks[found] == NodeState::Open => cycles.push(cycle(nodes, &path, found)),
                Some(_) => {}
                None => {
                    marks[step.node] = NodeState::Placed;
                    order.push(step.node);
                    path.pop();
                }
            }
        }
    }
    (order, cycles)
}

impl PathStep {
    /// Returns the next plugin that this plugin needs.
    fn next(&mut self, nodes: &[Node]) -> Option<usize> {
        let Node { uri, needs, .. } = &nodes[self.node];
        while let Some(need) = needs.get(self.need) {
            while self.candidate < nodes.len() {
                let candidate = self.candidate;
                self.candidate += 1;
                let other = &nodes[candidate].uri;
                if other != uri && need.target.includes(other) {
                    return Some(candidate);
                }
            }
            self.need += 1;
            self.candidate = 0;
        }
        None
    }
}

/// Describes the cycle that a need from the end of `path` to `closing` completes.
fn cycle(nodes: &[Node], path: &[PathStep], closing: usize) -> Problem {
    let uri = |step: &PathStep| nodes[step.node].uri.clone();
    let mut cycle: Vec<Uri> = path.iter().skip_while(|step| step.node != closing).map(uri).collect();
    cycle.push(nodes[closing].uri.clone());
    Problem::Cycle { cycle }
}
