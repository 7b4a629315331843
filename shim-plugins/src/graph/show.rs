//! Formats a graph for people: as a table, and as a Graphviz drawing.

use std::fmt::Write as _;

use super::{Graph, Need, Node, Strength, Target};

/// The header of the table.
const HEAD: [&str; 4] = ["TYPE", "ID", "REQUIRES", "STATUS"];

impl Graph {
    /// Formats the plugins as a table: the plugins to load in their order, then the disabled
    /// plugins.
    ///
    /// `status` returns the status of the plugin of an index.
    pub fn table(&self, status: impl Fn(usize) -> String) -> String {
        let disabled = (0..self.nodes.len()).filter(|&index| !self.enabled[index]);
        // Each requirement has a line of its own, because names are long.
        let rows_of = |index: usize| {
            let Node { uri, needs, .. } = &self.nodes[index];
            let mut needs = needs.iter().map(need);
            let first = needs.next().unwrap_or_else(|| "-".to_owned());
            let mut rows = vec![[uri.kind.clone(), uri.id.clone(), first, status(index)]];
            rows.extend(needs.map(|need| [String::new(), String::new(), need, String::new()]));
            rows
        };
        let rows: Vec<_> = self.order.iter().copied().chain(disabled).flat_map(rows_of).collect();
        aligned(&rows)
    }

    /// Formats the plugins as a Graphviz drawing.
    ///
    /// A solid arrow leads to a required plugin, a dashed arrow to an optional plugin, and a dotted
    /// arrow to a plugin that is only loaded before.
    pub fn dot(&self) -> String {
        let mut dot = String::from("digraph plugins {\n  rankdir=BT;\n  node [shape=box];\n");
        for (node, enabled) in self.nodes.iter().zip(&self.enabled) {
            let style = if *enabled { "" } else { " [style=dotted]" };
            let _ = writeln!(dot, "  {}{style};", quoted(&node.uri.to_string()));
        }
        for (node, enabled) in self.nodes.iter().zip(&self.enabled) {
            for need in node.needs.iter().filter(|_| *enabled) {
                self.arrows(&mut dot, node, need);
            }
        }
        dot.push_str("}\n");
        dot
    }

    /// Draws the arrows of one need.
    fn arrows(&self, dot: &mut String, node: &Node, need: &Need) {
        let style = match need.strength {
            Strength::Required => "",
            Strength::Optional => " [style=dashed]",
            Strength::Order => " [style=dotted]",
        };
        for (other, enabled) in self.nodes.iter().zip(&self.enabled) {
            if *enabled && other.uri != node.uri && need.target.includes(&other.uri) {
                let (from, to) = (quoted(&node.uri.to_string()), quoted(&other.uri.to_string()));
                let _ = writeln!(dot, "  {from} -> {to}{style};");
            }
        }
    }
}

/// Formats a need as one word: `?` marks an optional target, `<` a target that is only loaded
/// before.
fn need(need: &Need) -> String {
    let target = match &need.target {
        Target::Slot(uri) => uri.to_string(),
        Target::Kind(kind) => kind.clone(),
        Target::Everything => "*".to_owned(),
    };
    match need.strength {
        Strength::Required => target,
        Strength::Optional => format!("{target}?"),
        Strength::Order => format!("<{target}"),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn aligned(rows: &[[String; 4]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2].map(|column| width(column).max(HEAD[column].len()));
    let mut table = String::new();
    let head = HEAD.map(str::to_owned);
    for [kind, id, needs, status] in std::iter::once(&head).chain(rows) {
        let [kinds, ids, all_needs] = widths;
        let line = format!("{kind:kinds$}  {id:ids$}  {needs:all_needs$}  {status}");
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}
