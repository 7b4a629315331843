use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nri_proto::{Event, Field};

use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::PluginError;
use crate::config::policy::NotAllowed;
use crate::merge::{Dropped, MergeError, Touch, Value};

/// One thing that a [`Ledger`](super::Ledger) remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number: each entry has one more than the one before it.
    pub sequence: u64,
    /// When and about what. The entries of one reply share it.
    pub occasion: Arc<Occasion>,
    /// What happened.
    pub what: What,
    /// Whether values were left out and texts cut, since it was too large to be kept whole.
    pub is_cut: bool,
}

/// When something happened, and about what. A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    /// When the plugin answered, or should have.
    pub when: SystemTime,
    /// The plugin. One that is required and absent may have no index.
    pub plugin: Arc<str>,
    /// What it was asked about; `None` for an update that nobody asked it for.
    pub event: Option<Event>,
    /// The pod, if it is known.
    pub pod: Option<Arc<str>>,
    /// The container that it is about. For updates and evictions of others that is the other one.
    pub container: Option<Arc<str>>,
    /// How long the plugin took.
    pub took: Option<Duration>,
    /// Whether nothing came of it, as the plugin is on trial.
    pub shadow: bool,
    /// Whether nothing came of it, as the request failed for another reason.
    pub in_vain: bool,
}

/// What a plugin did, or did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It changed something.
    Changed(Change),
    /// It asked to stop the container.
    EvictionAsked {
        /// Why, as it says.
        reason: String,
    },
    /// Part of what it said was not used.
    Dropped(Dropped),
    /// It said no.
    Refused {
        /// Why, as it says.
        reason: String,
    },
    /// It wanted what another plugin had set, and nothing of its reply was used.
    Conflict(MergeError),
    /// It wanted what it may not do. Nothing of its reply was used, or all but what it wanted of
    /// [hidden](NotAllowed::Hidden) containers.
    NotAllowed(NotAllowed),
    /// It did not answer in time.
    TimedOut,
    /// It was not asked, because of the state it is in.
    PassedOver(State),
    /// It has no say for another reason.
    Failed {
        /// Why.
        reason: String,
    },
    /// Its answer came too late to be used.
    Late {
        /// What it would have changed.
        fields: Vec<Field>,
    },
    /// It rejected, as a validator, what all plugins wanted.
    Rejected {
        /// Why, as it says.
        reason: String,
    },
    /// The runtime could not make an update that it had asked for.
    UpdateFailed {
        /// Why.
        reason: String,
    },
    /// The runtime could not stop the container, which it had asked for.
    EvictionFailed {
        /// Why.
        reason: String,
    },
}

/// A change of a field of the container, or of an entry of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The field.
    pub field: Field,
    /// The entry of the field; empty if it has none.
    pub key: String,
    /// What it was, if anything.
    pub before: Option<Value>,
    /// What it became, if anything.
    pub after: Option<Value>,
}

impl Entry {
    /// Whether it is a change of a field, or of one of its entries, that was applied.
    pub(super) fn is_change_of(&self, field: Field, key: Option<&str>) -> bool {
        let What::Changed(change) = &self.what else { return false };
        let is_meant = change.field == field && key.is_none_or(|key| key == change.key);
        is_meant && !self.occasion.shadow && !self.occasion.in_vain
    }
}

impl Occasion {
    pub(super) fn is_about(&self, container: &str) -> bool {
        self.container.as_deref() == Some(container)
    }

    /// The same, about another container.
    #[must_use]
    pub fn of_container(&self, container: &str) -> Self {
        Self { container: Some(container.into()), ..self.clone() }
    }
}

impl What {
    /// An answer that came too late to be used, by what it touches.
    pub fn late<'a>(touches: impl IntoIterator<Item = Touch<'a>>) -> Self {
        let fields: BTreeSet<_> = touches.into_iter().map(|touch| touch.field).collect();
        Self::Late { fields: fields.into_iter().collect() }
    }
}

impl From<&Cause> for What {
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

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
