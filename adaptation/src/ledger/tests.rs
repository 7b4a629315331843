mod bound;
mod lines;
mod masks;
mod objects;
mod reading;

use std::time::{Duration, SystemTime};

use nri_proto::{Event, Field};

use super::*;
use crate::merge::Value;

fn occasion(plugin: &str, container: &str) -> Occasion {
    Occasion {
        when: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        plugin: plugin.into(),
        event: Some(Event::CreateContainer),
        pod: Some("pod".into()),
        container: Some(container.into()),
        took: None,
        shadow: false,
        in_vain: false,
    }
}

fn text(text: &str) -> Option<Value> {
    Some(Value::Text(text.to_owned()))
}

fn change(field: Field, key: &str, before: Option<Value>, after: Option<Value>) -> EntryKind {
    EntryKind::Changed(Change { field, key: key.to_owned(), before, after })
}

fn env(key: &str, before: Option<&str>, after: Option<&str>) -> EntryKind {
    change(Field::Env, key, before.and_then(text), after.and_then(text))
}

fn refusal(length: usize) -> EntryKind {
    EntryKind::Refused { reason: "x".repeat(length) }
}
