use std::mem::take;
use std::sync::Arc;

use nri_proto::{Adjustment, Container, CreateReply, Field, Owners, PluginId, Rdt, TakeUnknown, Update};

use super::Applied;
use super::AskedEviction;
use super::MergeError;
use super::Touch;
use super::claims::Claims;
use super::collect;
use super::notes::ChangeNotes;
use super::packing::Pack;
use super::spellings::Spellings;
use super::view;
use crate::merge::other_updates::{self, Updates};

/// Merges the replies of plugins about a container that is being created.
///
/// ```
/// use nri_adaptation::merge::CreateMerge;
/// use nri_proto::{Adjustment, Change, Container, CreateReply, EnvVar, PluginId};
///
/// let (first, second): (PluginId, PluginId) = ("10-a".parse()?, "20-b".parse()?);
/// let mut adjustment = Adjustment::default();
/// adjustment.env.set(EnvVar::new("LEVEL", "info"))?;
/// let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
///
/// let mut merge = CreateMerge::new(Container { id: "9a27".to_owned(), ..Container::default() });
/// assert!(merge.apply(&first, reply.clone())?.view_changed());
/// assert_eq!(merge.view().env("LEVEL"), Some("info"));
///
/// let error = merge.apply(&second, reply).unwrap_err();
/// assert_eq!(error.to_string(), r#"plugins "20-b" and "10-a" both tried to set Env LEVEL"#);
///
/// let merged = merge.finish();
/// assert!(matches!(merged.adjustment.env.get("LEVEL"), Some(Change::Set(level)) if level.value == "info"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CreateMerge {
    /// The container as the next plugin is shown it. Copied before a change if a caller still holds
    /// the former view.
    view: Arc<Container>,
    /// The RDT settings before any plugin changed them.
    rdt: Option<Rdt>,
    spellings: Spellings,
    adjustment: Adjustment,
    updates: Updates,
    evictions: Vec<AskedEviction>,
    claims: Claims,
}

/// The merged replies to a create: the changes that the runtime has to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedCreate {
    /// The changes to the container. The messages that upstream always sends are present even if
    /// they are empty.
    pub adjustment: Adjustment,
    /// The changes to other containers, one update for each container.
    pub updates: Vec<Update>,
    /// The containers to stop, in the order in which plugins asked for it.
    pub evictions: Vec<AskedEviction>,
    /// The plugins that own each changed field.
    pub owners: Owners,
    /// The container with all changes, as one more plugin would be shown it.
    pub container: Arc<Container>,
}

impl MergedCreate {
    /// Returns the result of a request for which no plugin is asked.
    pub(crate) fn unchanged(container: Arc<Container>) -> Self {
        Self {
            adjustment: collect::nothing_adjusted(),
            updates: Vec::new(),
            evictions: Vec::new(),
            owners: Owners::default(),
            container,
        }
    }
}

impl CreateMerge {
    /// Creates a merge for the container as the runtime describes it.
    pub fn new(mut container: Container) -> Self {
        view::normalise(&mut container);
        Self {
            rdt: container.linux.as_ref().and_then(|linux| linux.rdt.clone()),
            view: Arc::new(container),
            spellings: Spellings::default(),
            adjustment: collect::nothing_adjusted(),
            updates: Updates::default(),
            evictions: Vec::new(),
            claims: Claims::default(),
        }
    }

    /// Returns the container as the next plugin is shown it.
    pub fn view(&self) -> &Container {
        &self.view
    }

    /// Returns the same container as [`CreateMerge::view`] to keep: later replies do not change it.
    pub fn shared_view(&self) -> Arc<Container> {
        Arc::clone(&self.view)
    }

    /// Applies the reply of a plugin. If the reply is refused, none of it is applied.
    pub fn apply(&mut self, plugin: &PluginId, mut reply: CreateReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, &mut reply)
    }

    /// Applies a reply in place, without moving it. The reply is empty afterwards.
    pub(crate) fn apply_all_of(&mut self, plugin: &PluginId, reply: &mut CreateReply) -> Result<Applied, MergeError> {
        let unread = reply.take_unknown();
        if let Some(adjustment) = &mut reply.adjustment {
            self.spellings.apply(&self.view, plugin, adjustment)?;
        }
        let touches = reply.adjustment.as_ref().map(Touch::list_of_adjustment).unwrap_or_default();
        let conflicts = self.claims.all_or_none(plugin, |claiming| {
            claiming.claim(&self.view.id, &touches)?;
            other_updates::claim(claiming, &reply.updates, Some(&self.view.id))
        })?;

        let mut applied = Applied::without(unread);
        applied.changes.will_be(touches.len());
        drop(touches);
        let CreateReply { adjustment, updates, evictions, unknown: _ } = reply;
        if let Some(adjustment) = adjustment {
            self.adjust(adjustment, &mut ChangeNotes::of_own(&mut applied.changes));
        }
        for update in other_updates::claimed(take(updates), conflicts, &mut applied.dropped) {
            self.updates.add(update, &mut applied);
        }
        self.evictions.extend(AskedEviction::all(plugin, take(evictions)));
        Ok(applied)
    }

    /// Returns the merged result of all replies.
    pub fn finish(self) -> MergedCreate {
        MergedCreate {
            adjustment: self.adjustment,
            updates: self.updates.into_list(),
            evictions: self.evictions,
            owners: self.claims.into_owners(),
            container: self.view,
        }
    }

    /// Applies an adjustment, and leaves it empty.
    pub(super) fn adjust(&mut self, adjustment: &mut Adjustment, notes: &mut ChangeNotes<'_>) {
        let touches_rdt = adjustment.linux.as_ref().is_some_and(|linux| linux.rdt.is_some());
        view::adjust(Arc::make_mut(&mut self.view), adjustment, notes);
        collect::add(&mut self.adjustment, adjustment);
        if touches_rdt {
            self.show_rdt(notes);
        }
    }

    /// Shows the RDT settings that the result makes of the original settings: setting a value
    /// cancels an earlier removal. Empty settings and no settings mean the same, so that difference
    /// is not a change.
    fn show_rdt(&mut self, notes: &mut ChangeNotes<'_>) {
        let result = self.adjustment.linux.as_ref().and_then(|linux| linux.rdt.clone()).unwrap_or_default();
        let shown = &mut Arc::make_mut(&mut self.view).linux.get_or_insert_default().rdt;
        let after = view::rdt(self.rdt.as_ref(), result);
        let (old, new) = (shown.clone().unwrap_or_default(), after.clone().unwrap_or_default());
        let changed = note(Field::RdtClosID, old.clos_id.as_deref(), new.clos_id.as_deref(), notes)
            | note(Field::RdtSchemata, old.schemata.as_deref(), new.schemata.as_deref(), notes)
            | note(Field::RdtEnableMonitoring, old.enable_monitoring.as_ref(), new.enable_monitoring.as_ref(), notes);
        if changed {
            *shown = after;
        }
    }
}

/// Notes a value if it changed. Returns whether it changed.
fn note<T: PartialEq + Pack + ?Sized>(
    field: Field,
    before: Option<&T>,
    after: Option<&T>,
    notes: &mut ChangeNotes<'_>,
) -> bool {
    let changed = before != after;
    if changed {
        notes.take(field, "", before, after);
    }
    changed
}
