//! Reads and shows permissions in a configuration file.

use nri_proto::{Event, EventMask, Field};
use toml::Value;

use super::Allowed;
use super::AllowedChanges;
use crate::config::settings::{Setting, nearest};

const CHANGES: &str = "changes";
const EVENTS: &str = "events";

const RESOURCES: &str = "Resources";
const UPDATES: &str = "Updates";
const EVICTIONS: &str = "Evictions";

/// The fields that [`RESOURCES`] stands for: those of an update.
const RESOURCE_FIELDS: [Field; 20] = [
    Field::MemLimit,
    Field::MemReservation,
    Field::MemSwapLimit,
    Field::MemKernelLimit,
    Field::MemTCPLimit,
    Field::MemSwappiness,
    Field::MemDisableOomKiller,
    Field::MemUseHierarchy,
    Field::CPUShares,
    Field::CPUQuota,
    Field::CPUPeriod,
    Field::CPURealtimeRuntime,
    Field::CPURealtimePeriod,
    Field::CPUSetCPUs,
    Field::CPUSetMems,
    Field::PidsLimit,
    Field::HugepageLimits,
    Field::BlockioClass,
    Field::RdtClass,
    Field::CgroupsUnified,
];

impl Setting for Allowed {
    fn read(value: &Value) -> Result<Self, String> {
        let table = value
            .as_table()
            .ok_or_else(|| r#"a table such as { changes = ["Env"], events = ["CreateContainer"] }"#.to_owned())?;
        let mut allowed = Self::default();
        for (key, value) in table {
            match key.as_str() {
                CHANGES => allowed.changes = Some(changes(value)?),
                EVENTS => allowed.events = Some(events(value)?),
                _ => return Err(format!("a table of changes and events{}", instead(key, [CHANGES, EVENTS]))),
            }
        }
        Ok(allowed)
    }

    fn show(&self) -> String {
        let changes = self.changes.as_ref().map(|changes| list(CHANGES, &shown(changes)));
        let events = self.events.map(|events| list(EVENTS, &events.iter().map(Event::rpc).collect::<Vec<_>>()));
        let said: Vec<_> = [changes, events].into_iter().flatten().collect();
        if said.is_empty() { "everything".to_owned() } else { said.join(" ") }
    }
}

fn changes(value: &Value) -> Result<AllowedChanges, String> {
    let mut changes = AllowedChanges::default();
    for word in words(CHANGES, value)? {
        match word {
            RESOURCES => changes.fields.extend(RESOURCE_FIELDS),
            UPDATES => changes.updates = true,
            EVICTIONS => changes.evictions = true,
            _ => _ = changes.fields.insert(field(word)?),
        }
    }
    Ok(changes)
}

fn field(name: &str) -> Result<Field, String> {
    let groups = [RESOURCES, UPDATES, EVICTIONS].map(str::to_owned);
    let nameable = || Field::all().filter(|field| *field != Field::None);
    nameable().find(|field| field.to_string() == name).ok_or_else(|| {
        let known: Vec<_> = nameable().map(|field| field.to_string()).chain(groups).collect();
        let instead = instead(name, known.iter().map(String::as_str));
        format!("a table whose changes are fields, {RESOURCES}, {UPDATES} and {EVICTIONS}{instead}")
    })
}

fn events(value: &Value) -> Result<EventMask, String> {
    let mut events = EventMask::EMPTY;
    for word in words(EVENTS, value)? {
        let named: EventMask = word.parse().map_err(|_| {
            let known = Event::ALL.iter().map(|event| event.rpc()).chain(["all", "pod", "container"]);
            format!("a table whose events are those of NRI{}", instead(word, known))
        })?;
        events = events | named;
    }
    Ok(events)
}

fn words<'v>(key: &str, value: &'v Value) -> Result<Vec<&'v str>, String> {
    let words = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
    words.ok_or_else(|| format!("a table whose {key} are a list of texts"))
}

/// Returns the end of an error text: the unknown word, and the word that was probably meant.
fn instead<'c>(word: &str, known: impl IntoIterator<Item = &'c str>) -> String {
    match nearest(word, known.into_iter().map(|known| (known, known.to_owned()))) {
        Some(nearest) => format!(": there is no {word:?}, did you mean {nearest:?}?"),
        None => format!(": there is no {word:?}"),
    }
}

fn shown(changes: &AllowedChanges) -> Vec<String> {
    let AllowedChanges { fields, updates, evictions } = changes;
    let all_resources = RESOURCE_FIELDS.iter().all(|field| fields.contains(field));
    let groups = [(RESOURCES, all_resources), (UPDATES, *updates), (EVICTIONS, *evictions)];
    let alone = fields.iter().filter(|field| !(all_resources && RESOURCE_FIELDS.contains(field)));
    let groups = groups.into_iter().filter(|(_, is_said)| *is_said).map(|(word, _)| word.to_owned());
    alone.map(ToString::to_string).chain(groups).collect()
}

fn list(key: &str, words: &[impl AsRef<str>]) -> String {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    format!("{key}=[{}]", words.join(" "))
}
