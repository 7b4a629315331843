use std::collections::{HashMap, HashSet};

use nri_proto::{ChangeList, Device, DeviceRule, Field};
use serde_json::Value;

use super::document::{self, Object, new_object, text};
use super::{SpecError, check};

const NODES: [&str; 2] = ["linux", "devices"];
pub(super) const RULES: [&str; 3] = ["linux", "resources", "devices"];

/// Adjusts devices and their access rules. A device that is added gets a rule, and the rule of a
/// removed device is removed. If several devices have the same path, the last one is used.
pub(super) fn adjust(spec: &mut Object, changes: &ChangeList<Device>) -> Result<(), SpecError> {
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (at, (path, change)) in changes.iter().enumerate() {
        change.value().map_or(Ok(()), |device| check_device(device))?;
        last.insert(path, at);
    }
    remove(spec, |path| last.contains_key(path))?;
    for (at, (path, change)) in changes.iter().enumerate() {
        if let Some(device) = change.into_value().filter(|_| last.get(path) == Some(&at)) {
            add(spec, device, &access(device))?;
        }
    }
    Ok(())
}

/// Adds a device with this access, and replaces the device at the same path.
pub(super) fn put(spec: &mut Object, device: &Device, access: &str) -> Result<(), SpecError> {
    check_device(device)?;
    remove(spec, |path| path == device.path)?;
    add(spec, device, access)
}

fn add(spec: &mut Object, device: &Device, access: &str) -> Result<(), SpecError> {
    document::list(spec, &NODES)?.push(node(device));
    if let Some(rule) = rule_for(device, access) {
        document::list(spec, &RULES)?.push(rule);
    }
    Ok(())
}

fn remove(spec: &mut Object, goes: impl Fn(&str) -> bool) -> Result<(), SpecError> {
    let Some(nodes) = document::find_list(spec, &NODES)? else { return Ok(()) };
    let gone = nodes.extract_if(.., |node| text(node, "path").is_some_and(&goes));
    let mut gone: HashSet<DeviceNumber> = gone.filter_map(|node| DeviceNumber::of(&node)).collect();
    // Keep the rule of a number that another device has.
    nodes.iter().filter_map(DeviceNumber::of).for_each(|kept| _ = gone.remove(&kept));
    if !gone.is_empty()
        && let Some(rules) = document::find_list(spec, &RULES)?
    {
        let allows = |rule: &Value| rule.get("allow") == Some(&Value::Bool(true));
        rules.retain(|rule| !(allows(rule) && DeviceNumber::of(rule).is_some_and(|number| gone.contains(&number))));
    }
    Ok(())
}

/// The number of a device in the kernel. It identifies the device of a node, or of a rule.
#[derive(PartialEq, Eq, Hash)]
struct DeviceNumber {
    is_block: bool,
    major: i64,
    minor: i64,
}

impl DeviceNumber {
    fn of(value: &Value) -> Option<Self> {
        let is_block = match text(value, "type")? {
            "b" => true,
            "c" | "u" => false,
            _ => return None,
        };
        let number = |key| value.get(key).and_then(Value::as_i64);
        Some(Self { is_block, major: number("major")?, minor: number("minor")? })
    }
}

fn node(device: &Device) -> Value {
    let Device { path, kind, major, minor, file_mode, uid, gid, unknown: _ } = device;
    new_object([
        ("path", path.as_str().into()),
        ("type", kind.as_str().into()),
        ("major", (*major).into()),
        ("minor", (*minor).into()),
        ("fileMode", file_mode.map(permissions).into()),
        ("uid", (*uid).into()),
        ("gid", (*gid).into()),
    ])
}

/// The bits of a mode that encode the file type: those of `os.FileMode` in Go, and those of Unix.
const KIND_IN_GO: u32 = !0 << 19;
const KIND_IN_UNIX: u32 = 0o17_0000;

/// Returns the permission bits of a mode. The file type is in another member of the device.
fn permissions(mode: u32) -> u32 {
    mode & !(KIND_IN_GO | KIND_IN_UNIX)
}

