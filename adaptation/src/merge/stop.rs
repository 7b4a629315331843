use nri_proto::{Owners, PluginId, StopReply, TakeUnknown, Update};

use super::Applied;
use super::MergeError;
use super::claims::Claims;
use crate::merge::other_updates::{self, Updates};

/// Merges the replies of plugins about a container that is stopped.
///
/// ```
/// use nri_adaptation::merge::StopMerge;
/// use nri_proto::{PluginId, Resources, StopReply, Update};
///
/// let reply = StopReply { updates: vec![Update::new("other", Resources::default())], ..StopReply::default() };
///
/// let mut merge = StopMerge::new();
/// let plugin: PluginId = "10-a".parse()?;
/// merge.apply(&plugin, reply)?;
/// assert_eq!(merge.finish().updates[0].container_id, "other");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StopMerge {
    updates: Updates,
    claims: Claims,
}

/// The merged replies to a stop: the changes that the runtime has to apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedStop {
    /// The changes to other containers, one update for each container.
    pub updates: Vec<Update>,
    /// The plugins that own each changed field.
    pub owners: Owners,
}

impl StopMerge {
    /// Creates a merge. The replies do not change what plugins are shown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the reply of a plugin. If the reply is refused, none of it is applied.
    pub fn apply(&mut self, plugin: &PluginId, mut reply: StopReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, &mut reply)
    }

    /// Applies a reply in place, without moving it. The reply is empty afterwards.
    pub(crate) fn apply_all_of(&mut self, plugin: &PluginId, reply: &mut StopReply) -> Result<Applied, MergeError> {
        let unread = reply.take_unknown();
        let conflicts =
            self.claims.all_or_none(plugin, |claiming| other_updates::claim(claiming, &reply.updates, None))?;

        let StopReply { updates, unknown: _ } = reply;
        let mut applied = Applied::without(unread);
        for update in other_updates::claimed(std::mem::take(updates), conflicts, &mut applied.dropped) {
            self.updates.add(update, &mut applied);
        }
        Ok(applied)
    }

    /// Returns the owners of all claims so far.
    pub(crate) fn claims(&self) -> &Owners {
        self.claims.owners()
    }

    /// Returns the changes so far to other containers than the one that the request is about.
    pub(crate) fn updates(&self) -> &[Update] {
        self.updates.list()
    }

    /// Returns the merged result of all replies.
    pub fn finish(self) -> MergedStop {
        MergedStop { updates: self.updates.into_list(), owners: self.claims.into_owners() }
    }
}
