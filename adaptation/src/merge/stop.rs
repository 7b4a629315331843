use nri_proto::{Owners, PluginId, StopReply, TakeUnknown, Update};

use super::Applied;
use super::MergeError;
use super::claims::Claims;
use crate::merge::other_updates::{self, Updates};

/// What plugins want when a container is stopped.
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

/// What the runtime is to do when it stops the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedStop {
    /// What changes in other containers, one update for each.
    pub updates: Vec<Update>,
    /// Which plugin wants what.
    pub owners: Owners,
}

impl StopMerge {
    /// Begins. What plugins are shown does not change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies what a plugin replied, or nothing of it.
    pub fn apply(&mut self, plugin: &PluginId, mut reply: StopReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, &mut reply)
    }

    /// The same where the reply lies. Nothing of it is left.
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

    /// Returns who has claimed what so far.
    pub(crate) fn claims(&self) -> &Owners {
        self.claims.owners()
    }

    /// Returns what changes so far in containers other than the one that the request is about.
    pub(crate) fn updates(&self) -> &[Update] {
        self.updates.list()
    }

    /// Returns what the replies come to.
    pub fn finish(self) -> MergedStop {
        MergedStop { updates: self.updates.into_list(), owners: self.claims.into_owners() }
    }
}
