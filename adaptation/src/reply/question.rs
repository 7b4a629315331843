//! Checks a reply against the plugin's policy and merges it, both for requests and for dry runs.

use nri_proto::{Container, CreateReply, Event, PluginId, Resources, StopReply, UpdateReply};

use crate::config::policy::{Allowed, Mode, NotAllowed, Policy};
use crate::merge::{Applied, CreateMerge, MergeError, StopMerge, UpdateMerge};

/// The outcome of a plugin's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// The reply was applied.
    Applied(Applied),
    /// The plugin is in shadow mode: what applying the reply would have resulted in.
    Shadow(Result<Applied, Refusal>),
    /// The reply was refused, and the request fails.
    Refused(Refusal),
    /// The policy hides the event, or the namespace of the pod, from the plugin.
    NotAsked,
}

/// Why the reply of a plugin is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy does not permit what the reply asks for.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// The reply conflicts with the reply of another plugin.
    #[error(transparent)]
    Conflict(#[from] MergeError),
}

/// A merge for one kind of request.
pub(crate) trait Question: Clone {
    const EVENT: Event;
    type Reply;
    type View;

    fn seen(&self) -> Self::View;
    fn check(&self, allowed: &Allowed, reply: &Self::Reply) -> Result<(), NotAllowed>;
    /// Applies a reply, and leaves it empty.
    fn apply(&mut self, plugin: &PluginId, reply: &mut Self::Reply) -> Result<Applied, MergeError>;

    /// Checks a reply against the policy and applies it. In shadow mode, a copy of the merge is
    /// changed.
    fn take(&mut self, policy: &Policy, plugin: &PluginId, reply: &mut Self::Reply) -> ReplyOutcome {
        match policy.mode {
            Mode::Shadow => ReplyOutcome::Shadow(self.clone().take_allowed(&policy.allow, plugin, reply)),
            Mode::Enforce => self
                .take_allowed(&policy.allow, plugin, reply)
                .map_or_else(ReplyOutcome::Refused, ReplyOutcome::Applied),
        }
    }

    fn take_allowed(
        &mut self,
        allowed: &Allowed,
        plugin: &PluginId,
        reply: &mut Self::Reply,
    ) -> Result<Applied, Refusal> {
        self.check(allowed, reply)?;
        Ok(self.apply(plugin, reply)?)
    }
}

impl Question for CreateMerge {
    const EVENT: Event = Event::CreateContainer;
    type Reply = CreateReply;
    type View = Container;

    fn seen(&self) -> Container {
        self.view().clone()
    }

    fn check(&self, allowed: &Allowed, reply: &CreateReply) -> Result<(), NotAllowed> {
        allowed.check_create(reply)
    }

    fn apply(&mut self, plugin: &PluginId, reply: &mut CreateReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, reply)
    }
}

impl Question for UpdateMerge {
    const EVENT: Event = Event::UpdateContainer;
    type Reply = UpdateReply;
    type View = Resources;

    fn seen(&self) -> Resources {
        self.view().clone()
    }

    fn check(&self, allowed: &Allowed, reply: &UpdateReply) -> Result<(), NotAllowed> {
        allowed.check_update(reply, self.container_id())
    }

    fn apply(&mut self, plugin: &PluginId, reply: &mut UpdateReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, reply)
    }
}

impl Question for StopMerge {
    const EVENT: Event = Event::StopContainer;
    type Reply = StopReply;
    type View = ();

    fn seen(&self) {}

    fn check(&self, allowed: &Allowed, reply: &StopReply) -> Result<(), NotAllowed> {
        allowed.check_stop(reply)
    }

    fn apply(&mut self, plugin: &PluginId, reply: &mut StopReply) -> Result<Applied, MergeError> {
        self.apply_all_of(plugin, reply)
    }
}
