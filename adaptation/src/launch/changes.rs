//! What is different between two looks at the directory.

use std::collections::BTreeMap;

use nri_proto::PluginId;

use super::directory::{DirectoryListing, Found, Stamp};

/// The programs of one look.
pub(super) type Stamps = BTreeMap<PluginId, Stamp>;

/// A change of the plugin directory that concerns one plugin.
#[derive(Debug)]
pub(super) enum ProgramChange {
    /// It is new, or another program than before.
    Launch(Found),
    /// It is not there any more.
    Remove(PluginId),
}

/// What became of the programs that run. What the look before did not show too is not taken for
/// true yet: a file that is being copied grows, and one that is being replaced may be away for a
/// moment. A program that others can change is not launched, and does not end the trusted one that
/// runs under its name.
pub(super) fn changes(running: &Stamps, before: &Stamps, now: &DirectoryListing) -> Vec<ProgramChange> {
    let launch = now
        .found
        .iter()
        .filter(|found| running.get(&found.id) != Some(&found.stamp) && before.get(&found.id) == Some(&found.stamp));
    let is_there = |id: &PluginId| before.contains_key(id) || now.programs().any(|found| found.id == *id);
    let remove = running.keys().filter(|id| !is_there(id));
    launch.cloned().map(ProgramChange::Launch).chain(remove.cloned().map(ProgramChange::Remove)).collect()
}

/// The programs that a look shows.
pub(super) fn stamps(look: &DirectoryListing) -> Stamps {
    look.programs().map(|found| (found.id.clone(), found.stamp)).collect()
}

#[cfg(test)]
mod tests;
