//! What becomes of a reply: whether the policy lets it count, and what it changes. A request and a
//! dry run go the same way.

use nri_proto::{Container, CreateReply, Event, PluginId, Resources, StopReply, UpdateReply};

use crate::config::policy::{Allowed, Mode, NotAllowed, Policy};
use crate::merge::{Applied, CreateMerge, MergeError, StopMerge, UpdateMerge};

/// What becomes of a plugin's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// It counts.
    Applied(Applied),
    /// It would count, were its plugin not on trial.
    Shadow(Result<Applied, Refusal>),
    /// It does not count, and the request fails.
    Refused(Refusal),
    /// The plugin sees no such event, or no pods of this namespace.
    NotAsked,
}

/// Why a reply is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The plugin may not do what it asks for.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// It cannot be merged.
    #[error(transparent)]
    Conflict(#[from] MergeError),
}

/// A merge, by the question whose replies it takes.
pub(crate) trait Question: Clone {
    const EVENT: Event;
    type Reply;
    type View;

    fn seen(&self) -> Self::View;
    fn check(&self, allowed: &Allowed, reply: &Self::Reply) -> Result<(), NotAllowed>;
    /// Applies a reply, of which nothing is left.
    fn apply(&mut self, plugin: &PluginId, reply: &mut Self::Reply) -> Result<Applied, MergeError>;

    /// Takes a reply, as far as the policy lets it count.
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
