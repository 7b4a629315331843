//! Fields whose entries have keys.
//!
//! A script describes what a plugin does: `A=1` sets, `!A=1` replaces, `-A` removes. The expected
//! result is written as a script too.

use nri_proto::{Change, ChangeList, ChangeMap, Device, EnvVar, Keyed, Mount, Namespace, NetDevice, api};

use super::*;

/// A field whose entries have keys, in an adjustment and in a container.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Annotations,
    Sysctl,
    NetDevices,
    Mounts,
    Env,
    Devices,
    Namespaces,
}

use Kind::*;

const MAPS: [Kind; 3] = [Annotations, Sysctl, NetDevices];
const LISTS: [Kind; 3] = [Mounts, Env, Devices];

impl Kind {
    pub(super) fn field(self) -> Field {
        match self {
            Annotations => Field::Annotations,
            Sysctl => Field::Sysctl,
            NetDevices => Field::LinuxNetDevices,
            Mounts => Field::Mounts,
            Env => Field::Env,
            Devices => Field::Devices,
            Namespaces => Field::Namespace,
        }
    }

    pub(super) fn reply(self, script: &str) -> CreateReply {
        let linux = |adjust: &dyn Fn(&mut LinuxAdjustment)| adjusting_linux(|linux| adjust(linux));
        match self {
            Annotations => adjusting(|adjustment| adjustment.annotations = map(script, str::to_owned)),
            Mounts => adjusting(|adjustment| adjustment.mounts = list(script, mount)),
            Env => adjusting(|adjustment| adjustment.env = list(script, EnvVar::new)),
            Sysctl => linux(&|linux| linux.sysctl = map(script, str::to_owned)),
            NetDevices => linux(&|linux| linux.net_devices = map(script, net_device)),
            Devices => linux(&|linux| linux.devices = list(script, device)),
            Namespaces => linux(&|linux| linux.namespaces = list(script, namespace)),
        }
    }

    fn container(self, script: &str) -> Container {
        let mut container = container();
        let linux = container.linux.get_or_insert_default();
        let entries = || script.split_whitespace().map(|entry| entry.split_once('=').unwrap());
        let named = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        match self {
            Annotations => container.annotations = entries().map(named).collect(),
            Sysctl => linux.sysctl = entries().map(named).collect(),
            NetDevices => {
                linux.net_devices = entries().map(|(key, value)| (key.to_owned(), net_device(value))).collect()
            }
            Mounts => container.mounts = entries().map(|(key, value)| mount(key, value)).collect(),
            Env => container.env = script.split_whitespace().map(str::to_owned).collect(),
            Devices => linux.devices = entries().map(|(key, value)| device(key, value)).collect(),
            Namespaces => linux.namespaces = entries().map(|(key, value)| namespace(key, value)).collect(),
        }
        container
    }

    fn shown(self, container: &Container) -> String {
        let linux = container.linux.as_ref().unwrap();
        let entries: Vec<String> = match self {
            Annotations => container.annotations.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            Sysctl => linux.sysctl.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            NetDevices => linux.net_devices.iter().map(|(key, value)| format!("{key}={}", value.name)).collect(),
            Mounts => container.mounts.iter().map(|mount| format!("{}={}", mount.destination, mount.source)).collect(),
            Env => container.env.clone(),
            Devices => linux.devices.iter().map(|device| format!("{}={}", device.path, device.major)).collect(),
            Namespaces => linux.namespaces.iter().map(|ns| format!("{}={}", ns.kind, ns.path)).collect(),
        };
        entries.join(" ")
    }

    fn written(self, adjustment: &Adjustment) -> String {
        let linux = adjustment.linux.as_ref().unwrap();
        match self {
            Annotations => script(adjustment.annotations.iter(), Clone::clone),
            Sysctl => script(linux.sysctl.iter(), Clone::clone),
            NetDevices => script(linux.net_devices.iter(), |device| device.name.clone()),
            Mounts => script(adjustment.mounts.iter(), |mount| mount.source.clone()),
            Env => script(adjustment.env.iter(), |variable| variable.value.clone()),
            Devices => script(linux.devices.iter(), |device| device.major.to_string()),
            Namespaces => script(linux.namespaces.iter(), |namespace| namespace.path.clone()),
        }
    }
}

