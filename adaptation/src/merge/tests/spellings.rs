use nri_proto::{Change, Device, LinuxContainer, Mount};

use super::*;

fn mount(destination: &str, source: &str) -> Mount {
    Mount { destination: destination.to_owned(), source: source.to_owned(), ..Mount::default() }
}

fn device(path: &str) -> Device {
    Device { path: path.to_owned(), ..Device::default() }
}

/// Returns a container with keys in spellings that are not canonical.
fn odd_container() -> Container {
    let linux = LinuxContainer {
        devices: vec![device("/dev//old")],
        sysctl: [("net/ipv4/old".to_owned(), "1".to_owned())].into(),
        ..LinuxContainer::default()
    };
    let mounts = vec![mount("/data/", "runtime"), mount("/both", "runtime"), mount("/both/", "runtime")];
    Container { id: "own".to_owned(), mounts, linux: Some(linux), ..Container::default() }
}

fn mounting(destination: &str) -> CreateReply {
    adjusting(|it| it.mounts.set(mount(destination, destination)).unwrap())
}

fn with_device(path: &str) -> CreateReply {
    adjusting_linux(|linux| linux.devices.set(device(path)).unwrap())
}

fn with_sysctl(name: &str) -> CreateReply {
    adjusting_linux(|linux| linux.sysctl.set(name, "1").unwrap())
}

/// Checks that the second plugin conflicts with the first one, although their spellings differ.
#[track_caller]
fn check_one_owner(first: CreateReply, second: CreateReply, told: &str) {
    for container in [Container::default(), odd_container()] {
        let mut merge = CreateMerge::new(container);
        merge.apply(&id("10-a"), first.clone()).unwrap();
        let before = merge.clone();
        let error = merge.apply(&id("20-b"), second.clone()).unwrap_err();
        assert_eq!(error.to_string(), format!(r#"plugins "20-b" and "10-a" both tried to set {told}"#));
        assert_eq!(merge, before);
    }
}

#[test]
fn two_plugins_cannot_own_one_thing_under_two_spellings() {
    for spelling in ["/etc//x", "/etc/./x", "/etc/x/", "/a/../etc/x"] {
        check_one_owner(mounting("/etc/x"), mounting(spelling), "Mounts /etc/x");
        check_one_owner(mounting(spelling), mounting("/etc/x"), "Mounts /etc/x");
        check_one_owner(with_device("/etc/x"), with_device(spelling), "Devices /etc/x");
    }
    for spelling in ["net/ipv4/a", "net.ipv4/a", "net..ipv4.a", "/net/ipv4/a"] {
        check_one_owner(with_sysctl("net.ipv4.a"), with_sysctl(spelling), "Sysctl net.ipv4.a");
        check_one_owner(with_sysctl(spelling), with_sysctl("net.ipv4.a"), "Sysctl net.ipv4.a");
    }
}

#[test]
fn what_is_removed_or_replaced_under_another_spelling_is_gone() {
    let mut merge = CreateMerge::new(Container::default());
    merge.apply(&id("10-a"), mounting("/etc/x")).unwrap();
    merge.apply(&id("20-b"), adjusting(|it| it.mounts.replace(mount("/etc//x/", "b")).unwrap())).unwrap();
    merge.apply(&id("30-c"), with_sysctl("net/ipv4/a")).unwrap();
    merge.apply(&id("40-d"), adjusting_linux(|linux| linux.sysctl.remove("net.ipv4/a"))).unwrap();
    assert_eq!(merge.view().mounts, [mount("/etc/x", "b")]);
    let merged = merge.finish();
    assert_eq!(merged.adjustment.mounts.iter().count(), 1);
    let sysctl = &merged.adjustment.linux.unwrap().sysctl;
    assert_eq!(sysctl.iter().collect::<Vec<_>>(), [("net.ipv4.a", Change::Remove)]);
}

#[test]
fn what_the_container_has_is_changed_under_its_own_spelling() {
    for spelling in ["/data", "/data/", "/./data"] {
        let mut merge = CreateMerge::new(odd_container());
        merge.apply(&id("10-a"), adjusting(|it| it.mounts.replace(mount(spelling, "a")).unwrap())).unwrap();
        merge.apply(&id("20-b"), mounting(spelling)).unwrap_err();
        merge.apply(&id("20-b"), with_device("/dev/old")).unwrap();
        merge.apply(&id("30-c"), with_sysctl("net.ipv4.old")).unwrap();
        assert_eq!(merge.view().mounts.last(), Some(&mount("/data/", "a")));
        assert_eq!(merge.view().mounts.len(), 3);
        let merged = merge.finish();
        assert_eq!(merged.adjustment.mounts.iter().next().unwrap().0, "/data/", "as the spec has it");
        let linux = merged.adjustment.linux.unwrap();
        assert_eq!(linux.devices.iter().next().unwrap().0, "/dev//old");
        assert_eq!(linux.sysctl.iter().next().unwrap().0, "net/ipv4/old");
    }
}

#[test]
fn of_two_spellings_in_the_container_the_plain_one_is_meant() {
    let mut merge = CreateMerge::new(odd_container());
    merge.apply(&id("10-a"), adjusting(|it| it.mounts.remove("/both/"))).unwrap();
    let left: Vec<_> = merge.view().mounts.iter().map(|mount| &*mount.destination).collect();
    assert_eq!(left, ["/data/", "/both/"]);
}

#[test]
fn a_plugin_that_says_two_things_under_two_spellings_is_in_conflict_with_itself() {
    let both = |one: CreateReply, other: CreateReply| {
        let (mut one, other) = (one.adjustment.unwrap(), other.adjustment.unwrap());
        one.mounts.then(other.mounts);
        let sysctl = other.linux.unwrap_or_default().sysctl;
        one.linux.get_or_insert_default().sysctl.then(sysctl);
        CreateReply::from(one)
    };
    for reply in [both(mounting("/x"), mounting("/x/")), both(with_sysctl("a.b"), with_sysctl("a/b"))] {
        let mut merge = CreateMerge::new(Container::default());
        let before = merge.clone();
        let error = merge.apply(&id("10-a"), reply).unwrap_err();
        assert!(error.to_string().starts_with(r#"plugins "10-a" and "10-a" both tried to set "#), "{error}");
        assert_eq!(merge.finish(), before.finish(), "nothing is left of it");
    }
}

#[test]
fn what_is_spelled_plainly_stays_where_it_is() {
    for destination in ["/etc/x", "relative//path/", "", "/"] {
        let mut merge = CreateMerge::new(Container::default());
        merge.apply(&id("10-a"), mounting(destination)).unwrap();
        assert_eq!(merge.view().mounts, [mount(destination, destination)]);
    }
}
