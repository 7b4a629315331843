use super::{Resources, Unknown};

/// New limits for a container that exists (`ContainerUpdate` on the wire).
///
/// ```
/// use nri_proto::{Pids, Resources, Update, api};
///
/// let pids = Some(Pids { limit: 100, ..Pids::default() });
/// let update = Update::new("9a27", Resources { pids, ..Resources::default() });
/// assert_eq!(update.resources().and_then(|resources| resources.pids.as_ref()).map(|pids| pids.limit), Some(100));
///
/// let message = api::ContainerUpdate::from(update.clone());
/// assert_eq!(Update::from(message), update);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The runtime's id of the container.
    pub container_id: String,
    /// What only Linux has.
    pub linux: Option<LinuxUpdate>,
    /// Whether the request goes on if this cannot be done.
    pub ignore_failure: bool,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Update {
    /// Makes an update that must not fail.
    pub fn new(container_id: impl Into<String>, resources: Resources) -> Self {
        let linux = LinuxUpdate { resources: Some(resources), ..LinuxUpdate::default() };
        Self { container_id: container_id.into(), linux: Some(linux), ..Self::default() }
    }

    /// Makes an update that must not fail, and that says nothing yet.
    pub fn of(container_id: impl Into<String>) -> Self {
        Self { container_id: container_id.into(), ..Self::default() }
    }

    /// The new limits, made if there are none.
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

    /// Returns the new limits.
    pub fn resources(&self) -> Option<&Resources> {
        self.linux.as_ref()?.resources.as_ref()
    }
}

/// The part of an [`Update`] that only Linux has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxUpdate {
    /// The new limits. What is not set stays as it is.
    pub resources: Option<Resources>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// Asks to stop a container, to make room (`ContainerEviction` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// The runtime's id of the container.
    pub container_id: String,
    /// Why, for people.
    pub reason: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Eviction {
    /// Asks to stop this container.
    pub fn new(container_id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { container_id: container_id.into(), reason: reason.into(), unknown: Unknown::default() }
    }
}