/// Returns the access that the rule of a device allows: reading and writing if the file mode allows
/// it to anyone, and creating the node for the runtime. The file mode then decides who may open the
/// node. If the mode has no permission bits, reading and writing are allowed.
fn access(device: &Device) -> String {
    let mode = device.file_mode.map(permissions).filter(|mode| *mode != 0).unwrap_or(0o666);
    [(mode & 0o444 != 0, 'r'), (mode & 0o222 != 0, 'w'), (true, 'm')]
        .into_iter()
        .filter_map(|(may, letter)| may.then_some(letter))
        .collect()
}

/// Returns the rule of a device. Pipes have no rules.
fn rule_for(device: &Device, access: &str) -> Option<Value> {
    let kind = match device.kind.as_str() {
        "b" => "b",
        "c" | "u" => "c",
        _ => return None,
    };
    Some(new_object([
        ("allow", true.into()),
        ("type", kind.into()),
        ("major", device.major.into()),
        ("minor", device.minor.into()),
        ("access", access.into()),
    ]))
}

fn check_device(device: &Device) -> Result<(), SpecError> {
    let Device { path, kind, major, minor, file_mode, uid: _, gid: _, unknown: _ } = device;
    let checked = check::field(Field::Devices, path);
    checked.path(path)?;
    checked.require(matches!(kind.as_str(), "b" | "c" | "u" | "p"), "the kind of device is unknown")?;
    if kind != "p" {
        checked.within(major, &(0..=MAJORS), "the major number is not between 0 and 4095")?;
        checked.within(minor, &(0..=MINORS), "the minor number is not between 0 and 1048575")?;
    }
    checked.within(&permissions(file_mode.unwrap_or(0)), &(0..=0o7777), "the file mode is out of range")
}

/// The largest device numbers that the kernel can represent.
const MAJORS: i64 = (1 << 12) - 1;
const MINORS: i64 = (1 << 20) - 1;

