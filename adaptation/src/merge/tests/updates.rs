use nri_proto::{Cpu, DeviceRule, Memory, Owners, Pids, StopReply, Update, UpdateReply};

use super::fields::RESOURCES;
use super::*;

/// The id of the container that is being updated.
const OWN: &str = "own";

fn update(container: &str, set: impl FnOnce(&mut Resources)) -> Update {
    let mut resources = Resources::default();
    set(&mut resources);
    Update::new(container, resources)
}

fn shares(container: &str, shares: u64) -> Update {
    update(container, |it| it.cpu = Some(Cpu { shares: Some(shares), ..Cpu::default() }))
}

fn limit(container: &str, limit: i64) -> Update {
    update(container, |it| it.memory = Some(Memory { limit: Some(limit), ..Memory::default() }))
}

fn pids(container: &str, limit: i64) -> Update {
    update(container, |it| it.pids = Some(Pids { limit, ..Pids::default() }))
}

fn may_fail(update: Update) -> Update {
    Update { ignore_failure: true, ..update }
}

/// Formats an update in a short form.
fn text(update: &Update) -> String {
    let resources = update.resources().unwrap();
    let mut text = update.container_id.clone();
    let (memory, cpu) = (resources.memory.as_ref().unwrap(), resources.cpu.as_ref().unwrap());
    memory.limit.iter().for_each(|limit| text += &format!(" limit={limit}"));
    cpu.shares.iter().for_each(|shares| text += &format!(" shares={shares}"));
    resources.pids.iter().for_each(|pids| text += &format!(" pids={}", pids.limit));
    if update.ignore_failure {
        text += " may fail";
    }
    text
}

