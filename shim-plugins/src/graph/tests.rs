use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Parses a plugin: `kind.id: needs…`. `need?` is optional, `<need` is only loaded before. `@kind`
/// is a kind, `*` everything, and any other need is one plugin.
fn node(line: &str) -> Node {
    let (uri, needs) = line.split_once(": ").unwrap_or((line, ""));
    Node { uri: uri_of(uri), provides: None, needs: needs.split_whitespace().map(need).collect() }
}

fn uri_of(text: &str) -> Uri {
    let (kind, id) = text.split_once('.').unwrap_or((text, ""));
    Uri::new(kind, id)
}

fn need(word: &str) -> Need {
    let (word, strength) = match (word.strip_prefix('<'), word.strip_suffix('?')) {
        (Some(word), _) => (word, Strength::Order),
        (None, Some(word)) => (word, Strength::Optional),
        (None, None) => (word, Strength::Required),
    };
    let target = match word.strip_prefix('@') {
        Some(kind) => Target::Kind(kind.to_owned()),
        None if word == "*" => Target::Everything,
        None => Target::Slot(uri_of(word)),
    };
    Need { target, strength, interface: None }
}

fn graph(lines: &[&str], disabled: &str) -> Result<Graph, Problems> {
    Graph::new(lines.iter().map(|line| node(line)).collect(), |uri| uri.to_string() == disabled)
}

fn check_order(lines: &[&str], expected: &str) {
    let graph = graph(lines, "").unwrap();
    let order: Vec<_> = graph.uris().map(Uri::to_string).collect();
    assert_eq!(order.join(" "), expected);
}

fn check_problems(lines: &[&str], expected: &[&str]) {
    let problems = graph(lines, "off.x").unwrap_err();
    let said: Vec<_> = problems.0.iter().map(Problem::to_string).collect();
    assert_eq!(said, expected);
}

#[test]
fn what_needs_nothing_stays_in_the_order_of_registration() {
    check_order(&["b.1", "a.1", "c.1"], "b.1 a.1 c.1");
}

#[test]
fn a_plugin_comes_after_all_of_a_kind_it_needs() {
    check_order(&["task.1: @event", "event.2", "x.1", "event.1"], "event.2 event.1 task.1 x.1");
}

#[test]
fn needs_are_followed_in_the_order_in_which_they_were_written() {
    check_order(&["a.1: c.1 b.1", "b.1", "c.1"], "c.1 b.1 a.1");
}

#[test]
fn one_that_comes_after_everything_comes_last() {
    check_order(&["last.1: <*", "a.1: b.1", "b.1"], "b.1 a.1 last.1");
}

#[test]
fn a_plugin_may_need_one_of_its_own_kind() {
    check_order(&["ttrpc.task: event.publisher", "event.publisher: ttrpc.tracing", "ttrpc.tracing"], {
        "ttrpc.tracing event.publisher ttrpc.task"
    });
}

#[test]
fn what_is_optional_comes_first_if_it_is_there() {
    check_order(&["a.1: b.1? c.1?", "b.1"], "b.1 a.1");
}

#[test]
fn what_is_disabled_is_left_out() {
    let graph = graph(&["a.1: off.x?", "off.x: a.1"], "off.x").unwrap();
    assert_eq!(graph.uris().map(Uri::to_string).collect::<Vec<_>>(), ["a.1"]);
}

#[test]
fn a_cycle_is_shown_as_its_path() {
    check_problems(
        &["x.1: a.1", "a.1: b.1", "b.1: @c", "c.1: a.1"],
        &["plugins need each other: a.1 -> b.1 -> c.1 -> a.1"],
    );
}

#[test]
fn all_problems_are_said_at_once() {
    let lines = [".1", "a.", "a.1", "a.1: gone.1", "b.1: off.x @gone", "off.x", "c.1: @c", "d.1: d.1", "e.1: <* a.1"];
    check_problems(
        &lines,
        &[
            "the plugin with the id \"1\" has no kind",
            "a plugin of the kind a has no id",
            "a.1 is registered twice",
            "c.1 needs all plugins of its own kind",
            "d.1 needs itself",
            "e.1 comes after everything, so it can have no other need",
            "a.1 requires gone.1, which is not registered",
            "b.1 requires off.x, which is disabled",
            "b.1 requires a plugin of the kind gone, which is not registered",
            "c.1 requires a plugin of the kind c, which is not registered",
            "d.1 requires d.1, which is not registered",
        ],
    );
}

