//! The rules of a merge, one test for each rule. Replies are written as scripts (see [`entries`])
//! or built by hand.

mod args;
mod dropped;
mod entries;
mod evictions;
mod fields;
mod hooks;
mod notes;
mod orders;
mod owners;
mod properties;
mod rdt;
mod shown;
mod spellings;
mod updates;
mod whole;

use nri_proto::{Adjustment, Container, CreateReply, Field, LinuxAdjustment, PluginId, Resources};

use super::*;

/// The id of the container that is being created.
const NEW: &str = "new";

fn id(plugin: &str) -> PluginId {
    plugin.parse().unwrap()
}

fn container() -> Container {
    Container { id: NEW.to_owned(), ..Container::default() }
}

fn adjusting(adjust: impl FnOnce(&mut Adjustment)) -> CreateReply {
    let mut adjustment = Adjustment::default();
    adjust(&mut adjustment);
    CreateReply { adjustment: Some(adjustment), ..CreateReply::default() }
}

fn adjusting_linux(adjust: impl FnOnce(&mut LinuxAdjustment)) -> CreateReply {
    adjusting(|adjustment| adjust(adjustment.linux.get_or_insert_default()))
}

fn adjusting_resources(adjust: impl FnOnce(&mut Resources)) -> CreateReply {
    adjusting_linux(|linux| adjust(linux.resources.get_or_insert_default()))
}

/// Applies replies in order, up to the first that is refused.
fn create(
    container: Container,
    replies: impl IntoIterator<Item = (&'static str, CreateReply)>,
) -> (CreateMerge, Result<(), String>) {
    let mut merge = CreateMerge::new(container);
    for (plugin, reply) in replies {
        if let Err(error) = merge.apply(&id(plugin), reply) {
            return (merge, Err(error.to_string()));
        }
    }
    (merge, Ok(()))
}

/// Applies replies that are all accepted.
#[track_caller]
fn merged(container: Container, replies: impl IntoIterator<Item = (&'static str, CreateReply)>) -> MergedCreate {
    let (merge, result) = create(container, replies);
    assert_eq!(result, Ok(()));
    merge.finish()
}