fn update_own(
    requested: Resources,
    replies: impl IntoIterator<Item = (&'static str, Vec<Update>)>,
) -> (UpdateMerge, Result<(), String>) {
    let mut merge = UpdateMerge::new(OWN, requested);
    for (plugin, updates) in replies {
        if let Err(error) = merge.apply(&id(plugin), UpdateReply { updates, ..UpdateReply::default() }) {
            return (merge, Err(error.to_string()));
        }
    }
    (merge, Ok(()))
}

/// Applies replies to an update of the container to 100 processes, and compares the merged updates.
#[track_caller]
fn check(replies: &[(&'static str, Vec<Update>)], own: Option<&str>, others: &[&str]) {
    let (merge, refused) = update_own(pids(OWN, 100).linux.unwrap().resources.unwrap(), replies.iter().cloned());
    assert_eq!(refused, Ok(()));
    let shown = merge.view().clone();
    let merged = merge.finish();
    assert_eq!(merged.own.as_ref().map(text).as_deref(), own);
    assert_eq!(merged.others.iter().map(text).collect::<Vec<_>>(), others);
    if let Some(own) = merged.own {
        assert_eq!(own.resources(), Some(&shown), "it is not what the next plugin is shown");
    }

    // The same holds for a stop, which has no update of its own container, and for a creation.
    let mut stop = StopMerge::new();
    let mut create = CreateMerge::new(container());
    for (plugin, updates) in replies.iter().cloned() {
        stop.apply(&id(plugin), StopReply { updates: updates.clone(), ..StopReply::default() }).unwrap();
        create.apply(&id(plugin), CreateReply { updates, ..CreateReply::default() }).unwrap();
    }
    let (stop, create) = (stop.finish().updates, create.finish().updates);
    assert_eq!(stop, create);
    let is_own = |update: &&Update| update.container_id == OWN;
    assert_eq!(stop.iter().filter(|it| !is_own(it)).map(text).collect::<Vec<_>>(), others);
    assert_eq!(stop.iter().any(|it| is_own(&it)), own.is_some());
}

#[track_caller]
fn check_conflict(replies: &[(&'static str, Vec<Update>)], expected: &str) {
    let (_, refused) = update_own(Resources::default(), replies.iter().cloned());
    assert_eq!(refused, Err(expected.to_owned()));
}

/// U16: Go returns a list with an empty entry.
#[test]
fn u16_without_an_answer_there_is_no_update() {
    check(&[], None, &[]);
    check(&[("10-a", vec![])], None, &[]);
}

#[test]
fn an_update_of_the_container_itself_is_on_top_of_what_was_asked_for() {
    check(&[("10-a", vec![shares(OWN, 5)])], Some("own shares=5 pids=100"), &[]);
    check(&[("10-a", vec![pids(OWN, 7)])], Some("own pids=7"), &[]);
}

#[test]
fn an_update_that_sets_nothing_does_not_unset_what_was_asked_for() {
    let nothing = Update { container_id: OWN.to_owned(), ..Update::default() };
    check(&[("10-a", vec![nothing])], Some("own pids=100"), &[]);
}

#[test]
fn an_update_of_another_container_has_only_what_plugins_set() {
    check(&[("10-a", vec![pids("x", 7)])], None, &["x pids=7"]);
    check(&[("10-a", vec![Update { container_id: "x".to_owned(), ..Update::default() }])], None, &["x"]);
}

#[test]
fn updates_of_one_container_are_one_in_the_order_of_first_mention() {
    check(
        &[("10-a", vec![shares("y", 1), shares("x", 2)]), ("20-b", vec![limit("x", 3), limit(OWN, 4)])],
        Some("own limit=4 pids=100"),
        &["y shares=1", "x limit=3 shares=2"],
    );
}

#[test]
fn two_plugins_cannot_set_the_same_in_one_container() {
    for (field, key, set) in RESOURCES {
        for container in [OWN, "x"] {
            check_conflict(
                &[("10-a", vec![update(container, set)]), ("20-b", vec![update(container, set)])],
                &format!(r#"plugins "20-b" and "10-a" both tried to set {field} {key}"#),
            );
        }
    }
}

#[test]
fn the_same_in_two_containers_is_no_conflict() {
    check(
        &[("10-a", vec![shares(OWN, 1), shares("x", 2)]), ("20-b", vec![shares("y", 3)])],
        Some("own shares=1 pids=100"),
        &["x shares=2", "y shares=3"],
    );
}

#[test]
fn each_field_of_an_update_is_claimed_and_shown() {
    for (field, key, set) in RESOURCES {
        let (merge, _) = update_own(Resources::default(), [("10-a", vec![update(OWN, set)])]);
        let mut expected = resources::nothing_set();
        set(&mut expected);
        assert_eq!(merge.view(), &expected, "{field}");
        assert!(merge.finish().owners.owner(OWN, field, key).is_some(), "{field}");
    }
}

/// U15: Go ignores the plugin's limit, and reports a conflict between plugins that did not set the
/// field.
#[test]
fn u15_a_limit_of_processes_is_whose_set_it() {
    check(
        &[("10-a", vec![shares(OWN, 1)]), ("20-b", vec![limit(OWN, 2)]), ("30-c", vec![pids(OWN, 7)])],
        Some("own limit=2 shares=1 pids=7"),
        &[],
    );
}

#[test]
fn the_whole_may_fail_only_if_each_plugin_says_so() {
    check(&[("10-a", vec![may_fail(shares("x", 1))])], None, &["x shares=1 may fail"]);
    check(&[("10-a", vec![may_fail(shares("x", 1))]), ("20-b", vec![limit("x", 2)])], None, &["x limit=2 shares=1"]);
    check(
        &[("10-a", vec![may_fail(shares(OWN, 1))]), ("20-b", vec![may_fail(limit(OWN, 2))])],
        Some("own limit=2 shares=1 pids=100 may fail"),
        &[],
    );
}

#[test]
fn an_update_that_may_fail_and_is_in_conflict_leaves_nothing_behind() {
    let both = |container| {
        may_fail(update(container, |it| {
            it.memory = Some(Memory { limit: Some(2), ..Memory::default() });
            it.cpu = Some(Cpu { shares: Some(2), ..Cpu::default() });
        }))
    };
    let replies = [
        ("10-a", vec![shares("x", 1), shares(OWN, 1)]),
        ("20-b", vec![both("x"), both(OWN), limit("y", 3)]),
        ("30-c", vec![limit("x", 4), limit(OWN, 4)]),
    ];
    check(&replies, Some("own limit=4 shares=1 pids=100"), &["x limit=4 shares=1", "y limit=3"]);

    let mut merge = StopMerge::new();
    let reply = |updates| StopReply { updates, ..StopReply::default() };
    merge.apply(&id("10-a"), reply(vec![shares("x", 1)])).unwrap();
    let applied = merge.apply(&id("20-b"), reply(vec![both("x")])).unwrap();
    assert!(applied.changes.is_empty());
    let [Dropped::Update(conflict)] = &applied.dropped[..] else { panic!("{applied:?}") };
    assert_eq!((&*conflict.container, conflict.field), ("x", Field::CPUShares));
}

#[test]
fn an_update_that_may_fail_and_is_in_conflict_makes_no_entry() {
    let mut merge = StopMerge::new();
    let updates = vec![shares("x", 1), may_fail(shares("x", 2))];
    merge.apply(&id("10-a"), StopReply { updates, ..StopReply::default() }).unwrap();
    let before = merge.clone();
    merge.apply(&id("20-b"), StopReply { updates: vec![may_fail(shares("x", 2))], ..StopReply::default() }).unwrap();
    assert_eq!(merge, before);
    assert_eq!(text(&merge.finish().updates[0]), "x shares=1");
}

#[test]
fn the_container_that_is_created_cannot_be_updated_also_if_that_may_fail() {
    for update in [shares(NEW, 1), may_fail(shares(NEW, 1))] {
        let reply = CreateReply { updates: vec![update], ..CreateReply::default() };
        let (_, refused) = create(container(), [("10-a", reply)]);
        assert_eq!(refused, Err(r#"plugin "10-a" asked update of "new" during creation"#.to_owned()));
    }
}

#[test]
fn a_container_that_is_created_and_one_that_is_updated_do_not_meet() {
    let reply = |plugin: &str| CreateReply {
        updates: vec![if plugin == "10-a" { shares("x", 1) } else { limit("x", 2) }],
        ..adjusting_resources(|it| {
            let cpu = it.cpu.get_or_insert_default();
            *(if plugin == "10-a" { &mut cpu.period } else { &mut cpu.shares }) = Some(1);
        })
    };
    let merged = merged(container(), [("10-a", reply("10-a")), ("20-b", reply("20-b"))]);
    let owner = |container, field| merged.owners.owner(container, field, "").unwrap().plugins().collect::<String>();
    assert_eq!((owner("x", Field::CPUShares), owner(NEW, Field::CPUShares)), ("10-a".to_owned(), "20-b".to_owned()));
}

#[test]
fn rules_for_devices_in_an_update_are_dropped_and_reported() {
    let rules = update(OWN, |it| it.devices = vec![DeviceRule::default()]);
    let mut merge = UpdateMerge::new(OWN, Resources::default());
    let applied = merge.apply(&id("10-a"), UpdateReply { updates: vec![rules], ..UpdateReply::default() }).unwrap();
    assert_eq!(applied.dropped, [Dropped::DeviceRules { container: OWN.to_owned() }]);
    assert!(merge.view().devices.is_empty());
    assert_eq!(merge.finish().owners, Owners::default());
}