#[test]
fn names_that_are_written_alike_are_refused() {
    let nodes = [Uri::new("a.b", "c"), Uri::new("a", "b.c")];
    let nodes = nodes.map(|uri| Node { uri, provides: None, needs: Vec::new() });
    let problems = Graph::new(nodes.into(), |_| false).unwrap_err();
    assert_eq!(problems.0[0].to_string(), "two plugins have the written name a.b.c: their kinds are a.b and a");
}

#[test]
fn an_interface_that_is_not_provided_is_found_before_anything_begins() {
    let mut provider = node("a.1");
    provider.provides = Some(Interface::of::<u32>());
    let mut user = node("b.1: a.1");
    user.needs[0].interface = Some(Interface::of::<str>());
    let problems = Graph::new(vec![provider, user], |_| false).unwrap_err();
    assert_eq!(problems.0[0].to_string(), "b.1 expects a.1 to provide str, but it provides u32");
}

#[test]
fn a_long_chain_of_needs_takes_no_stack() {
    let nodes = (0..3_000).map(|index| node(&format!("k{index}.1: <k{}.1", index + 1))).collect();
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let order = small.spawn(move || Graph::new(nodes, |_| false).unwrap().order().len()).unwrap();
    assert_eq!(order.join().unwrap(), 3_000);
}

#[test]
fn plugins_are_shown_as_a_table_and_as_a_drawing() {
    let graph = graph(&["task.v2: event.p x.y?", "event.p", "off.x"], "off.x").unwrap();
    let table = graph.table(|index| index.to_string());
    assert_eq!(
        table,
        "TYPE   ID  REQUIRES  STATUS\n\
         event  p   -         1\n\
         task   v2  event.p   0\n\
         \x20          x.y?\n\
         off    x   -         2\n"
    );
    let dot = graph.dot();
    assert!(dot.contains("\"task.v2\" -> \"event.p\";"), "{dot}");
    assert!(dot.contains("\"off.x\" [style=dotted];"), "{dot}");
}

/// Generates one of few names, so that random needs often match a plugin.
fn any_uri() -> impl Strategy<Value = Uri> {
    (0..5_usize, 0..4_usize).prop_map(|(kind, id)| Uri::new(format!("k{kind}"), id.to_string()))
}

fn any_need() -> impl Strategy<Value = Need> {
    let target = prop_oneof![
        any_uri().prop_map(Target::Slot),
        (0..5_usize).prop_map(|kind| Target::Kind(format!("k{kind}"))),
        Just(Target::Everything),
    ];
    let strength = prop_oneof![Just(Strength::Required), Just(Strength::Optional), Just(Strength::Order)];
    (target, strength).prop_map(|(target, strength)| Need { target, strength, interface: None })
}

fn any_nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (any_uri(), vec(any_need(), 0..3)).prop_map(|(uri, needs)| Node { uri, provides: None, needs });
    vec(node, 0..12)
}

proptest! {
    #[test]
    fn g01_random_plugins_are_in_an_order_that_their_needs_allow_or_what_is_wrong_is_true(nodes in any_nodes()) {
        match Graph::new(nodes.clone(), |uri| uri.kind == "k4") {
            Ok(graph) => check_graph(&graph)?,
            Err(Problems(problems)) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    check_problem(&nodes, &problem)?;
                }
            }
        }
    }
}

fn check_graph(graph: &Graph) -> Result<(), TestCaseError> {
    let mut before = BTreeSet::new();
    for uri in graph.uris() {
        let node = graph.nodes().iter().find(|node| node.uri == *uri).unwrap();
        for need in &node.needs {
            let is_meant = |other: &&Uri| *other != uri && need.target.includes(other);
            let meant: Vec<_> = graph.uris().filter(is_meant).collect();
            prop_assert!(meant.iter().all(|other| before.contains(*other)), "{uri} comes before {meant:?}");
            prop_assert!(need.strength != Strength::Required || !meant.is_empty());
        }
        before.insert(uri.clone());
    }
    prop_assert_eq!(before.len(), graph.nodes().iter().filter(|node| node.uri.kind != "k4").count());
    Ok(())
}

fn check_problem(nodes: &[Node], problem: &Problem) -> Result<(), TestCaseError> {
    if let Problem::Cycle { cycle } = problem {
        prop_assert_eq!(cycle.first(), cycle.last());
        for pair in cycle.windows(2) {
            // Two plugins may have the same name, which is a problem of its own.
            let mut has_it = nodes.iter().filter(|node| node.uri == pair[0]);
            prop_assert!(has_it.any(|node| node.needs.iter().any(|need| need.target.includes(&pair[1]))));
        }
    }
    Ok(())
}
