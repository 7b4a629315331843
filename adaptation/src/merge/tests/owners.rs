use nri_proto::{Owner, Owners};

use super::entries::Kind::{self, *};
use super::*;

/// Applies replies, and compares the owner of the entry `A`.
fn check(kind: Kind, replies: &[(&'static str, &str)], expected: Option<Owner>) {
    let replies = replies.iter().map(|&(plugin, script)| (plugin, kind.reply(script)));
    let owners = merged(container(), replies).owners;
    assert_eq!(owners.owner(NEW, kind.field(), "A"), expected.as_ref(), "{kind:?}");
}

#[test]
fn who_sets_owns() {
    for kind in [Annotations, Sysctl, NetDevices, Mounts, Env, Devices, Namespaces] {
        check(kind, &[("10-a", "A=1")], Some(Owner::of(&id("10-a"))));
    }
}

#[test]
fn who_replaces_owns() {
    for kind in [Annotations, Sysctl, NetDevices, Mounts, Env, Devices] {
        check(kind, &[("10-a", "A=1"), ("20-b", "!A=2")], Some(Owner::of(&id("20-b"))));
    }
}

#[test]
fn who_takes_from_another_owns_that_it_is_gone() {
    for kind in [Annotations, Sysctl, NetDevices, Mounts, Env, Devices] {
        check(kind, &[("10-a", "A=1"), ("20-b", "-A")], Some(Owner::of_removed(&id("20-b"))));
    }
}

/// U12: a validator that forbids changes of the entry also sees its removal.
#[test]
fn u12_a_removed_entry_of_a_map_is_owned() {
    for kind in [Annotations, Sysctl, NetDevices] {
        check(kind, &[("10-a", "-A")], Some(Owner::of_removed(&id("10-a"))));
    }
}

#[test]
fn a_removed_namespace_is_owned_as_one_that_is_set() {
    check(Namespaces, &[("10-a", "-A")], Some(Owner::of(&id("10-a"))));
}

#[test]
fn a_removed_entry_of_a_list_that_only_the_runtime_made_is_nobodys() {
    for kind in [Mounts, Env, Devices] {
        check(kind, &[("10-a", "-A")], None);
    }
}

#[test]
fn who_touches_nothing_owns_nothing() {
    let merged = merged(container(), [("10-a", adjusting_linux(|_| ()))]);
    assert_eq!(merged.owners, Owners::default());
}
