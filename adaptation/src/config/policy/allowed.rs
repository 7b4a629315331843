//! The permissions of a plugin.

mod setting;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use nri_proto::quote::quoted;
use nri_proto::{CreateReply, Event, EventMask, Eviction, Field, StopReply, Update, UpdateReply};

use crate::limits;
use crate::merge::Touch;

/// The permissions of a plugin: which changes it may make, and which events it may see. Without
/// settings, everything is allowed.
///
/// In a file the permissions are written as
/// `allow = { changes = ["Env", "Resources"], events = ["CreateContainer"] }`. The changes are:
///
/// - fields, by the names that conflicts use ([`Field`]), and `Resources`, which stands for all
///   fields that an update may set;
/// - `Updates`: updates of containers other than the one that a request is about. Only the fields
///   that are allowed may be updated;
/// - `Evictions`.
///
/// A field and the cgroup file to which it is written are two changes, as in Go. `CgroupsUnified`
/// therefore permits every limit that has a file, such as `memory.max`, also without `MemLimit`.
///
/// With `events = []` the plugin sees no pods and containers at all, and may change none.
///
/// ```
/// use nri_adaptation::policy::{Allowed, AllowedChanges};
/// use nri_proto::{Adjustment, CreateReply, EnvVar, Field};
///
/// let allowed = Allowed { changes: Some(AllowedChanges::of([Field::Mounts])), ..Allowed::default() };
/// let mut adjustment = Adjustment::default();
/// adjustment.env.set(EnvVar::new("LD_PRELOAD", "/evil.so"))?;
/// let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
///
/// let error = allowed.check_create(&reply).unwrap_err();
/// assert_eq!(error.to_string(), "it may not touch Env LD_PRELOAD (allow.changes)");
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The changes that the plugin may make; `None` allows all.
    pub changes: Option<AllowedChanges>,
    /// The events that the plugin may see; `None` allows all.
    pub events: Option<EventMask>,
}

/// The changes that a plugin may make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedChanges {
    /// The fields that the plugin may change. Removing an entry of a field is a change.
    pub fields: BTreeSet<Field>,
    /// Whether the plugin may update containers other than the one that a request is about.
    pub updates: bool,
    /// Whether the plugin may ask for evictions.
    pub evictions: bool,
}

/// A change in a plugin's reply that the plugin may not make. The whole reply is refused, except
/// that changes of [hidden](Self::Hidden) containers are only left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// The reply changes a field.
    #[error("it may not touch {} (allow.changes)", TouchedField { field: *field, key })]
    Field {
        /// The field.
        field: Field,
        /// The key of the entry, such as the name of an environment variable; empty if the field
        /// has no entries.
        key: String,
    },
    /// The reply updates a container other than the one that the request is about.
    #[error("it may not update other containers, and updates {container} (allow.changes)")]
    Update {
        /// The container.
        container: String,
    },
    /// The reply asks for an eviction.
    #[error("it may not evict containers, and evicts {container} (allow.changes)")]
    Eviction {
        /// The container.
        container: String,
    },
    /// The reply changes a container that the plugin may not see, or that does not exist.
    #[error(
        "it may not change container {}, which is in no pod that it may see (namespaces, allow.events)",
        quoted(container)
    )]
    Hidden {
        /// The container.
        container: String,
    },
}

impl Allowed {
    /// Returns whether the plugin may change a field.
    #[must_use]
    pub fn allows_field(&self, field: Field) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.fields.contains(&field))
    }

    /// Returns whether the plugin may see an event.
    #[must_use]
    pub fn allows_event(&self, event: Event) -> bool {
        self.events.is_none_or(|events| events.contains(event))
    }

    /// Returns whether the plugin may see no event. Such a plugin is not shown the existing pods
    /// and containers either.
    #[must_use]
    pub fn hears_nothing(&self) -> bool {
        self.events.is_some_and(EventMask::is_empty)
    }

    /// Returns whether the plugin may update containers other than the one that a request is about.
    #[must_use]
    pub fn allows_updates(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.updates)
    }

    /// Returns whether the plugin may ask for evictions.
    #[must_use]
    pub fn allows_evictions(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.evictions)
    }

    /// Checks the reply of a plugin to the creation of a container.
    pub fn check_create(&self, reply: &CreateReply) -> Result<(), NotAllowed> {
        if self.changes.is_none() {
            return Ok(());
        }
        let CreateReply { adjustment, updates, evictions, unknown: _ } = reply;
        if let Some(adjustment) = adjustment {
            self.check_touches(&Touch::of_adjustment(adjustment))?;
        }
        self.check_unasked(updates, evictions)
    }

    /// Checks the reply of a plugin to the update of the container `own`.
    pub fn check_update(&self, reply: &UpdateReply, own: &str) -> Result<(), NotAllowed> {
        let UpdateReply { updates, evictions, unknown: _ } = reply;
        self.check_updates(updates, Some(own))?;
        self.check_evictions(evictions)
    }

    /// Checks the reply of a plugin to the stop of a container.
    pub fn check_stop(&self, reply: &StopReply) -> Result<(), NotAllowed> {
        let StopReply { updates, unknown: _ } = reply;
        self.check_updates(updates, None)
    }

    /// Checks the updates and evictions that a plugin requests on its own initiative.
    pub fn check_unasked(&self, updates: &[Update], evictions: &[Eviction]) -> Result<(), NotAllowed> {
        self.check_updates(updates, None)?;
        self.check_evictions(evictions)
    }

    fn check_updates(&self, updates: &[Update], own: Option<&str>) -> Result<(), NotAllowed> {
        if self.changes.is_none() {
            return Ok(());
        }
        for update in updates {
            if !self.allows_updates() && own != Some(&*update.container_id) {
                return Err(NotAllowed::Update { container: limits::cut(&update.container_id) });
            }
            self.check_touches(&Touch::of_update(update))?;
        }
        Ok(())
    }

    fn check_evictions(&self, evictions: &[Eviction]) -> Result<(), NotAllowed> {
        match evictions.first() {
            Some(eviction) if !self.allows_evictions() => {
                Err(NotAllowed::Eviction { container: limits::cut(&eviction.container_id) })
            }
            _ => Ok(()),
        }
    }

    fn check_touches(&self, touches: &[Touch<'_>]) -> Result<(), NotAllowed> {
        match touches.iter().find(|touch| !self.allows_field(touch.field)) {
            Some(touch) => Err(NotAllowed::Field { field: touch.field, key: limits::cut(touch.key) }),
            None => Ok(()),
        }
    }
}

impl AllowedChanges {
    /// Creates permissions to change these fields of the container that a request is about, and
    /// nothing else.
    pub fn of(fields: impl IntoIterator<Item = Field>) -> Self {
        Self { fields: fields.into_iter().collect(), ..Self::default() }
    }
}

/// A field and the key of its entry, displayed as in error texts.
struct TouchedField<'a> {
    field: Field,
    key: &'a str,
}

impl Display for TouchedField<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { field, key } = self;
        let space = if key.is_empty() { "" } else { " " };
        write!(f, "{field}{space}{key}")
    }
}
