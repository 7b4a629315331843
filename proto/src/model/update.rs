//! Updates of existing containers, and evictions.

use super::{Resources, Unknown};

/// A change to the resources of an existing container (`ContainerUpdate` on the wire).
///
/// ```
/// use nri_proto::{Pids, Resources, Update, api};
///
/// let pids = Some(Pids { limit: 100, ..Pids::default() });
/// let update = Update::new("9a27", Resources { pids, ..Resources::default() });
/// assert_eq!(update.resources().unwrap().pids.as_ref().unwrap().limit, 100);
///
/// let message = api::ContainerUpdate::from(update.clone());
/// assert_eq!(Update::from(message), update);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The id of the container.
    pub container_id: String,
    /// The Linux-specific part.
    pub linux: Option<LinuxUpdate>,
    /// Whether the request continues if the update fails.
    pub ignore_failure: bool,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Update {
    /// Creates an update with new resources. If the update fails, so does the request.
    pub fn new(container_id: impl Into<String>, resources: Resources) -> Self {
        let linux = LinuxUpdate { resources: Some(resources), ..LinuxUpdate::default() };
        Self { container_id: container_id.into(), linux: Some(linux), ..Self::default() }
    }

    /// Creates an update without changes. If the update fails, so does the request.
    pub fn of(container_id: impl Into<String>) -> Self {
        Self { container_id: container_id.into(), ..Self::default() }
    }

    /// Returns the new resources, which are created if missing.
    ///
    /// ```
    /// use nri_proto::Update;
    ///
    /// let mut update = Update::of("9a27");
    /// update.resources_mut().cpu_mut().shares = Some(512);
    /// ```
    pub fn resources_mut(&mut self) -> &mut Resources {
        self.linux.get_or_insert_default().resources.get_or_insert_default()
    }

    /// Returns the new resources.
    pub fn resources(&self) -> Option<&Resources> {
        self.linux.as_ref()?.resources.as_ref()
    }
}

/// The Linux-specific part of an [`Update`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxUpdate {
    /// The new resources. Values that are not set do not change.
    pub resources: Option<Resources>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// A request to stop a container, to free resources (`ContainerEviction` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// The id of the container.
    pub container_id: String,
    /// The reason, as a message for people.
    pub reason: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Eviction {
    /// Creates a request to stop this container.
    pub fn new(container_id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { container_id: container_id.into(), reason: reason.into(), unknown: Unknown::default() }
    }
}
