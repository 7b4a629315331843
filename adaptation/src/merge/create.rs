use std::mem::take;
use std::sync::Arc;

use nri_proto::encode::Since;
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

/// What plugins want of a container that is being created.
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
    /// Copied when it is changed while somebody else still looks at it.
    view: Arc<Container>,
    /// What became of it since it was the runtime's.
    since: Since,
    /// As it was before any plugin changed it.
    rdt: Option<Rdt>,
    spellings: Spellings,
    adjustment: Adjustment,
    updates: Updates,
    evictions: Vec<AskedEviction>,
    claims: Claims,
}

/// What the runtime is to do when it creates the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedCreate {
    /// What changes in the container. Upstream gives the messages that are often looked into also
    /// where they are empty, and so do we.
    pub adjustment: Adjustment,
    /// What changes in others, one update for each.
    pub updates: Vec<Update>,
    /// What is to be stopped, in the order in which it was asked for.
    pub evictions: Vec<AskedEviction>,
    /// Which plugin wants what.
    pub owners: Owners,
    /// The container with all of that, as one more plugin would be shown it.
    pub container: Arc<Container>,
}

impl MergedCreate {
    /// What comes out where no plugin is asked.
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
    /// Begins with the container as the runtime has it.
    pub fn new(mut container: Container) -> Self {
        view::normalise(&mut container);
        Self {
            rdt: container.linux.as_ref().and_then(|linux| linux.rdt.clone()),
            view: Arc::new(container),
            since: Since::default(),
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

    /// The same, to be kept: the next reply leaves it as it is.
    pub fn shared_view(&self) -> Arc<Container> {
        Arc::clone(&self.view)
    }

    /// What has become of what the first plugin was shown.
    pub(crate) fn since(&self) -> Since {
        self.since
    }

    /// Applies what a plugin replied, or nothing of it.
    pub fn apply(&mut self, plugin: &PluginId, mut reply: CreateReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, &mut reply)
    }

    /// The same where the reply lies. Nothing of it is left.
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
        self.since = self.since.and(applied.changes.shown());
        Ok(applied)
    }

    /// Returns what the replies come to.
    pub fn finish(self) -> MergedCreate {
        MergedCreate {
            adjustment: self.adjustment,
            updates: self.updates.into_list(),
            evictions: self.evictions,
            owners: self.claims.into_owners(),
            container: self.view,
        }
    }

    /// Makes an adjustment, of which nothing is left.
    pub(super) fn adjust(&mut self, adjustment: &mut Adjustment, notes: &mut ChangeNotes<'_>) {
        let touches_rdt = adjustment.linux.as_ref().is_some_and(|linux| linux.rdt.is_some());
        view::adjust(Arc::make_mut(&mut self.view), adjustment, notes);
        collect::add(&mut self.adjustment, adjustment);
        if touches_rdt {
            self.show_rdt(notes);
        }
    }

    /// Shows what the result makes of what was there at first: a removal is forgotten once
    /// something is set. One with nothing in it and none say the same, so that is no change.
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

/// Notes a change, and says whether it is one.
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
