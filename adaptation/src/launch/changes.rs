//! Compares two listings of the plugin directory.

use std::collections::BTreeMap;

use nri_proto::PluginId;

use super::directory::{DirectoryListing, PluginProgram, Stamp};

/// The programs in a listing, with their stamps.
pub(super) type Stamps = BTreeMap<PluginId, Stamp>;

/// A change of the plugin directory that concerns one plugin.
#[derive(Debug)]
pub(super) enum ProgramChange {
    /// The program is new or was replaced.
    Launch(PluginProgram),
    /// The program was removed.
    Remove(PluginId),
}

/// Returns the changes since the programs in `running` were launched.
///
/// A change counts only if two listings in a row show it: a file that is being copied grows, and a
/// file that is being replaced may be missing for a moment. A program that others can change is not
/// launched, and does not end the trusted program that runs under its name.
pub(super) fn changes(running: &Stamps, before: &Stamps, now: &DirectoryListing) -> Vec<ProgramChange> {
    let launch = now
        .found
        .iter()
        .filter(|found| running.get(&found.id) != Some(&found.stamp) && before.get(&found.id) == Some(&found.stamp));
    let is_there = |id: &PluginId| before.contains_key(id) || now.programs().any(|found| found.id == *id);
    let remove = running.keys().filter(|id| !is_there(id));
    launch.cloned().map(ProgramChange::Launch).chain(remove.cloned().map(ProgramChange::Remove)).collect()
}

/// Returns the programs in a listing, with their stamps.
pub(super) fn stamps(look: &DirectoryListing) -> Stamps {
    look.programs().map(|found| (found.id.clone(), found.stamp)).collect()
}

#[cfg(test)]
mod tests;
