//! The order of plugins: depth first, as in Go's library, but without recursion.

use super::{Node, Problem, Uri};

/// Whether a plugin has its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Unseen,
    /// Something that it needs is being placed.
    Open,
    Placed,
}

/// A plugin that waits until what it needs is placed.
struct PathStep {
    node: usize,
    /// What is to be looked at next: which need, and which node for it.
    need: usize,
    candidate: usize,
}

/// Returns the enabled plugins in order, and a problem for each need that leads back to who has it.
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
    /// The next plugin that this one needs.
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

fn cycle(nodes: &[Node], path: &[PathStep], closing: usize) -> Problem {
    let uri = |step: &PathStep| nodes[step.node].uri.clone();
    let mut cycle: Vec<Uri> = path.iter().skip_while(|step| step.node != closing).map(uri).collect();
    cycle.push(nodes[closing].uri.clone());
    Problem::Cycle { cycle }
}
