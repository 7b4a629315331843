//! Devices: nodes, rules, CDI devices and network devices.

use super::{Keyed, Unknown};

/// A device node in a container (`LinuxDevice` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The path in the container.
    pub path: String,
    /// The kind of device: `c`, `b`, `u` or `p`.
    pub kind: String,
    /// The major number.
    pub major: i64,
    /// The minor number.
    pub minor: i64,
    /// The permissions. `None` for the default of the runtime.
    pub file_mode: Option<u32>,
    /// The user id of the owner. `None` for the default of the runtime.
    pub uid: Option<u32>,
    /// The group id of the owner. `None` for the default of the runtime.
    pub gid: Option<u32>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Device {
    /// Creates a device node, with the runtime's defaults for permissions and owner.
    pub fn new(path: impl Into<String>, kind: impl Into<String>, major: i64, minor: i64) -> Self {
        Self { path: path.into(), kind: kind.into(), major, minor, ..Self::default() }
    }
}

impl Keyed for Device {
    fn key(&self) -> &str {
        &self.path
    }

    fn set_key(&mut self, key: String) {
        self.path = key;
    }
}

/// A rule that allows or denies devices to a container (`LinuxDeviceCgroup` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRule {
    /// Whether the rule allows or denies the devices.
    pub allow: bool,
    /// The kind of devices: `a` for all, `c` or `b`.
    pub kind: String,
    /// The major number. `None` for all.
    pub major: Option<i64>,
    /// The minor number. `None` for all.
    pub minor: Option<i64>,
    /// The kinds of access: any of `r` (read), `w` (write) and `m` (create the node).
    pub access: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// A CDI device, by its name (`CDIDevice` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CdiDevice {
    /// The fully qualified name, such as `vendor.com/class=name`.
    pub name: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl CdiDevice {
    /// Creates a reference to the device with this fully qualified name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), unknown: Unknown::default() }
    }
}

/// A network device that is moved into a container (`LinuxNetDevice` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetDevice {
    /// The name in the container. Empty to keep the name on the host.
    pub name: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl NetDevice {
    /// Creates a device with this name in the container.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), unknown: Unknown::default() }
    }
}
