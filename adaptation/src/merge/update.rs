use std::mem::take;

use nri_proto::{LinuxUpdate, Owners, PluginId, Resources, TakeUnknown, Update, UpdateReply};

use super::Applied;
use super::AskedEviction;
use super::MergeError;
use super::claims::Claims;
use super::notes::ChangeNotes;
use super::resources;
use crate::merge::other_updates::{self, Updates};

/// Merges the replies of plugins about a container that is updated.
///
/// ```
/// use nri_adaptation::merge::UpdateMerge;
/// use nri_proto::{Pids, PluginId, Resources, Update, UpdateReply};
///
/// let limit = |limit| Resources { pids: Some(Pids { limit, ..Pids::default() }), ..Resources::default() };
/// let reply = UpdateReply { updates: vec![Update::new("9a27", limit(7))], ..UpdateReply::default() };
///
/// let mut merge = UpdateMerge::new("9a27", limit(100));
/// let plugin: PluginId = "10-a".parse()?;
/// merge.apply(&plugin, reply)?;
/// assert_eq!(merge.view().pids, limit(7).pids);
///
/// let merged = merge.finish();
/// assert_eq!(merged.own.unwrap().resources().unwrap().pids, limit(7).pids);
/// assert_eq!(merged.others, []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateMerge {
    container_id: String,
    view: Resources,
    /// The number of huge page limits in the runtime's request.
    n_limits: usize,
    own: Option<OwnUpdate>,
    others: Updates,
    evictions: Vec<AskedEviction>,
    claims: Claims,
}

/// The updates that plugins made of the container that the request is about.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OwnUpdate {
    ignore_failure: bool,
}

/// The merged replies to an update: the changes that the runtime has to apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedUpdate {
    /// The update of the container itself. `None` if no plugin changed it: the runtime then applies
    /// the update that it was asked for.
    pub own: Option<Update>,
    /// The changes to other containers, one update for each container.
    pub others: Vec<Update>,
    /// The containers to stop, in the order in which plugins asked for it.
    pub evictions: Vec<AskedEviction>,
    /// The plugins that own each changed field.
    pub owners: Owners,
}

impl UpdateMerge {
    /// Creates a merge for an update of a container to `resources`, as the runtime was asked for.
    pub fn new(container_id: impl Into<String>, mut resources: Resources) -> Self {
        resources::normalise(&mut resources);
        Self {
            container_id: container_id.into(),
            n_limits: resources.hugepage_limits.len(),
            view: resources,
            own: None,
            others: Updates::default(),
            evictions: Vec::new(),
            claims: Claims::default(),
        }
    }

    /// Returns the container that the request is about.
    pub fn container_id(&self) -> &str {
        &self.container_id
    }

    /// Returns the resources as the next plugin is shown them.
    pub fn view(&self) -> &Resources {
        &self.view
    }

    /// Applies the reply of a plugin. If the reply is refused, none of it is applied.
    pub fn apply(&mut self, plugin: &PluginId, mut reply: UpdateReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, &mut reply)
    }

    /// Applies a reply in place, without moving it. The reply is empty afterwards.
    pub(crate) fn apply_all_of(&mut self, plugin: &PluginId, reply: &mut UpdateReply) -> Result<Applied, MergeError> {
        let unread = reply.take_unknown();
        let conflicts =
            self.claims.all_or_none(plugin, |claiming| other_updates::claim(claiming, &reply.updates, None))?;

        let UpdateReply { updates, evictions, unknown: _ } = reply;
        let mut applied = Applied::without(unread);
        for update in other_updates::claimed(take(updates), conflicts, &mut applied.dropped) {
            if update.container_id == self.container_id {
                self.update_own(update, &mut applied);
            } else {
                self.others.add(update, &mut applied);
            }
        }
        self.evictions.extend(AskedEviction::all(plugin, take(evictions)));
        Ok(applied)
    }

    /// Returns the owners of all claims so far.
    pub(crate) fn claims(&self) -> &Owners {
        self.claims.owners()
    }

    /// Returns the changes so far to other containers than the one that the request is about.
    pub(crate) fn others(&self) -> &[Update] {
        self.others.list()
    }

    /// Returns the merged result of all replies.
    pub fn finish(self) -> MergedUpdate {
        let Self { container_id, view, n_limits: _, own, others, evictions, claims } = self;
        let own = own.map(|OwnUpdate { ignore_failure }| {
            let linux = LinuxUpdate { resources: Some(view), ..LinuxUpdate::default() };
            Update { container_id, linux: Some(linux), ignore_failure, ..Update::default() }
        });
        MergedUpdate { own, others: others.into_list(), evictions, owners: claims.into_owners() }
    }

    fn update_own(&mut self, update: Update, applied: &mut Applied) {
        let Update { container_id, linux, ignore_failure, unknown: _ } = update;
        let own = self.own.get_or_insert(OwnUpdate { ignore_failure });
        own.ignore_failure &= ignore_failure;
        let notes = &mut ChangeNotes::of_own(&mut applied.changes);
        other_updates::apply(linux, &mut self.view, self.n_limits, &container_id, notes, &mut applied.dropped);
    }
}
