//! Tests of the default validator, one or more for each option. The proposals come from a merge,
//! with the owners that the merge records.

mod adjustments;
mod names;
mod required;

use nri_proto::{Adjustment, Container, CreateReply, LinuxAdjustment, PluginId, PluginInstance, Proposal};

use super::*;
use crate::merge::CreateMerge;

fn id(plugin: &str) -> PluginId {
    plugin.parse().unwrap()
}

fn container() -> Container {
    Container { id: "new".to_owned(), name: "cart".to_owned(), ..Container::default() }
}

/// Returns the proposal that results from these plugins' adjustments of a container.
fn proposal<'a>(container: Container, adjustments: impl IntoIterator<Item = (&'a str, Adjustment)>) -> Proposal {
    let mut merge = CreateMerge::new(container.clone());
    let mut plugins = Vec::new();
    for (plugin, adjustment) in adjustments {
        let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
        merge.apply(&id(plugin), reply).unwrap();
        plugins.push(PluginInstance::from(&id(plugin)));
    }
    let merged = merge.finish();
    Proposal {
        container: Some(container),
        adjustment: Some(merged.adjustment),
        updates: merged.updates,
        owners: Some(merged.owners),
        plugins,
        ..Proposal::default()
    }
}

fn adjusting(adjust: impl FnOnce(&mut Adjustment)) -> Adjustment {
    let mut adjustment = Adjustment::default();
    adjust(&mut adjustment);
    adjustment
}

fn adjusting_linux(adjust: impl FnOnce(&mut LinuxAdjustment)) -> Adjustment {
    adjusting(|adjustment| adjust(adjustment.linux.get_or_insert_default()))
}

#[track_caller]
fn rejected(validator: &DefaultValidator, proposal: &Proposal, expected: &str) {
    assert_eq!(validator.validate(proposal).rejection(), Some(expected));
}

#[track_caller]
fn accepted(validator: &DefaultValidator, proposal: &Proposal) {
    assert_eq!(validator.validate(proposal).rejection(), None);
}
