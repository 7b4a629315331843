//! Describes how two specs differ, and which plugin made each change.
//!
//! ```
//! use cri_domain::generator::diff;
//! use nri_proto::{Field, FieldOwners, Owner, PluginId};
//! use serde_json::json;
//!
//! let plugin: PluginId = "10-a".parse()?;
//! let mut owners = FieldOwners::default();
//! let env = owners.compound.entry(Field::Env).or_default();
//! env.entries.insert("HTTP_PROXY".to_owned(), Owner::of_removed(&plugin));
//!
//! let before = json!({"process": {"env": ["PATH=/bin", "HTTP_PROXY=http://proxy"], "cwd": "/"}});
//! let after = json!({"process": {"env": ["PATH=/bin"], "cwd": "/tmp"}});
//! let differences = diff::diff(&before, &after, Some(&owners));
//! assert_eq!(differences[0].to_string(), "env HTTP_PROXY removed by 10-a");
//! assert_eq!(differences[1].to_string(), r#"process.cwd changed from "/" to "/tmp""#);
//! assert_eq!(differences.len(), 2);
//! # Ok::<(), nri_proto::plugin_id::PluginIdError>(())
//! ```
//!
//! Files:
//!
//! - `places.rs` names the places in a spec, and the fields that they belong to.

mod places;

use std::fmt;

use nri_proto::{Field, FieldOwners, Owner};
use serde_json::{Map, Value};

use self::places::{RULE, SpecPlace, SplitEntry, place};

/// One difference between two specs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The name of the changed entry, such as `env HTTP_PROXY` or `linux.resources.memory.limit`.
    pub what: String,
    /// The value in the first spec, if it is set there.
    pub before: Option<Value>,
    /// The value in the second spec, if it is set there.
    pub after: Option<Value>,
    /// The plugin that owns the change, if it is known.
    pub owner: Option<Owner>,
}

/// Writes one clause that says what was added, removed or changed, and by which plugin. Objects and
/// long values are not shown.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, before, after, owner } = self;
        match (before.as_ref(), after.as_ref()) {
            (None, None) => write!(f, "{what} is the same")?,
            (None, Some(after)) => match short(after) {
                Some(after) => write!(f, "{what} set to {after}")?,
                None => write!(f, "{what} added")?,
            },
            (Some(_), None) => write!(f, "{what} removed")?,
            (Some(before), Some(after)) => match (short(before), short(after)) {
                (Some(before), Some(after)) => write!(f, "{what} changed from {before} to {after}")?,
                _ => write!(f, "{what} changed")?,
            },
        }
        match owner {
            Some(owner) => write!(f, " by {}", owner.plugins().collect::<Vec<_>>().join(", ")),
            None => Ok(()),
        }
    }
}

const LONGEST: usize = 120;

fn short(value: &Value) -> Option<String> {
    match value {
        Value::Object(_) => None,
        Value::Array(list) if list.iter().any(|entry| entry.is_object() || entry.is_array()) => None,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Some(value.to_string()).filter(|text| text.len() <= LONGEST)
        }
    }
}

/// Returns the differences between two specs, in the order of the first; new entries come last.
/// `owners` are the field owners of the container.
///
/// Lists whose entries have names are compared by name: variables, mounts, devices, namespaces,
/// rlimits. The order of such a list does not matter.
pub fn diff(before: &Value, after: &Value, owners: Option<&FieldOwners>) -> Vec<Difference> {
    let devices = [after, before].into_iter().flat_map(|spec| {
        let devices = spec.pointer("/linux/devices").and_then(Value::as_array);
        devices.into_iter().flatten().filter_map(|device| Some((number(device)?, device.get("path")?.as_str()?)))
    });
    let mut found = Comparison { owners, devices: devices.collect(), found: vec![] };
    found.compare(&mut vec![], Some(before), Some(after));
    found.found
}

/// Returns the number of a device, in the form that identifies its access rule.
fn number(device: &Value) -> Option<String> {
    let kind = match device.get("type")?.as_str()? {
        "u" => "c",
        kind => kind,
    };
    Some(format!("{kind} {}:{}", device.get("major")?, device.get("minor")?))
}

