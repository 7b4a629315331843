//! The empty messages that plugins and validators are shown.

use nri_proto::{Cpu, Hooks, LinuxContainer, Memory, Rdt};

use super::*;

#[test]
fn the_first_plugin_finds_the_messages_that_upstream_shows() {
    let resources = Resources { memory: Some(Memory::default()), cpu: Some(Cpu::default()), ..Resources::default() };
    let shown = Container {
        hooks: Some(Hooks::default()),
        linux: Some(LinuxContainer { resources: Some(resources), ..LinuxContainer::default() }),
        ..container()
    };
    assert_eq!(CreateMerge::new(container()).view(), &shown);
}

#[test]
fn what_is_there_stays_as_it_is() {
    let mut original = container();
    original.linux.get_or_insert_default().cgroups_path = "/x".to_owned();
    let merge = CreateMerge::new(original);
    assert_eq!(merge.view().linux.as_ref().unwrap().cgroups_path, "/x");
}

#[test]
fn an_update_shows_memory_and_cpu() {
    let merge = UpdateMerge::new(NEW, Resources::default());
    assert_eq!(
        (merge.view().memory.clone(), merge.view().cpu.clone()),
        (Some(Memory::default()), Some(Cpu::default()))
    );
}

#[test]
fn a_result_has_an_empty_rdt_once_a_plugin_adjusted_anything_of_linux() {
    let rdt = |replies: Vec<_>| merged(container(), replies).adjustment.linux.unwrap().rdt;
    assert_eq!(rdt(vec![]), None);
    assert_eq!(rdt(vec![("10-a", adjusting(|_| ()))]), None);
    assert_eq!(rdt(vec![("10-a", adjusting_linux(|_| ()))]), Some(Rdt::default()));
}

#[test]
fn a_plugin_that_adjusts_nothing_changes_nothing() {
    let none = CreateMerge::new(container());
    for reply in [CreateReply::default(), adjusting(|_| ())] {
        let mut merge = none.clone();
        let applied = merge.apply(&id("10-a"), reply).unwrap();
        assert_eq!(applied, Applied::default());
        assert!(!applied.view_changed());
        assert_eq!(merge, none);
    }
}
