use nri_proto::Rdt;

use super::*;

/// Parses a script of `clos=x`, `schemata=x`, `monitor` and `remove`, all of them optional.
fn rdt(script: &str) -> Rdt {
    let value = |name: &str| {
        let mut words = script.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let flag = |name: &str| script.split_whitespace().any(|word| word == name);
    Rdt {
        clos_id: value("clos"),
        schemata: value("schemata").map(|line| vec![line]),
        enable_monitoring: flag("monitor").then_some(true),
        remove: flag("remove"),
        ..Rdt::default()
    }
}

fn reply(script: &str) -> CreateReply {
    adjusting_linux(|linux| linux.rdt = Some(rdt(script)))
}

fn run(original: Option<&str>, replies: &[(&'static str, &str)]) -> (CreateMerge, Result<(), String>) {
    let mut container = container();
    container.linux.get_or_insert_default().rdt = original.map(rdt);
    create(container, replies.iter().map(|&(plugin, script)| (plugin, reply(script))))
}

fn check(original: Option<&str>, replies: &[(&'static str, &str)], result: &str, shown: Option<&str>) {
    let (merge, refused) = run(original, replies);
    assert_eq!(refused, Ok(()));
    assert_eq!(merge.view().linux.as_ref().unwrap().rdt, shown.map(rdt));
    assert_eq!(merge.finish().adjustment.linux.unwrap().rdt, Some(rdt(result)));
}

#[test]
fn parts_are_set_one_by_one_and_shown() {
    check(
        None,
        &[("10-a", "clos=x"), ("20-b", "schemata=y monitor")],
        "clos=x schemata=y monitor",
        Some("clos=x schemata=y monitor"),
    );
    check(Some("clos=o schemata=o"), &[("10-a", "clos=x")], "clos=x", Some("clos=x schemata=o"));
}

#[test]
fn two_plugins_cannot_set_the_same_part() {
    let (_, refused) = run(None, &[("10-a", "clos=x"), ("20-b", "clos=x")]);
    assert_eq!(refused, Err(r#"plugins "20-b" and "10-a" both tried to set RdtClosID "#.to_owned()));
}

#[test]
fn removing_an_empty_one_shows_nothing_new() {
    check(Some(""), &[("10-a", "remove")], "remove", Some(""));
}

#[test]
fn a_removal_drops_all_parts_that_others_set() {
    check(None, &[("10-a", "clos=x monitor"), ("20-b", "remove")], "remove", None);
    check(Some("clos=o"), &[("10-a", "remove")], "remove", None);
}

#[test]
fn what_is_set_together_with_a_removal_is_what_is_left() {
    check(None, &[("10-a", "clos=x monitor"), ("20-b", "remove schemata=y")], "schemata=y", Some("schemata=y"));
}

#[test]
fn a_removal_is_forgotten_once_something_is_set() {
    check(
        Some("clos=o"),
        &[("10-a", "remove"), ("20-b", "remove schemata=y")],
        "schemata=y",
        Some("clos=o schemata=y"),
    );
}

#[test]
fn after_a_removal_all_parts_are_the_removers() {
    let (_, refused) = run(None, &[("10-a", "remove clos=x"), ("20-b", "monitor")]);
    assert_eq!(refused, Err(r#"plugins "20-b" and "10-a" both tried to set RdtEnableMonitoring "#.to_owned()));
}
