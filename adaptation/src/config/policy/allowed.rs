//! What a plugin may do.

mod setting;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use nri_proto::quote::quoted;
use nri_proto::{CreateReply, Event, EventMask, Eviction, Field, StopReply, Update, UpdateReply};

use crate::limits;
use crate::merge::Touch;

/// What a plugin may change, and which events it may see. Where nothing is said, all.
///
/// In a file it is `allow = { changes = ["Env", "Resources"], events = ["CreateContainer"] }`.
/// Changes are
///
/// * fields, by the names that conflicts have ([`Field`]), and `Resources`, which is all fields
///   that an update may set;
/// * `Updates`: of containers other than the one that a request is about, within the fields that
///   are allowed;
/// * `Evictions`.
///
/// With `events = []` the plugin is not even shown what there is, and may change nothing of it.
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
    /// What it may change; `None` for everything.
    pub changes: Option<AllowedChanges>,
    /// What it may see; `None` for everything.
    pub events: Option<EventMask>,
}

/// The changes that a plugin may make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedChanges {
    /// The fields, whatever is done to them: to remove something is to change it.
    pub fields: BTreeSet<Field>,
    /// Whether it may update containers other than the one that a request is about.
    pub updates: bool,
    /// Whether it may ask for evictions.
    pub evictions: bool,
}

/// What a reply does that its plugin may not do. The reply is refused as a whole, but for what it
/// does to [hidden](Self::Hidden) containers: that is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// It changes a field.
    #[error("it may not touch {} (allow.changes)", TouchedField { field: *field, key })]
    Field {
        /// The field.
        field: Field,
        /// The entry of the field; empty if it has none.
        key: String,
    },
    /// It updates a container other than the one that the request is about.
    #[error("it may not update other containers, and updates {container} (allow.changes)")]
    Update {
        /// The container.
        container: String,
    },
    /// It asks for an eviction.
    #[error("it may not evict containers, and evicts {container} (allow.changes)")]
    Eviction {
        /// The container.
        container: String,
    },
    /// It changes a container that it may not see, or that is not there.
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
    /// Says whether the field may be changed.
    #[must_use]
    pub fn allows_field(&self, field: Field) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.fields.contains(&field))
    }

    /// Says whether the event may be seen.
    #[must_use]
    pub fn allows_event(&self, event: Event) -> bool {
        self.events.is_none_or(|events| events.contains(event))
    }

    /// Says whether no event may be seen. Whoever may hear of nothing is not shown what there is,
    /// either.
    #[must_use]
    pub fn hears_nothing(&self) -> bool {
        self.events.is_some_and(EventMask::is_empty)
    }

    /// Says whether other containers may be updated.
    #[must_use]
    pub fn allows_updates(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.updates)
    }

    /// Says whether evictions may be asked for.
    #[must_use]
    pub fn allows_evictions(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.evictions)
    }

    /// Looks at what a plugin replies when a container is created.
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

    /// Looks at what a plugin replies when the container `own` is updated.
    pub fn check_update(&self, reply: &UpdateReply, own: &str) -> Result<(), NotAllowed> {
        let UpdateReply { updates, evictions, unknown: _ } = reply;
        self.check_updates(updates, Some(own))?;
        self.check_evictions(evictions)
    }

    /// Looks at what a plugin replies when a container is stopped.
    pub fn check_stop(&self, reply: &StopReply) -> Result<(), NotAllowed> {
        let StopReply { updates, unknown: _ } = reply;
        self.check_updates(updates, None)
    }

    /// Looks at what a plugin asks for although nobody asked it.
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
    /// These fields of the container that a request is about, and nothing else.
    pub fn of(fields: impl IntoIterator<Item = Field>) -> Self {
        Self { fields: fields.into_iter().collect(), ..Self::default() }
    }
}

/// A changed field, and the entry in it, as error texts write them.
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
