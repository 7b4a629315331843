//! A reply is applied as a whole, or not at all.

use nri_proto::{Eviction, Update};

use super::entries::Kind::*;
use super::*;

/// Applies a reply with every kind of change, of which the last conflicts with `10-a`.
fn check(last: impl FnOnce(&mut CreateReply)) {
    let mut reply = Env.reply("NEW=1 -PATH");
    let adjustment = reply.adjustment.get_or_insert_default();
    adjustment.annotations = Annotations.reply("!A=2").adjustment.unwrap().annotations;
    adjustment.mounts = Mounts.reply("-M").adjustment.unwrap().mounts;
    reply.evictions = vec![Eviction::default()];
    reply.updates = vec![Update::new("x", Resources::default()), Update::new("y", Resources::default())];
    last(&mut reply);

    let mut original = container();
    original.env = vec!["PATH=/bin".to_owned()];
    let first = {
        let mut first = Annotations.reply("A=1");
        let adjustment = first.adjustment.get_or_insert_default();
        adjustment.mounts = Mounts.reply("M=1").adjustment.unwrap().mounts;
        adjustment.args = nri_proto::Args::set(["x"]).unwrap();
        adjustment.linux = Sysctl.reply("S=1").adjustment.unwrap().linux;
        first.updates = vec![Update::new("z", pids(1))];
        first
    };
    let (mut merge, _) = create(original, [("10-a", first)]);
    let before = merge.clone();
    let refused = merge.apply(&id("20-b"), reply);
    assert!(refused.is_err());
    assert_eq!(merge, before);
}

fn pids(limit: i64) -> Resources {
    Resources { pids: Some(nri_proto::Pids { limit, ..nri_proto::Pids::default() }), ..Resources::default() }
}

#[test]
fn a_conflict_leaves_nothing_of_the_reply_behind() {
    check(|reply| reply.adjustment.get_or_insert_default().args = nri_proto::Args::set(["y"]).unwrap());
    check(|reply| reply.adjustment.get_or_insert_default().linux = Sysctl.reply("S=2").adjustment.unwrap().linux);
}

#[test]
fn a_conflict_in_an_update_leaves_nothing_of_the_reply_behind() {
    check(|reply| reply.updates.push(Update::new("z", pids(2))));
}

#[test]
fn an_update_of_the_container_itself_leaves_nothing_of_the_reply_behind() {
    check(|reply| reply.updates.push(Update::new(NEW, pids(2))));
}

#[test]
fn after_a_refused_reply_others_are_applied_as_if_it_had_not_been() {
    let replies = [("10-a", Env.reply("A=1")), ("30-c", Env.reply("B=3"))];
    let expected = merged(container(), replies.clone());

    let [first, last] = replies;
    let (mut merge, _) = create(container(), [first]);
    assert!(merge.apply(&id("20-b"), Env.reply("B=2 A=2")).is_err());
    assert!(merge.apply(&id(last.0), last.1).is_ok());
    assert_eq!(merge.finish(), expected);
}

#[test]
fn a_conflict_repeats_no_more_of_a_name_than_anyone_reads() {
    let long = "é".repeat(1 << 20);
    let set = |value: &str| {
        let mut reply = CreateReply::default();
        reply.adjustment.get_or_insert_default().annotations.set(&*long, value).unwrap();
        reply
    };
    let (mut merge, _) = create(container(), [("10-a", set("1"))]);
    let told = merge.apply(&id("20-b"), set("2")).unwrap_err().to_string();
    assert!(told.contains("both tried to set Annotations éé") && told.len() < 5000, "{} bytes", told.len());
    let update = |limit| CreateReply { updates: vec![Update::new(&*long, pids(limit))], ..CreateReply::default() };
    let (mut merge, _) = create(container(), [("10-a", update(1))]);
    let MergeError::Conflict(conflict) = merge.apply(&id("20-b"), update(2)).unwrap_err() else {
        panic!("no conflict")
    };
    assert!(conflict.container.len() < 5000);
}