fn map<T>(script: &str, value: fn(&str) -> T) -> ChangeMap<T> {
    let mut changes = ChangeMap::new();
    for change in script.split_whitespace() {
        match change.split_once('=') {
            None => changes.remove(&change[1..]),
            Some((key, text)) => match key.strip_prefix('!') {
                Some(key) => changes.replace(key, value(text)).unwrap(),
                None => changes.set(key, value(text)).unwrap(),
            },
        }
    }
    changes
}

fn list<T: Keyed>(script: &str, value: impl Fn(&'static str, &'static str) -> T) -> ChangeList<T> {
    let mut changes = ChangeList::new();
    for change in String::leak(script.to_owned()).split_whitespace() {
        match change.split_once('=') {
            None => changes.remove(&change[1..]),
            Some((key, text)) => match key.strip_prefix('!') {
                Some(key) => changes.replace(value(key, text)).unwrap(),
                None => changes.set(value(key, text)).unwrap(),
            },
        }
    }
    changes
}

fn script<'a, T: 'a>(changes: impl Iterator<Item = (&'a str, Change<&'a T>)>, value: fn(&T) -> String) -> String {
    let changes = changes.map(|(key, change)| match change {
        Change::Set(to) => format!("{key}={}", value(to)),
        Change::Replace(to) => format!("!{key}={}", value(to)),
        Change::Remove => format!("-{key}"),
    });
    changes.collect::<Vec<_>>().join(" ")
}

fn mount(destination: &str, source: &str) -> Mount {
    Mount { destination: destination.to_owned(), source: source.to_owned(), ..Mount::default() }
}

fn device(path: &str, major: &str) -> Device {
    Device { path: path.to_owned(), major: major.parse().unwrap(), ..Device::default() }
}

fn namespace(kind: &str, path: &str) -> Namespace {
    Namespace { kind: kind.to_owned(), path: path.to_owned(), ..Namespace::default() }
}

fn net_device(name: &str) -> NetDevice {
    NetDevice { name: name.to_owned(), ..NetDevice::default() }
}