/// Appends device rules of an adjustment. If several rules match, the last one is used.
pub(super) fn add_rules(spec: &mut Object, rules: &[DeviceRule]) -> Result<(), SpecError> {
    for rule in rules {
        let DeviceRule { allow, kind, major, minor, access, unknown: _ } = rule;
        let checked = check::field(Field::Devices, "");
        checked.require(
            matches!(kind.as_str(), "" | "a" | "b" | "c"),
            "the kind of devices that a rule is for is unknown",
        )?;
        for (number, most) in [(major, MAJORS), (minor, MINORS)] {
            checked.within(&number.unwrap_or(-1), &(-1..=most), "a number in a rule is out of range")?;
        }
        checked
            .require(access.chars().all(|c| "rwm".contains(c)), "the access of a rule is not of `r`, `w` and `m`")?;
        let rule = new_object([
            ("allow", (*allow).into()),
            ("type", kind.as_str().into()),
            ("major", (*major).into()),
            ("minor", (*minor).into()),
            ("access", access.as_str().into()),
        ]);
        document::list(spec, &RULES)?.push(rule);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check_linux, check_linux_refused};
    use super::*;

    fn device(path: &str, kind: &str, major: i64, minor: i64) -> Device {
        Device { path: path.to_owned(), kind: kind.to_owned(), major, minor, ..Device::default() }
    }

    fn spec(devices: Value, rules: Value) -> Value {
        json!({"linux": {"devices": devices, "resources": {"devices": rules}}})
    }

    fn node(path: &str, minor: i64) -> Value {
        json!({"path": path, "type": "c", "major": 1, "minor": minor})
    }

    fn rule(minor: i64, access: &str) -> Value {
        json!({"allow": true, "type": "c", "major": 1, "minor": minor, "access": access})
    }

    #[test]
    fn a_device_may_be_used() {
        let all_set = Device { file_mode: Some(0o640), uid: Some(0), gid: Some(6), ..device("/dev/x", "b", 8, 1) };
        check_linux(
            json!({}),
            |it| it.devices.set(all_set).unwrap(),
            spec(
                json!([{"path": "/dev/x", "type": "b", "major": 8, "minor": 1, "fileMode": 0o640, "uid": 0, "gid": 6}]),
                json!([{"allow": true, "type": "b", "major": 8, "minor": 1, "access": "rwm"}]),
            ),
        );
    }

    /// The modes are Go's `os.ModeDevice | os.ModeCharDevice | 0o640`, and `unix.S_IFCHR | 0o640`.
    #[test]
    fn a_file_mode_does_not_say_what_kind_of_file_it_is() {
        for mode in [1 << 26 | 1 << 21 | 0o640, 0o2_0640] {
            let device = Device { file_mode: Some(mode), ..device("/dev/a", "c", 1, 3) };
            assert_eq!(access(&device), "rwm");
            let mut node = node("/dev/a", 3);
            node["fileMode"] = 0o640.into();
            check_linux(json!({}), |it| it.devices.set(device).unwrap(), spec(json!([node]), json!([rule(3, "rwm")])));
        }
    }

    #[test]
    fn the_access_is_what_the_mode_lets_anyone_do() {
        for (mode, access) in
            [(None, "rwm"), (Some(0o666), "rwm"), (Some(0o400), "rm"), (Some(0o20), "wm"), (Some(0), "rwm")]
        {
            assert_eq!(super::access(&Device { file_mode: mode, ..device("/dev/x", "c", 1, 3) }), access, "{mode:?}");
        }
        // An unbuffered device is a character device in the kernel, and a pipe has no number.
        assert_eq!(rule_for(&device("/dev/x", "u", 1, 3), "rwm"), Some(rule(3, "rwm")));
        assert_eq!(rule_for(&device("/dev/x", "p", 0, 0), "rwm"), None);
    }

    #[test]
    fn a_rule_goes_with_its_device() {
        let deny = json!({"allow": false, "access": "rwm"});
        check_linux(
            spec(json!([node("/dev/a", 3), node("/dev/b", 5)]), json!([deny, rule(3, "rw"), rule(5, "rwm")])),
            |it| it.devices.remove("/dev/a"),
            spec(json!([node("/dev/b", 5)]), json!([deny, rule(5, "rwm")])),
        );
    }

    #[test]
    fn a_rule_stays_for_another_device_of_the_same_number() {
        check_linux(
            spec(json!([node("/dev/a", 3), node("/dev/b", 3)]), json!([rule(3, "rw")])),
            |it| it.devices.remove("/dev/a"),
            spec(json!([node("/dev/b", 3)]), json!([rule(3, "rw")])),
        );
    }

    #[test]
    fn a_device_at_the_same_path_is_replaced_with_its_rule() {
        check_linux(
            spec(json!([node("/dev/a", 3), node("/dev/b", 5)]), json!([rule(3, "rw"), rule(5, "rwm")])),
            |it| it.devices.set(device("/dev/a", "c", 1, 7)).unwrap(),
            spec(json!([node("/dev/b", 5), node("/dev/a", 7)]), json!([rule(5, "rwm"), rule(7, "rwm")])),
        );
    }

    #[test]
    fn u18_a_device_is_one_that_can_be_made() {
        let check = |device: Device, expected: &str| {
            check_linux_refused(|it| it.devices.set(device).unwrap(), expected);
        };
        check(device("/dev/x", "zz", 1, 1), r#"Devices "/dev/x": the kind of device is unknown"#);
        check(device("/dev/x", "c", -1, 1), r#"Devices "/dev/x": the major number is not between 0 and 4095"#);
        check(device("/dev/x", "c", 1, 1 << 20), r#"Devices "/dev/x": the minor number is not between 0 and 1048575"#);
        check(device("dev/x", "c", 1, 1), r#"Devices "dev/x": the path is not absolute"#);
        check(device("/dev/../x", "c", 1, 1), r#"Devices "/dev/../x": the path contains `..`"#);
        let mode = Device { file_mode: Some(1 << 17), ..device("/dev/x", "c", 1, 1) };
        check(mode, r#"Devices "/dev/x": the file mode is out of range"#);
    }
}
