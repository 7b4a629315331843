//! Independence from the order of lists, and the equivalence of one merge to several.

use nri_proto::{StopReply, UpdateReply, api, arbitrary};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::properties::{any_container, reply};
use super::*;

/// Returns the reply with all keyed lists in reverse order.
fn reversed(reply: CreateReply) -> CreateReply {
    let mut message = api::CreateContainerResponse::from(reply);
    if let Some(adjustment) = message.adjust.as_mut() {
        adjustment.mounts.reverse();
        adjustment.env.reverse();
        adjustment.rlimits.reverse();
        adjustment.CDI_devices.reverse();
        if let Some(linux) = adjustment.linux.as_mut() {
            linux.devices.reverse();
            linux.namespaces.reverse();
            linux.resources.mut_or_insert_default().hugepage_limits.reverse();
        }
    }
    message.into()
}

/// Returns the adjustment with all keyed lists sorted by key.
fn sorted(adjustment: Adjustment) -> api::ContainerAdjustment {
    let mut message = api::ContainerAdjustment::from(adjustment);
    message.mounts.sort_by(|one, other| one.destination.cmp(&other.destination));
    message.env.sort_by(|one, other| one.key.cmp(&other.key));
    message.rlimits.sort_by(|one, other| one.type_.cmp(&other.type_));
    message.CDI_devices.sort_by(|one, other| one.name.cmp(&other.name));
    let linux = message.linux.mut_or_insert_default();
    linux.devices.sort_by(|one, other| one.path.cmp(&other.path));
    linux.namespaces.sort_by(|one, other| one.type_.cmp(&other.type_));
    let resources = linux.resources.mut_or_insert_default();
    resources.hugepage_limits.sort_by(|one, other| one.page_size.cmp(&other.page_size));
    message
}

/// Returns the container with all lists that plugins can change sorted by key.
fn sorted_view(mut container: Container) -> Container {
    container.mounts.sort_by(|one, other| one.destination.cmp(&other.destination));
    container.env.sort();
    container.rlimits.sort_by(|one, other| one.kind.cmp(&other.kind));
    let linux = container.linux.get_or_insert_default();
    linux.devices.sort_by(|one, other| one.path.cmp(&other.path));
    linux.namespaces.sort_by(|one, other| one.kind.cmp(&other.kind));
    let resources = linux.resources.get_or_insert_default();
    resources.hugepage_limits.sort_by(|one, other| one.page_size.cmp(&other.page_size));
    container
}

/// Returns the container without `rdt`. Setting a value cancels an earlier removal, and the
/// original settings are shown again.
fn without_rdt(container: &Container) -> Container {
    let mut container = container.clone();
    container.linux.get_or_insert_default().rdt = None;
    container
}

/// Generates replies that set nothing, some of them with empty messages.
fn nothing() -> impl Strategy<Value = CreateReply> {
    let in_many_words = collect::nothing_adjusted();
    // An empty `linux` message is visible to Go's validators.
    let without_linux = Adjustment { linux: None, ..in_many_words };
    prop_oneof![
        Just(CreateReply::default()),
        Just(adjusting(|_| ())),
        Just(CreateReply { adjustment: Some(without_linux), ..CreateReply::default() }),
    ]
}

proptest! {
    #[test]
    fn the_order_of_keys_does_not_matter(container in any_container(), replies in vec(reply(), 1..5)) {
        let (mut merge, mut other) = (CreateMerge::new(container.clone()), CreateMerge::new(container));
        for (n, reply) in replies.into_iter().enumerate() {
            let plugin = id(&format!("{n}0-x"));
            let applied = merge.apply(&plugin, reply.clone());
            prop_assert_eq!(applied.is_ok(), other.apply(&plugin, reversed(reply)).is_ok());
            prop_assert_eq!(sorted_view(merge.view().clone()), sorted_view(other.view().clone()));
        }
        let (merged, other) = (merge.finish(), other.finish());
        prop_assert_eq!(sorted(merged.adjustment), sorted(other.adjustment));
        prop_assert_eq!((merged.updates, merged.owners), (other.updates, other.owners));
    }

    #[test]
    fn a_plugin_that_sets_nothing_changes_nothing_wherever_it_is_asked(
        container in any_container(),
        replies in vec(reply(), 0..4),
        nothing in nothing(),
        place in any::<Index>(),
    ) {
        let place = place.index(replies.len() + 1);
        let (mut with, mut without) = (CreateMerge::new(container.clone()), CreateMerge::new(container));
        for n in 0..=replies.len() {
            if n == place {
                prop_assert_eq!(with.apply(&id("50-nothing"), nothing.clone()), Ok(Applied::default()));
            }
            let Some(reply) = replies.get(n) else { break };
            let plugin = id(&format!("{n}0-x"));
            prop_assert_eq!(with.apply(&plugin, reply.clone()), without.apply(&plugin, reply.clone()));
        }
        prop_assert_eq!(with, without);
    }

    #[test]
    fn a_plugin_that_updates_nothing_changes_nothing(
        requested in arbitrary::resources(),
        replies in vec(arbitrary::update_reply(), 0..3),
    ) {
        let (mut update, mut stop) = (UpdateMerge::new(NEW, requested), StopMerge::new());
        for (n, reply) in replies.into_iter().enumerate() {
            let plugin = id(&format!("{n}0-x"));
            let _ = stop.apply(&plugin, StopReply { updates: reply.updates.clone(), ..StopReply::default() });
            let _ = update.apply(&plugin, reply);
        }
        let before = (update.clone(), stop.clone());
        prop_assert_eq!(update.apply(&id("99-x"), UpdateReply::default()), Ok(Applied::default()));
        prop_assert_eq!(stop.apply(&id("99-x"), StopReply::default()), Ok(Applied::default()));
        prop_assert_eq!((update, stop), before);
    }

    /// The merge equals a runtime that applied the former replies, so that the next plugin is the
    /// first.
    #[test]
    fn to_merge_is_to_show_each_plugin_the_result_so_far(container in any_container(), replies in vec(reply(), 1..5)) {
        let mut merge = CreateMerge::new(container);
        for (n, reply) in replies.into_iter().enumerate() {
            let plugin = id(&format!("{n}0-x"));
            let mut first = CreateMerge::new(merge.view().clone());
            let before = merge.view().clone();
            let Ok(applied) = merge.apply(&plugin, reply.clone()) else { continue };
            prop_assert!(first.apply(&plugin, reply).is_ok());
            prop_assert_eq!(without_rdt(merge.view()), without_rdt(first.view()));
            prop_assert!(applied.view_changed() || *merge.view() == before);
        }
    }

    #[test]
    fn to_merge_updates_is_to_show_each_plugin_the_result_so_far(
        requested in arbitrary::resources(),
        replies in vec(arbitrary::update_reply(), 1..5),
    ) {
        let mut merge = UpdateMerge::new("", requested);
        for (n, reply) in replies.into_iter().enumerate() {
            let plugin = id(&format!("{n}0-x"));
            let mut first = UpdateMerge::new("", merge.view().clone());
            let Ok(applied) = merge.apply(&plugin, reply.clone()) else { continue };
            prop_assert!(first.apply(&plugin, reply).is_ok());
            // An update that may fail is dropped if another plugin has claimed the field. The first
            // plugin has no such conflict.
            if !applied.dropped.iter().any(|dropped| matches!(dropped, Dropped::Update(_))) {
                prop_assert_eq!(merge.view(), first.view());
            }
        }
    }
}