struct Comparison<'a> {
    owners: Option<&'a FieldOwners>,
    /// The devices of both specs: number and path.
    devices: Vec<(String, &'a str)>,
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn compare(&mut self, path: &mut Vec<String>, before: Option<&Value>, after: Option<&Value>) {
        if before == after {
            return;
        }
        let place = place(path);
        match (place, before, after) {
            (Some(SpecPlace { split: Some(name), .. }), before, after) if is_list(before) && is_list(after) => {
                let (before, after) = (by_name(before, name), by_name(after, name));
                self.compare_members(path, &before, &after);
            }
            // A value that one plugin owns as a whole is one difference.
            (Some(SpecPlace { whole: true, .. }), before, after) => self.differs(path, before, after),
            (_, Some(Value::Object(before)), Some(Value::Object(after))) => self.compare_members(path, before, after),
            // A section that is added or removed is described by its members.
            (_, None | Some(Value::Null), Some(Value::Object(after))) if !after.is_empty() => {
                self.compare_members(path, &Map::new(), after);
            }
            (_, Some(Value::Object(before)), None | Some(Value::Null)) if !before.is_empty() => {
                self.compare_members(path, before, &Map::new());
            }
            (_, before, after) => self.differs(path, before, after),
        }
    }

    fn compare_members(&mut self, path: &mut Vec<String>, before: &Map<String, Value>, after: &Map<String, Value>) {
        let new = after.keys().filter(|key| !before.contains_key(*key));
        for key in before.keys().chain(new) {
            path.push(key.clone());
            self.compare(path, before.get(key), after.get(key));
            path.pop();
        }
    }

    fn differs(&mut self, path: &[String], before: Option<&Value>, after: Option<&Value>) {
        let place = place(path);
        let what = match place {
            Some(SpecPlace { label: Some(label), key, .. }) => format!("{label} {key}"),
            _ => path.join("."),
        };
        let owner = place.and_then(|place| self.owner(place)).cloned();
        let some = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
        self.found.push(Difference { what, before: some(before), after: some(after), owner });
    }
}

impl<'a> Comparison<'a> {
    fn owner(&self, place: SpecPlace<'_>) -> Option<&'a Owner> {
        let owners = self.owners?;
        if place.label == Some(RULE) {
            let mut paths = self.devices.iter().filter(|(number, _)| number == place.key);
            return paths.find_map(|(_, path)| owners.owner(Field::Devices, path));
        }
        let owner = |field: Option<Field>| owners.owner(field?, place.key);
        owner(place.field).or_else(|| owner(place.cause))
    }
}

fn is_list(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Array(_) | Value::Null))
}

