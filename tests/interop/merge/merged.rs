use std::fmt;

use nri_adaptation::merge::{Applied, CreateMerge, Dropped, MergeError, StopMerge, UpdateMerge};
use nri_proto::api::{Container, ContainerAdjustment, ContainerUpdate, LinuxResources, OwningPlugins};
use nri_proto::{PluginId, Resources};
use nri_tests::merging::{Case, OWN, PLUGINS};
use nri_tests::text::text;

/// The result of a case, on either side.
#[derive(Clone, PartialEq)]
pub(super) struct Merged {
    /// The merged result, or the text of the conflict.
    pub(super) result: Result<Done, String>,
    /// The view of each plugin that was asked.
    pub(super) seen: Vec<Seen>,
    /// The number of updates that were in conflict and may fail.
    pub(super) dropped: usize,
}

#[derive(Clone, Default, PartialEq)]
pub(super) struct Done {
    pub(super) adjustment: Option<ContainerAdjustment>,
    pub(super) updates: Vec<ContainerUpdate>,
    /// The owners. Go shows them only for a new container.
    pub(super) owners: Option<OwningPlugins>,
}

#[derive(Clone, PartialEq)]
pub(super) enum Seen {
    Container(Box<Container>),
    Resources(Box<LinuxResources>),
    Nothing,
}

impl Merged {
    /// Merges a case with our merge.
    pub(super) fn of(case: &Case) -> Self {
        match case {
            Case::Create(request, replies) => {
                let mut merge = CreateMerge::new(request.container.clone().unwrap_or_default().into());
                let mut merged = Self::begin();
                merged.apply(replies, |plugin, reply| {
                    let seen = Seen::Container(Box::new(merge.view().clone().into()));
                    (seen, merge.apply(plugin, reply.into()))
                });
                let done = merge.finish();
                merged.end(Done {
                    adjustment: Some(done.adjustment.into()),
                    updates: done.updates.into_iter().map(Into::into).collect(),
                    owners: Some(done.owners.into()),
                })
            }
            Case::Update(request, replies) => {
                let requested = request.linux_resources.clone().into_option().map(Resources::from);
                let mut merge = UpdateMerge::new(OWN, requested.unwrap_or_default());
                let mut merged = Self::begin();
                merged.apply(replies, |plugin, reply| {
                    let seen = Seen::Resources(Box::new(merge.view().clone().into()));
                    (seen, merge.apply(plugin, reply.into()))
                });
                let done = merge.finish();
                // Go's list ends with the update of the container itself, even if no plugin has
                // updated it.
                let own = done.own.unwrap_or_default();
                let updates = done.others.into_iter().chain([own]).map(Into::into).collect();
                merged.end(Done { updates, ..Done::default() })
            }
            Case::Stop(_, replies) => {
                let mut merge = StopMerge::new();
                let mut merged = Self::begin();
                merged.apply(replies, |plugin, reply| (Seen::Nothing, merge.apply(plugin, reply.into())));
                let updates = merge.finish().updates.into_iter().map(Into::into).collect();
                merged.end(Done { updates, ..Done::default() })
            }
        }
    }

    fn begin() -> Self {
        Self { result: Ok(Done::default()), seen: vec![], dropped: 0 }
    }

    /// Applies replies in order, up to the first refused one.
    fn apply<M: Clone>(
        &mut self,
        replies: &[M],
        mut apply: impl FnMut(&PluginId, M) -> (Seen, Result<Applied, MergeError>),
    ) {
        for (plugin, reply) in PLUGINS.iter().zip(replies) {
            let (seen, applied) = apply(&plugin.parse().unwrap(), reply.clone());
            self.seen.push(seen);
            match applied {
                Ok(applied) => {
                    self.dropped += applied.dropped.iter().filter(|one| matches!(one, Dropped::Update(_))).count();
                }
                Err(error) => {
                    self.result = Err(error.to_string());
                    break;
                }
            }
        }
    }

    fn end(self, done: Done) -> Self {
        Self { result: self.result.map(|_| done), ..self }
    }
}

/// Formats the result as text, without fields that are not set.
impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (plugin, seen) in PLUGINS.iter().zip(&self.seen) {
            let seen = match seen {
                Seen::Container(container) => text(&**container),
                Seen::Resources(resources) => text(&**resources),
                Seen::Nothing => continue,
            };
            writeln!(f, "{plugin} sees\n{seen}")?;
        }
        match &self.result {
            Err(error) => writeln!(f, "{error}"),
            Ok(Done { adjustment, updates, owners }) => {
                let adjustment = adjustment.iter().map(text);
                let updates = updates.iter().map(text);
                let owners = owners.iter().map(text);
                let parts: Vec<_> = adjustment.chain(updates).chain(owners).collect();
                writeln!(f, "comes to\n{}", parts.join("\n"))
            }
        }
    }
}
