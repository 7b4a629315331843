//! The merge of one request: the result so far, and what the next plugin is shown.

use std::sync::Arc;

use nri_proto::{Container, Owners, PluginId, Resources, Update};

use crate::api::plugin::Reply;
use crate::api::request::Subject;
use crate::config::policy::Policy;
use crate::merge::{Applied, CreateMerge, MergedCreate, MergedStop, MergedUpdate, StopMerge, UpdateMerge};
use crate::reply::question::{Question, ReplyOutcome};

/// The merge of a request of any kind.
pub(crate) enum Merging {
    /// A request that has nothing to merge: plugins are only notified.
    Nothing,
    Create(Box<CreateMerge>),
    Update(Box<UpdateMerge>, Arc<Container>),
    Stop(Box<StopMerge>),
}

impl Merging {
    /// Creates the merge for a container creation. Returns the merge, and the container that the
    /// first plugin is shown.
    pub(crate) fn create(container: Container) -> (Self, Subject) {
        let merge = CreateMerge::new(container);
        let subject = Subject::Container(merge.shared_view());
        (Self::Create(Box::new(merge)), subject)
    }

    /// Creates the merge for a container update. Returns the merge, and what the first plugin is
    /// shown.
    pub(crate) fn update(container: Container, resources: Option<Resources>) -> (Self, Subject) {
        let merge = UpdateMerge::new(container.id.clone(), resources.unwrap_or_default());
        let merging = Self::Update(Box::new(merge), Arc::new(container));
        let subject = merging.shown();
        (merging, subject)
    }

    /// Creates the merge for a container stop.
    pub(crate) fn stop() -> Self {
        Self::Stop(Box::default())
    }

    /// Applies a reply as far as the policy permits. Returns `None` if the reply belongs to another
    /// kind of request.
    pub(crate) fn take(&mut self, policy: &Policy, plugin: &PluginId, reply: Reply) -> Option<ReplyOutcome> {
        match (self, reply) {
            (_, Reply::Heard) => Some(ReplyOutcome::Applied(Applied::default())),
            (Self::Create(merge), Reply::Create(mut reply)) => Some(merge.take(policy, plugin, &mut reply)),
            (Self::Update(merge, _), Reply::Update(mut reply)) => Some(merge.take(policy, plugin, &mut reply)),
            (Self::Stop(merge), Reply::Stop(mut reply)) => Some(merge.take(policy, plugin, &mut reply)),
            (Self::Nothing | Self::Create(_) | Self::Update(..) | Self::Stop(_), _) => None,
        }
    }

    pub(crate) fn created(self) -> MergedCreate {
        if let Self::Create(merge) = self { merge.finish() } else { MergedCreate::unchanged(Arc::default()) }
    }

    pub(crate) fn updated(self) -> MergedUpdate {
        if let Self::Update(merge, _) = self { merge.finish() } else { MergedUpdate::default() }
    }

    pub(crate) fn stopped(self) -> MergedStop {
        if let Self::Stop(merge) = self { merge.finish() } else { MergedStop::default() }
    }

    /// Returns the owners of all claims so far. Empty for a container creation.
    pub(crate) fn claims(&self) -> Owners {
        match self {
            Self::Nothing | Self::Create(_) => Owners::default(),
            Self::Update(merge, _) => merge.claims().clone(),
            Self::Stop(merge) => merge.claims().clone(),
        }
    }

    /// Returns the changes so far to other containers than the one that the request is about. Empty
    /// for a container creation.
    pub(crate) fn updates(&self) -> &[Update] {
        match self {
            Self::Nothing | Self::Create(_) => &[],
            Self::Update(merge, _) => merge.others(),
            Self::Stop(merge) => merge.updates(),
        }
    }

    /// Returns whether this reply may change what the next plugin is shown.
    pub(crate) fn may_change(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (Self::Create(_), Reply::Create(reply)) => reply.adjustment.is_some(),
            (Self::Update(..), Reply::Update(reply)) => !reply.updates.is_empty(),
            (Self::Nothing | Self::Create(_) | Self::Update(..) | Self::Stop(_), _) => false,
        }
    }

    /// Returns whether any reply may change what the next plugin is shown.
    pub(crate) fn changes_the_request(&self) -> bool {
        match self {
            Self::Create(_) | Self::Update(..) => true,
            Self::Nothing | Self::Stop(_) => false,
        }
    }

    /// Returns what the next plugin is shown, for a request that replies can change.
    pub(crate) fn shown(&self) -> Subject {
        match self {
            Self::Create(merge) => Subject::Container(merge.shared_view()),
            Self::Update(merge, container) => Subject::ContainerResources {
                container: Arc::clone(container),
                resources: Some(Box::new(merge.view().clone())),
            },
            Self::Nothing | Self::Stop(_) => Subject::Pod,
        }
    }
}