/// Returns the entries of a list by name. An entry without a name, or with the name of an earlier
/// entry, is identified by its index.
fn by_name(list: Option<&Value>, name: SplitEntry) -> Map<String, Value> {
    let mut named = Map::new();
    for (at, entry) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
        match name(entry) {
            Some((name, value)) if !named.contains_key(&*name) => named.insert(name.into_owned(), value),
            _ => named.insert(format!("[{at}]"), entry.clone()),
        };
    }
    named
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, PluginId};
    use serde_json::json;

    use super::*;
    use crate::generator::testing::adjusted;

    #[track_caller]
    fn check(before: Value, after: Value, expected: &[&str]) {
        let found: Vec<String> = diff(&before, &after, None).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_the_same_is_not_told() {
        let spec = json!({"process": {"env": ["A=1"]}, "linux": {"namespaces": [{"type": "pid"}]}});
        check(spec.clone(), spec, &[]);
        check(json!({"linux": {}}), json!({}), &["linux removed"]);
    }

    #[test]
    fn entries_of_lists_are_told_by_their_names() {
        check(
            json!({
                "process": {"env": ["A=1", "B=2"], "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}]},
                "mounts": [{"destination": "/a", "source": "/1"}, {"destination": "/b"}],
                "linux": {"namespaces": [{"type": "pid"}, {"type": "ipc"}]},
            }),
            json!({
                "process": {"env": ["B=3", "C=4"], "rlimits": [{"type": "RLIMIT_CORE", "hard": 1, "soft": 0}]},
                "mounts": [{"destination": "/b"}, {"destination": "/a", "source": "/2"}],
                "linux": {"namespaces": [{"type": "ipc"}, {"type": "network", "path": "/n"}]},
            }),
            &[
                "env A removed",
                "env B changed from \"2\" to \"3\"",
                "env C set to \"4\"",
                "rlimit RLIMIT_CORE changed",
                "mount /a changed",
                "namespace pid removed",
                "namespace network added",
            ],
        );
    }

    #[test]
    fn members_are_told_one_by_one_wherever_they_are() {
        check(
            json!({"linux": {"resources": {"memory": {"limit": 1, "swap": 1}}, "sysctl": {"a": "1"}}, "future": {"x": [1]}}),
            json!({"linux": {"resources": {"memory": {"limit": 2}, "cpu": {"cpus": "0"}}}, "future": {"x": [2]}}),
            &[
                "linux.resources.memory.limit changed from 1 to 2",
                "linux.resources.memory.swap removed",
                "linux.resources.cpu.cpus set to \"0\"",
                "sysctl a removed",
                "future.x changed from [1] to [2]",
            ],
        );
    }

    #[test]
    fn a_variable_without_a_value_or_twice_is_told_by_its_place() {
        check(
            json!({"process": {"env": ["junk", "A=1", "A=2"]}}),
            json!({"process": {"env": ["A=1"]}}),
            &["env [0] removed", "env [2] removed"],
        );
    }

    #[test]
    fn what_a_class_comes_to_is_changed_by_who_set_the_class() {
        let plugin: PluginId = "10-a".parse().unwrap();
        let owners = FieldOwners { simple: [(Field::RdtClass, Owner::of(&plugin))].into(), ..FieldOwners::default() };
        let after = json!({"linux": {"intelRdt": {"closID": "gold"}}});
        let found = diff(&json!({}), &after, Some(&owners));
        assert_eq!(found[0].to_string(), "linux.intelRdt.closID set to \"gold\" by 10-a");
    }

    #[test]
    fn each_change_of_an_adjustment_has_its_owner() {
        let plugin: PluginId = "10-a".parse().unwrap();
        let before = json!({"process": {"args": ["sh"], "env": ["A=1"]}, "annotations": {"k": "1"}});
        let change = |it: &mut Adjustment| {
            it.env.remove("A");
            it.annotations.set("k", "2").unwrap();
            it.args = nri_proto::Args::set(["app"]).unwrap();
            let linux = it.linux.get_or_insert_default();
            linux.oom_score_adj = Some(5);
            let memory = nri_proto::Memory { limit: Some(9), ..Default::default() };
            linux.resources.get_or_insert_default().memory = Some(memory);
            let device = nri_proto::Device { path: "/dev/x".to_owned(), kind: "c".to_owned(), ..Default::default() };
            linux.devices.set(device).unwrap();
        };
        let mut owners = FieldOwners::default();
        for field in [Field::Args, Field::OomScoreAdj, Field::MemLimit] {
            owners.simple.insert(field, Owner::of(&plugin));
        }
        for (field, key) in [(Field::Env, "A"), (Field::Annotations, "k"), (Field::Devices, "/dev/x")] {
            owners.compound.entry(field).or_default().entries.insert(key.to_owned(), Owner::of(&plugin));
        }
        let after = adjusted(before.clone(), change).unwrap();
        let found: Vec<String> = diff(&before, &after, Some(&owners)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "process.args changed from [\"sh\"] to [\"app\"] by 10-a",
                "env A removed by 10-a",
                "process.oomScoreAdj set to 5 by 10-a",
                "annotation k changed from \"1\" to \"2\" by 10-a",
                "device /dev/x added by 10-a",
                "device rule c 0:0 added by 10-a",
                "linux.resources.memory.limit set to 9 by 10-a",
                "linux.resources.memory.swap set to 9 by 10-a",
            ]
        );
    }
}