/// Applies replies to a container that has `original`. Compares the result, and the container that
/// the next plugin is shown.
#[track_caller]
fn check(kinds: &[Kind], original: &str, replies: &[(&'static str, &str)], result: &str, shown: &str) {
    for &kind in kinds {
        let replies = replies.iter().map(|&(plugin, script)| (plugin, kind.reply(script)));
        let (merge, refused) = create(kind.container(original), replies);
        assert_eq!(refused, Ok(()), "{kind:?}");
        assert_eq!(kind.shown(merge.view()), shown, "{kind:?} shown");
        assert_eq!(kind.written(&merge.finish().adjustment), result, "{kind:?} in the result");
    }
}

/// Checks that the last reply is refused.
#[track_caller]
fn check_conflict(kinds: &[Kind], original: &str, replies: &[(&'static str, &str)], others: [&str; 2], key: &str) {
    for &kind in kinds {
        let replies = replies.iter().map(|&(plugin, script)| (plugin, kind.reply(script)));
        let (_, refused) = create(kind.container(original), replies);
        let [claimer, owner] = others;
        let expected = format!("plugins {claimer:?} and {owner:?} both tried to set {} {key}", kind.field());
        assert_eq!(refused, Err(expected), "{kind:?}");
    }
}

#[test]
fn what_one_plugin_sets_is_shown_to_the_next() {
    check(&MAPS, "A=0", &[("10-a", "A=1 B=2")], "A=1 B=2", "A=1 B=2");
    check(&LISTS, "A=0 C=3", &[("10-a", "A=1 B=2")], "A=1 B=2", "C=3 A=1 B=2");
    check(&[Namespaces], "A=0 C=3", &[("10-a", "A=1 B=2")], "A=1 B=2", "C=3 A=1 B=2");
}

#[test]
fn plugins_that_set_different_things_do_not_meet() {
    check(&MAPS, "", &[("10-a", "B=1"), ("20-b", "A=2")], "A=2 B=1", "A=2 B=1");
    check(&LISTS, "", &[("10-a", "B=1"), ("20-b", "A=2")], "B=1 A=2", "B=1 A=2");
    check(&[Namespaces], "", &[("10-a", "B=1"), ("20-b", "A=2")], "B=1 A=2", "B=1 A=2");
}

#[test]
fn two_plugins_cannot_set_the_same_thing() {
    let replies = [("10-a", "A=1"), ("20-b", "A=1")];
    check_conflict(&MAPS, "", &replies, ["20-b", "10-a"], "A");
    check_conflict(&LISTS, "", &replies, ["20-b", "10-a"], "A");
    check_conflict(&[Namespaces], "", &replies, ["20-b", "10-a"], "A");
}

#[test]
fn a_plugin_that_sets_a_thing_twice_is_in_its_own_way() {
    check_conflict(&LISTS, "", &[("10-a", "A=1 A=2")], ["10-a", "10-a"], "A");
    check_conflict(&LISTS, "", &[("10-a", "!A=1 A=2")], ["10-a", "10-a"], "A");
    check_conflict(&[Namespaces], "", &[("10-a", "A=1 A=2")], ["10-a", "10-a"], "A");
}

#[test]
fn a_later_plugin_may_replace_what_an_earlier_one_set() {
    let replies = [("10-a", "A=1 B=1"), ("20-b", "!A=2")];
    check(&MAPS, "", &replies, "!A=2 B=1", "A=2 B=1");
    check(&LISTS, "", &replies, "B=1 A=2", "B=1 A=2");
}

#[test]
fn after_a_replacement_the_thing_is_the_later_plugins() {
    let replies = [("10-a", "A=1"), ("20-b", "!A=2"), ("30-c", "A=3")];
    check_conflict(&MAPS, "", &replies, ["30-c", "20-b"], "A");
    check_conflict(&LISTS, "", &replies, ["30-c", "20-b"], "A");
}

#[test]
fn a_replacement_may_be_replaced() {
    let replies = [("10-a", "A=1"), ("20-b", "!A=2"), ("30-c", "!A=3")];
    check(&MAPS, "", &replies, "!A=3", "A=3");
    check(&LISTS, "", &replies, "A=3", "A=3");
}

/// U14: Go loses removals of devices and variables, and still shows entries that were removed from
/// a map.
#[test]
fn u14_a_removal_reaches_the_result_and_the_next_plugin() {
    check(&MAPS, "A=0 B=0", &[("10-a", "-A")], "-A", "B=0");
    check(&LISTS, "A=0 B=0", &[("10-a", "-A")], "-A", "B=0");
    check(&[Namespaces], "A=0 B=0", &[("10-a", "-A")], "-A", "B=0");
}

/// U13: Go keeps both changes in a map, and which of them wins is random.
#[test]
fn u13_a_removal_drops_what_an_earlier_plugin_set() {
    check(&MAPS, "", &[("10-a", "A=1 B=1"), ("20-b", "-A")], "-A B=1", "B=1");
    check(&LISTS, "", &[("10-a", "A=1 B=1"), ("20-b", "-A")], "B=1 -A", "B=1");
}

#[test]
fn what_a_plugin_took_from_another_is_its_own_to_set() {
    let replies = [("10-a", "A=1"), ("20-b", "-A"), ("30-c", "A=3")];
    check_conflict(&MAPS, "", &replies, ["30-c", "20-b"], "A");
    check_conflict(&LISTS, "", &replies, ["30-c", "20-b"], "A");
}

#[test]
fn a_removed_entry_of_a_map_is_the_removers_also_if_nobody_had_set_it() {
    check_conflict(&MAPS, "A=0", &[("10-a", "-A"), ("20-b", "A=2")], ["20-b", "10-a"], "A");
    check(&MAPS, "A=0", &[("10-a", "-A"), ("20-b", "!A=2")], "!A=2", "A=2");
}

#[test]
fn a_removed_entry_of_a_list_is_nobodys_if_nobody_had_set_it() {
    check(&LISTS, "A=0", &[("10-a", "-A"), ("20-b", "A=2")], "!A=2", "A=2");
    check(&LISTS, "A=0", &[("10-a", "-A"), ("20-b", "!A=2")], "!A=2", "A=2");
}

#[test]
fn what_was_taken_from_another_in_a_list_cannot_be_taken_again() {
    let replies = [("10-a", "A=1"), ("20-b", "-A"), ("30-c", "!A=3")];
    check(&MAPS, "", &replies, "!A=3", "A=3");
    check_conflict(&LISTS, "", &replies, ["30-c", "20-b"], "A");
}

/// Also if one reply removes the key twice, which the model types cannot express but the wire
/// format can.
#[test]
fn a_removal_that_a_plugin_asks_for_twice_is_one() {
    let marked = || api::KeyValue { key: "-A".to_owned(), ..Default::default() };
    let adjust = api::ContainerAdjustment { env: vec![marked(), marked()], ..Default::default() };
    let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
    let merged = merged(container(), [("10-a", Env.reply("-A")), ("20-b", reply.into())]);
    assert_eq!(merged.adjustment.env.len(), 1);
}

/// In Go, one replaces the other.
#[test]
fn the_removal_of_a_key_with_a_dash_is_not_that_of_the_key_without() {
    check(&LISTS, "A=0", &[("10-a", "-A"), ("20-b", "--A")], "-A --A", "");
}

#[test]
fn a_removal_that_several_plugins_ask_for_is_one() {
    check(&MAPS, "A=0", &[("10-a", "-A"), ("20-b", "-A")], "-A", "");
    check(&LISTS, "A=0", &[("10-a", "-A"), ("20-b", "-A")], "-A", "");
}

#[test]
fn two_namespaces_of_one_kind_stay_until_a_plugin_touches_them() {
    check(&[Namespaces], "A=0 A=1", &[("10-a", "B=2")], "B=2", "A=0 A=1 B=2");
    check(&[Namespaces], "A=0 A=1 B=2", &[("10-a", "A=3")], "A=3", "B=2 A=3");
    check(&[Namespaces], "A=0 A=1 B=2", &[("10-a", "-A")], "-A", "B=2");
}

#[test]
fn a_namespace_can_be_touched_once() {
    check_conflict(&[Namespaces], "A=0", &[("10-a", "!A=1")], ["10-a", "10-a"], "A");
    check_conflict(&[Namespaces], "A=0", &[("10-a", "-A"), ("20-b", "-A")], ["20-b", "10-a"], "A");
    check_conflict(&[Namespaces], "A=0", &[("10-a", "A=1"), ("20-b", "!A=2")], ["20-b", "10-a"], "A");
}

#[test]
fn of_several_conflicts_the_first_is_told() {
    check_conflict(&MAPS, "", &[("10-a", "A=1 B=1"), ("20-b", "B=2 A=2")], ["20-b", "10-a"], "A");
    check_conflict(&LISTS, "", &[("10-a", "A=1 B=1"), ("20-b", "B=2 A=2")], ["20-b", "10-a"], "B");
}

#[test]
fn all_variables_of_a_name_go_also_one_without_a_value() {
    let mut container = container();
    container.env = ["A=1", "A", "B=2", "A="].map(str::to_owned).to_vec();
    let (merge, _) = create(container, [("10-a", Env.reply("-A"))]);
    assert_eq!(Env.shown(merge.view()), "B=2");
}

#[test]
fn an_entry_may_have_an_empty_key() {
    check(&MAPS, "=0", &[("10-a", "!=1")], "!=1", "=1");
    check(&LISTS, "=0", &[("10-a", "!=1")], "=1", "=1");
}
