use nri_proto::{Change, ChangeMap, Field, NetDevice};

use super::document::{self, Object, new_object};
use super::{SpecError, check};

const PATH: [&str; 2] = ["linux", "netDevices"];

pub(super) fn adjust(spec: &mut Object, changes: &ChangeMap<NetDevice>) -> Result<(), SpecError> {
    for (host_name, change) in changes.iter() {
        check_name(host_name, host_name)?;
        match change {
            Change::Set(NetDevice { name, unknown: _ }) | Change::Replace(NetDevice { name, unknown: _ }) => {
                if !name.is_empty() {
                    check_name(host_name, name)?;
                }
                let device = new_object([("name", name.as_str().into())]);
                document::object(spec, &PATH)?.insert(host_name.to_owned(), device);
            }
            Change::Remove => document::unset(spec, &PATH, host_name)?,
        }
    }
    Ok(())
}

/// Requires a name that the kernel accepts for a network device.
fn check_name(key: &str, name: &str) -> Result<(), SpecError> {
    let is_name = (1..=15).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_ascii_whitespace());
    check::field(Field::LinuxNetDevices, key).require(is_name, "this is not the name of a network device")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check_linux, check_linux_refused};
    use super::*;

    fn named(name: &str) -> NetDevice {
        NetDevice { name: name.to_owned(), ..NetDevice::default() }
    }

    #[test]
    fn network_devices_keep_their_names_or_get_others() {
        check_linux(
            json!({"linux": {"netDevices": {"eth0": {"name": "a"}, "eth1": {}}}}),
            |linux| {
                linux.net_devices.remove("eth0");
                linux.net_devices.set("eth2", named("lan")).unwrap();
                linux.net_devices.set("eth3", named("")).unwrap();
            },
            json!({"linux": {"netDevices": {"eth1": {}, "eth2": {"name": "lan"}, "eth3": {}}}}),
        );
    }

    #[test]
    fn a_name_is_one_that_the_kernel_takes() {
        for name in ["a/b", "..", "a b", "abcdefghijklmnop"] {
            let expected = "LinuxNetDevices \"eth0\": this is not the name of a network device";
            check_linux_refused(|linux| linux.net_devices.set("eth0", named(name)).unwrap(), expected);
        }
        let expected = "LinuxNetDevices: this is not the name of a network device";
        check_linux_refused(|linux| linux.net_devices.set("", named("a")).unwrap(), expected);
    }
}
