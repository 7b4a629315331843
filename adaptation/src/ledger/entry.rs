use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nri_proto::{Event, Field};

use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::PluginError;
use crate::config::policy::NotAllowed;
use crate::merge::{Dropped, MergeError, Touch, Value};

/// An entry of the [`Ledger`](super::Ledger): one thing that a plugin did or did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The sequence number, counted from 0.
    pub sequence: u64,
    /// The plugin, the request and the time. The entries of one reply share it.
    pub occasion: Arc<Occasion>,
    /// The recorded fact.
    pub what: EntryKind,
    /// Whether values were removed and texts shortened because the entry was too large.
    pub is_cut: bool,
}

/// The plugin, the request and the time of an entry. A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    /// When the plugin answered, or should have answered.
    pub when: SystemTime,
    /// The name of the plugin. A required plugin that is absent may lack the index.
    pub plugin: Arc<str>,
    /// The event of the request. `None` for an update that the plugin started itself.
    pub event: Option<Event>,
    /// The pod of the request, if it is known.
    pub pod: Option<Arc<str>>,
    /// The container that the entry is about. For an update or eviction of another container, that
    /// other container.
    pub container: Option<Arc<str>>,
    /// How long the plugin took to answer.
    pub took: Option<Duration>,
    /// Whether the reply was not applied because the plugin is in shadow mode.
    pub shadow: bool,
    /// Whether the reply was discarded because the request failed for another reason, or was
    /// dropped by its caller.
    pub in_vain: bool,
}

/// What a plugin did, or did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The plugin changed a field.
    Changed(Change),
    /// The plugin asked to evict the container.
    EvictionAsked {
        /// The reason that the plugin gave.
        reason: String,
    },
    /// A part of the reply was ignored.
    Dropped(Dropped),
    /// The plugin refused the request.
    Refused {
        /// The reason that the plugin gave.
        reason: String,
    },
    /// The plugin set a field that another plugin had set. The whole reply was discarded.
    Conflict(MergeError),
    /// The plugin wanted something that its policy does not permit. The whole reply was discarded,
    /// or only its changes to [hidden](NotAllowed::Hidden) containers.
    NotAllowed(NotAllowed),
    /// The plugin did not answer in time.
    TimedOut,
    /// The plugin was skipped because of its health state.
    PassedOver(State),
    /// The request to the plugin failed for another reason.
    Failed {
        /// The error, with its causes.
        reason: String,
    },
    /// The plugin answered too late for these changes, and they were not applied.
    Late {
        /// The fields that the reply would have changed.
        fields: Vec<Field>,
    },
    /// The plugin, as a validator, rejected the merged result of all plugins.
    Rejected {
        /// The reason that the plugin gave.
        reason: String,
    },
    /// The runtime could not apply an update that the plugin had asked for.
    UpdateFailed {
        /// The error.
        reason: String,
    },
    /// The runtime could not evict the container, as the plugin had asked for.
    EvictionFailed {
        /// The error.
        reason: String,
    },
}

/// A change of a field of the container, or of an entry of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The field that changed.
    pub field: Field,
    /// The entry of the field. Empty if the field has no entries.
    pub key: String,
    /// The value before the change, if any.
    pub before: Option<Value>,
    /// The value after the change, if any.
    pub after: Option<Value>,
}

impl Entry {
    /// Returns whether the entry is an applied change of the field, or of that entry of the field.
    pub(super) fn is_change_of(&self, field: Field, key: Option<&str>) -> bool {
        let EntryKind::Changed(change) = &self.what else { return false };
        let is_meant = change.field == field && key.is_none_or(|key| key == change.key);
        is_meant && !self.occasion.shadow && !self.occasion.in_vain
    }
}

impl Occasion {
    pub(super) fn is_about(&self, container: &str) -> bool {
        self.container.as_deref() == Some(container)
    }

    /// Returns the same occasion for another container.
    #[must_use]
    pub fn of_container(&self, container: &str) -> Self {
        Self { container: Some(container.into()), ..self.clone() }
    }
}

impl EntryKind {
    /// Records a reply that came too late, with the fields that it touches.
    pub fn late<'a>(touches: impl IntoIterator<Item = Touch<'a>>) -> Self {
        let fields: BTreeSet<_> = touches.into_iter().map(|touch| touch.field).collect();
        Self::Late { fields: fields.into_iter().collect() }
    }
}

impl From<&Cause> for EntryKind {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Plugin(PluginError::Refused { message, .. }) => Self::Refused { reason: message.clone() },
            Cause::TimedOut => Self::TimedOut,
            Cause::PassedOver(state) => Self::PassedOver(*state),
            Cause::CatchingUp => Self::PassedOver(State::Silent),
            Cause::NotAllowed(not_allowed) => Self::NotAllowed(not_allowed.clone()),
            Cause::Plugin(_)
            | Cause::Busy
            | Cause::Behind
            | Cause::CutShort
            | Cause::Absent
            | Cause::CallerDeadline => Self::Failed { reason: chain(cause) },
        }
    }
}

/// Formats an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
