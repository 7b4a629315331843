//! The events that plugins subscribe to.
//!
//! - `event.rs`: [`Event`], with its number, its RPC and its classification.
//! - `mask.rs`: [`EventMask`], a set of events, as text and as on the wire.

mod mask;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter};

pub use self::mask::{EventMask, InvalidEvents, UnknownEvent, WireEvents};
use crate::schema::api;

/// An event in the lifecycle of a pod or container. Each has an RPC of the same name.
///
/// ```
/// use nri_proto::event::Event;
///
/// assert_eq!(Event::CreateContainer.number(), 4);
/// assert_eq!(Event::CreateContainer.to_string(), "CreateContainer");
/// assert_eq!(Event::from_number(4), Some(Event::CreateContainer));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A pod runs.
    RunPodSandbox = 1,
    /// A pod is stopped.
    StopPodSandbox = 2,
    /// A pod is removed.
    RemovePodSandbox = 3,
    /// A container is about to be created.
    CreateContainer = 4,
    /// A container was created.
    PostCreateContainer = 5,
    /// A container is about to be started.
    StartContainer = 6,
    /// A container was started.
    PostStartContainer = 7,
    /// A container is about to be updated.
    UpdateContainer = 8,
    /// A container was updated.
    PostUpdateContainer = 9,
    /// A container is stopped.
    StopContainer = 10,
    /// A container is removed.
    RemoveContainer = 11,
    /// The resources of a pod are about to change.
    UpdatePodSandbox = 12,
    /// The resources of a pod were changed.
    PostUpdatePodSandbox = 13,
    /// All plugins have adjusted a container, and validators judge the result.
    ValidateContainerAdjustment = 14,
}

impl Event {
    /// All events, ordered by number.
    pub const ALL: [Self; 14] = [
        Self::RunPodSandbox,
        Self::StopPodSandbox,
        Self::RemovePodSandbox,
        Self::CreateContainer,
        Self::PostCreateContainer,
        Self::StartContainer,
        Self::PostStartContainer,
        Self::UpdateContainer,
        Self::PostUpdateContainer,
        Self::StopContainer,
        Self::RemoveContainer,
        Self::UpdatePodSandbox,
        Self::PostUpdatePodSandbox,
        Self::ValidateContainerAdjustment,
    ];

    /// Returns the event with this number on the wire. `None` stands for an unknown event.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.number() == number)
    }

    /// Returns the number of the event on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// Returns the name of the RPC for this event.
    pub const fn rpc(self) -> &'static str {
        match self {
            Self::RunPodSandbox => "RunPodSandbox",
            Self::StopPodSandbox => "StopPodSandbox",
            Self::RemovePodSandbox => "RemovePodSandbox",
            Self::CreateContainer => "CreateContainer",
            Self::PostCreateContainer => "PostCreateContainer",
            Self::StartContainer => "StartContainer",
            Self::PostStartContainer => "PostStartContainer",
            Self::UpdateContainer => "UpdateContainer",
            Self::PostUpdateContainer => "PostUpdateContainer",
            Self::StopContainer => "StopContainer",
            Self::RemoveContainer => "RemoveContainer",
            Self::UpdatePodSandbox => "UpdatePodSandbox",
            Self::PostUpdatePodSandbox => "PostUpdatePodSandbox",
            Self::ValidateContainerAdjustment => "ValidateContainerAdjustment",
        }
    }

    /// Returns whether plugins can veto this event: if a plugin refuses the request, the runtime
    /// does not go ahead.
    ///
    /// All other events have already happened when plugins are notified, or happen regardless of
    /// the replies.
    ///
    /// ```
    /// use nri_proto::event::Event;
    ///
    /// assert!(Event::StartContainer.can_be_vetoed());
    /// assert!(!Event::PostStartContainer.can_be_vetoed());
    /// ```
    #[must_use]
    pub const fn can_be_vetoed(self) -> bool {
        match self {
            Self::RunPodSandbox
            | Self::UpdatePodSandbox
            | Self::CreateContainer
            | Self::StartContainer
            | Self::UpdateContainer
            | Self::ValidateContainerAdjustment => true,
            Self::StopPodSandbox
            | Self::RemovePodSandbox
            | Self::PostCreateContainer
            | Self::PostStartContainer
            | Self::PostUpdateContainer
            | Self::StopContainer
            | Self::RemoveContainer
            | Self::PostUpdatePodSandbox => false,
        }
    }

    /// Returns whether peers older than NRI 0.12 exchange this event through the shared
    /// `StateChange` RPC.
    ///
    /// Since NRI 0.12, each of these events has an RPC of its own, too. The other events always had
    /// one.
    ///
    /// ```
    /// use nri_proto::event::Event;
    ///
    /// assert!(Event::StartContainer.is_state_change());
    /// assert!(!Event::CreateContainer.is_state_change());
    /// ```
    #[must_use]
    pub const fn is_state_change(self) -> bool {
        match self {
            Self::RunPodSandbox
            | Self::StopPodSandbox
            | Self::RemovePodSandbox
            | Self::PostCreateContainer
            | Self::StartContainer
            | Self::PostStartContainer
            | Self::PostUpdateContainer
            | Self::RemoveContainer
            | Self::PostUpdatePodSandbox => true,
            Self::CreateContainer
            | Self::UpdateContainer
            | Self::StopContainer
            | Self::UpdatePodSandbox
            | Self::ValidateContainerAdjustment => false,
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.rpc())
    }
}

impl From<Event> for api::Event {
    fn from(event: Event) -> Self {
        match event {
            Event::RunPodSandbox => Self::RUN_POD_SANDBOX,
            Event::StopPodSandbox => Self::STOP_POD_SANDBOX,
            Event::RemovePodSandbox => Self::REMOVE_POD_SANDBOX,
            Event::CreateContainer => Self::CREATE_CONTAINER,
            Event::PostCreateContainer => Self::POST_CREATE_CONTAINER,
            Event::StartContainer => Self::START_CONTAINER,
            Event::PostStartContainer => Self::POST_START_CONTAINER,
            Event::UpdateContainer => Self::UPDATE_CONTAINER,
            Event::PostUpdateContainer => Self::POST_UPDATE_CONTAINER,
            Event::StopContainer => Self::STOP_CONTAINER,
            Event::RemoveContainer => Self::REMOVE_CONTAINER,
            Event::UpdatePodSandbox => Self::UPDATE_POD_SANDBOX,
            Event::PostUpdatePodSandbox => Self::POST_UPDATE_POD_SANDBOX,
            Event::ValidateContainerAdjustment => Self::VALIDATE_CONTAINER_ADJUSTMENT,
        }
    }
}
