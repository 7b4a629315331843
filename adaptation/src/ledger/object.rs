//! An entry as one flat serialized object.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Entry;
use super::EntryKind;
use super::Ledger;
use super::Occasion;
use super::line::milliseconds;
use crate::config::policy::NotAllowed;
use crate::merge::{Conflict, MergeError};

/// Serializes the number of dropped entries, and all entries that remain.
impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.all();
        let entries: Vec<_> = all.iter().map(|entry| &**entry).collect();
        let mut object = serializer.serialize_map(Some(2))?;
        object.serialize_entry("forgotten", &self.n_forgotten())?;
        object.serialize_entry("entries", &entries)?;
        object.end()
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { sequence, occasion, what, is_cut } = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("sequence", sequence)?;
        occasion.write(&mut object)?;
        object.serialize_entry("what", what.name())?;
        what.write(&mut object)?;
        if *is_cut {
            object.serialize_entry("cut", is_cut)?;
        }
        object.end()
    }
}

impl Occasion {
    fn write<M: SerializeMap>(&self, object: &mut M) -> Result<(), M::Error> {
        let Self { when, plugin, event, pod, container, took, shadow, in_vain } = self;
        object.serialize_entry("when", &instant(*when))?;
        object.serialize_entry("plugin", &**plugin)?;
        entry(object, "event", event.map(|event| event.rpc()))?;
        entry(object, "pod", pod.as_deref())?;
        entry(object, "container", container.as_deref())?;
        entry(object, "took_ms", took.map(|took| (milliseconds(took) * 1000.0).round() / 1000.0))?;
        entry(object, "shadow", shadow.then_some(true))?;
        entry(object, "in_vain", in_vain.then_some(true))
    }
}

impl EntryKind {
    fn name(&self) -> &'static str {
        match self {
            Self::Changed(_) => "changed",
            Self::EvictionAsked { .. } => "eviction-asked",
            Self::Dropped(_) => "dropped",
            Self::Refused { .. } => "refused",
            Self::Conflict(_) => "conflict",
            Self::NotAllowed(_) => "not-allowed",
            Self::TimedOut => "timed-out",
            Self::PassedOver(_) => "passed-over",
            Self::Failed { .. } => "failed",
            Self::Late { .. } => "late",
            Self::Rejected { .. } => "rejected",
            Self::UpdateFailed { .. } => "update-failed",
            Self::EvictionFailed { .. } => "eviction-failed",
        }
    }

    fn write<M: SerializeMap>(&self, object: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Changed(change) => {
                subject(object, change.field, &change.key)?;
                entry(object, "secret", change.is_secret().then_some(true))?;
                entry(object, "before", change.before.as_ref())?;
                entry(object, "after", change.after.as_ref())
            }
            Self::Dropped(dropped) => object.serialize_entry("reason", &dropped.to_string()),
            Self::Conflict(error) => {
                if let MergeError::Conflict(Conflict { container: _, field, key, claimer: _, owner }) = error {
                    subject(object, *field, key)?;
                    object.serialize_entry("owner", owner)?;
                }
                object.serialize_entry("reason", &error.to_string())
            }
            Self::NotAllowed(error) => {
                if let NotAllowed::Field { field, key } = error {
                    subject(object, *field, key)?;
                }
                object.serialize_entry("reason", &error.to_string())
            }
            Self::TimedOut => Ok(()),
            Self::PassedOver(state) => object.serialize_entry("state", &state.to_string()),
            Self::Late { fields } => {
                let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
                object.serialize_entry("fields", &fields)
            }
            Self::EvictionAsked { reason }
            | Self::Refused { reason }
            | Self::Failed { reason }
            | Self::Rejected { reason }
            | Self::UpdateFailed { reason }
            | Self::EvictionFailed { reason } => object.serialize_entry("reason", reason),
        }
    }
}

/// Writes a field unless its value is unknown.
fn entry<M: SerializeMap>(object: &mut M, key: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| object.serialize_entry(key, &value))
}

fn subject<M: SerializeMap>(object: &mut M, field: nri_proto::Field, key: &str) -> Result<(), M::Error> {
    object.serialize_entry("field", &field.to_string())?;
    entry(object, "key", Some(key).filter(|key| !key.is_empty()))
}

/// Formats a time as RFC 3339 in UTC. A time out of range becomes the epoch.
fn instant(when: SystemTime) -> String {
    Timestamp::try_from(when).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}
